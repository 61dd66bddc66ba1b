"""The C text for sums of products of bytes (dots.py): a sum in the making, its start, a word more, its end.

Every variant gives the same exact integer. x86 multiplies unsigned bytes by signed ones and adds neighbours in 16 bits,
saturating, which no sum here reaches: 2 * 127 * 128 < 2**15, and of codes below 16 eight words do not either. A signed
code goes in as its magnitude, with its sign on the other factor.
"""

_PORTABLE = """\
typedef i32@V met_sum_@K_x@W;
MET_INLINE i32@V met_start_@K_x@W(void) { return (i32@V){0}; }
MET_INLINE i32@V met_add_@K_x@W(i32@V a, u32@V w, u32@V x) {
  for (int s = 0; s < 32; s += 8) a += ((i32@V)(w << s) >> 24) * ((i32@V)(x << s) >> 24);
  return a;
}
MET_INLINE i32@V met_end_@K_x@W(i32@V a) { return a; }
"""

_X86 = """\
#if defined(@F) && !defined(__clang__)
#define MET_ADDED_x@W(a) __asm__ volatile("" : "+@R"(a)) /* neither put off nor moved past a prefetch */
typedef char met_bytes_x@W __attribute__((vector_size(@B)));
typedef short met_pairs_x@W __attribute__((vector_size(@B)));
MET_INLINE met_pairs_x@W met_pairs_x@W_of(u32x@W w, u32x@W x) { return (met_pairs_x@W)@MADDUBS; }
MET_INLINE i32x@W met_joined_x@W(met_pairs_x@W p) { return (i32x@W)@MADDWD; }
MET_INLINE met_bytes_x@W met_magnitude_x@W(met_bytes_x@W w) { return @MAGNITUDE; }
MET_INLINE met_bytes_x@W met_signed_x@W(met_bytes_x@W x, met_bytes_x@W w) { return @SIGNED; } /* -x where w < 0 */
typedef met_pairs_x@W met_sum_u4_x@W;
MET_INLINE met_pairs_x@W met_start_u4_x@W(void) { return (met_pairs_x@W){0}; }
MET_INLINE met_pairs_x@W met_add_u4_x@W(met_pairs_x@W a, u32x@W w, u32x@W x) {
  a += met_pairs_x@W_of(w, x);
  MET_ADDED_x@W(a);
  return a;
}
MET_INLINE i32x@W met_end_u4_x@W(met_pairs_x@W a) { return met_joined_x@W(a); }
typedef i32x@W met_sum_u7_x@W;
MET_INLINE i32x@W met_start_u7_x@W(void) { return (i32x@W){0}; }
MET_INLINE i32x@W met_add_u7_x@W(i32x@W a, u32x@W w, u32x@W x) {
  a += met_joined_x@W(met_pairs_x@W_of(w, x));
  MET_ADDED_x@W(a);
  return a;
}
MET_INLINE i32x@W met_end_u7_x@W(i32x@W a) { return a; }
typedef i32x@W met_sum_s8_x@W;
MET_INLINE i32x@W met_start_s8_x@W(void) { return (i32x@W){0}; }
MET_INLINE i32x@W met_add_s8_x@W(i32x@W a, u32x@W w, u32x@W x) {
  met_bytes_x@W b = (met_bytes_x@W)w, y = met_signed_x@W((met_bytes_x@W)x, b);
  a += met_joined_x@W(met_pairs_x@W_of((u32x@W)met_magnitude_x@W(b), (u32x@W)y));
  MET_ADDED_x@W(a);
  return a;
}
MET_INLINE i32x@W met_end_s8_x@W(i32x@W a) { return a; }
#else
@P#endif
"""

_BUILTINS = {
    8: {
        "@F": "__AVX2__",
        "@R": "x",
        "@B": "32",
        "@MADDUBS": "__builtin_ia32_pmaddubsw256((met_bytes_x8)w, (met_bytes_x8)x)",
        "@MADDWD": "__builtin_ia32_pmaddwd256(p, (met_pairs_x8){0} + 1)",
        "@MAGNITUDE": "__builtin_ia32_psignb256(w, w)",
        "@SIGNED": "__builtin_ia32_psignb256(x, w)",
    },
    16: {
        "@F": "__AVX512BW__",
        "@R": "v",
        "@B": "64",
        "@MADDUBS": "__builtin_ia32_pmaddubsw512_mask((met_bytes_x16)w, (met_bytes_x16)x, (met_pairs_x16){0}, -1)",
        "@MADDWD": "__builtin_ia32_pmaddwd512_mask(p, (met_pairs_x16){0} + 1, (i32x16){0}, -1)",
        "@MAGNITUDE": "__builtin_ia32_pabsb512_mask(w, w, -1)",
        "@SIGNED": "__builtin_ia32_psubb512_mask((met_bytes_x16){0}, x, x, __builtin_ia32_cvtb2mask512(w))",
    },
}

KINDS = ("u4", "u7", "s8")


def _portable(width: int) -> str:
    vector = f"x{width}" if width > 1 else ""
    texts = (_PORTABLE.replace("@K", kind).replace("@W", str(width)).replace("@V", vector) for kind in KINDS)
    return "".join(texts)


def prelude_dots(width: int) -> str:
    """The text for vectors of `width` lanes; 1 is a scalar."""
    if width not in _BUILTINS:
        return _portable(width)
    text = _X86
    for name, code in _BUILTINS[width].items():
        text = text.replace(name, code)
    return text.replace("@W", str(width)).replace("@P", _portable(width))
