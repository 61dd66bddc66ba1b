"""The C text for sums of products of bytes (dots.py): a sum in the making, its start, a word more, its end.

Every variant gives the same exact integer. x86 multiplies unsigned bytes by signed ones. With VNNI it adds all four
products to an i32, exactly; where the codes have signs, 128 is added to each byte of the row, and the excess, 128 times
the sum of the codes, is taken off at the end: it is one for all rows. AVX2 adds neighbours in 16 bits, saturating,
which no sum here reaches: 2 * 127 * 128 < 2**15, and of codes below 16 eight words do not either. A signed code then
goes in as its magnitude, with its sign on the other factor.
"""

KINDS = ("u4", "u7", "s8")

_PORTABLE = """\
typedef i32@V met_sum_@K_x@W;
MET_INLINE i32@V met_start_@K_x@W(void) { return (i32@V){0}; }
MET_INLINE i32@V met_add_@K_x@W(i32@V a, u32@V w, u32@V x) {
  for (int s = 0; s < 32; s += 8) a += ((i32@V)(w << s) >> 24) * ((i32@V)(x << s) >> 24);
  return a;
}
MET_INLINE i32@V met_end_@K_x@W(i32@V a) { return a; }
"""
_NO_EXCESS = """\
MET_INLINE i32@V met_excess_x@W(i32@V a, u32@V w) { return (void)w, a; }
MET_INLINE i32@V met_rest_x@W(i32@V a, i32@V excess) { return (void)excess, a; }
"""

_VNNI = """\
MET_INLINE i32x@W met_dots_x@W(i32x@W a, u32x@W w, u32x@W x) { /* w unsigned, x signed; volatile as in MET_ADDED */
  __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(w), "v"(x));
  return a;
}
"""
_VNNI_SUM = """\
typedef i32x@W met_sum_@K_x@W;
MET_INLINE i32x@W met_start_@K_x@W(void) { return (i32x@W){0}; }
MET_INLINE i32x@W met_add_@K_x@W(i32x@W a, u32x@W w, u32x@W x) { return met_dots_x@W(a, @A); }
MET_INLINE i32x@W met_end_@K_x@W(i32x@W a) { return a; }
"""
_VNNI_FACTORS = {"u4": "w, x", "u7": "w, x", "s8": "x ^ 0x80808080u, w"}
_VNNI_EXCESS = """\
MET_INLINE i32x@W met_excess_x@W(i32x@W a, u32x@W w) { return met_dots_x@W(a, (u32x@W){0} + 0x80808080u, w); }
MET_INLINE i32x@W met_rest_x@W(i32x@W a, i32x@W excess) { return a - excess; }
"""

_AVX2 = """\
#define MET_ADDED(a) __asm__ volatile("" : "+x"(a)) /* neither put off nor moved past a prefetch */
typedef char met_bytes __attribute__((vector_size(32)));
typedef short met_pairs __attribute__((vector_size(32)));
MET_INLINE met_pairs met_pairs_of(u32x8 w, u32x8 x) {
  return (met_pairs)__builtin_ia32_pmaddubsw256((met_bytes)w, (met_bytes)x);
}
MET_INLINE i32x8 met_joined(met_pairs p) { return (i32x8)__builtin_ia32_pmaddwd256(p, (met_pairs){0} + 1); }
typedef met_pairs met_sum_u4_x8;
MET_INLINE met_pairs met_start_u4_x8(void) { return (met_pairs){0}; }
MET_INLINE met_pairs met_add_u4_x8(met_pairs a, u32x8 w, u32x8 x) {
  a += met_pairs_of(w, x);
  MET_ADDED(a);
  return a;
}
MET_INLINE i32x8 met_end_u4_x8(met_pairs a) { return met_joined(a); }
typedef i32x8 met_sum_u7_x8;
MET_INLINE i32x8 met_start_u7_x8(void) { return (i32x8){0}; }
MET_INLINE i32x8 met_add_u7_x8(i32x8 a, u32x8 w, u32x8 x) {
  a += met_joined(met_pairs_of(w, x));
  MET_ADDED(a);
  return a;
}
MET_INLINE i32x8 met_end_u7_x8(i32x8 a) { return a; }
typedef i32x8 met_sum_s8_x8;
MET_INLINE i32x8 met_start_s8_x8(void) { return (i32x8){0}; }
MET_INLINE i32x8 met_add_s8_x8(i32x8 a, u32x8 w, u32x8 x) {
  met_bytes b = (met_bytes)w, y = __builtin_ia32_psignb256((met_bytes)x, b); /* -x where w < 0 */
  a += met_joined(met_pairs_of((u32x8)__builtin_ia32_psignb256(b, b), (u32x8)y));
  MET_ADDED(a);
  return a;
}
MET_INLINE i32x8 met_end_s8_x8(i32x8 a) { return a; }
"""


def prelude_dots(width: int) -> str:
    """The text for vectors of `width` lanes; 1 is a scalar."""
    sums = {
        kind: (_PORTABLE.replace("@K", kind), _VNNI_SUM.replace("@K", kind).replace("@A", _VNNI_FACTORS[kind]))
        for kind in KINDS
    }
    portable = "".join([*(plain for plain, _ in sums.values()), _NO_EXCESS])
    text = portable
    if width in (8, 16):
        vnni = "".join([_VNNI, *(own for _, own in sums.values()), _VNNI_EXCESS])
        avx2 = f"#elif defined(__AVX2__) && !defined(__clang__)\n{_AVX2}{_NO_EXCESS}" if width == 8 else ""
        text = f"#if defined(__AVX512VNNI__) && defined(__AVX512VL__)\n{vnni}{avx2}#else\n{portable}#endif\n"
    return text.replace("@W", str(width)).replace("@V", f"x{width}" if width > 1 else "")
