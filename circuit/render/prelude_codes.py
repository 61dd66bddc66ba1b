"""The C text for vectors of codes (codes.py) and for folds along lanes (across.py)."""

_SCALAR = """
MET_INLINE i32 met_canonical(i32 magnitude) { return magnitude > 0x7f800000 ? 0x7fc00000 : magnitude; } /* a NaN's */
"""
_VECTOR = """\
MET_INLINE i32x@W met_magnitude_x@W(f32x@W x) { return (i32x@W)x & 0x7fffffff; }
"""
_ACROSS4 = """\
#if defined(__clang__)
#define MET_HALVES(x) __builtin_shufflevector(x, x, 2, 3, 0, 1)
#define MET_PAIRS(x) __builtin_shufflevector(x, x, 1, 0, 3, 2)
#else
#define MET_HALVES(x) __builtin_shuffle(x, (i32x4){2, 3, 0, 1})
#define MET_PAIRS(x) __builtin_shuffle(x, (i32x4){1, 0, 3, 2})
#endif
MET_INLINE i32 met_across_max_i32x4(i32x4 x) {
  x = met_max_i32x4(x, MET_HALVES(x));
  return met_max_i32x4(x, MET_PAIRS(x))[0];
}
MET_INLINE i32 met_across_add_i32x4(i32x4 x) {
  u32x4 sum = (u32x4)x + (u32x4)MET_HALVES(x);
  return (i32)(sum + MET_PAIRS(sum))[0];
}
"""
_ACROSS = """\
MET_INLINE i32 met_across_max_i32x@W(i32x@W x) {
  union { i32x@W whole; i32x@H half[2]; } a = {x};
  return met_across_max_i32x@H(met_max_i32x@H(a.half[0], a.half[1]));
}
MET_INLINE i32 met_across_add_i32x@W(i32x@W x) {
  union { u32x@W whole; u32x@H half[2]; } a = {(u32x@W)x};
  return met_across_add_i32x@H((i32x@H)(a.half[0] + a.half[1]));
}
"""
_ROUNDED = """\
MET_INLINE i32x@W met_rounded_x@W(f32x@W x, i32 lo, i32 hi) { /* in lo .. hi, ties to even; 0 where x is NaN */
#if @X86 && !defined(__clang__)
  f32x@W inside = @MAX(@MIN(x, met_all_f32x@W((f32)hi)@MASK), met_all_f32x@W((f32)lo)@MASK);
  return @CONVERT((f32x@W)((i32x@W)inside & (x == x))@WHOLE);
#else
  i32x@W whole = met_max_i32x@W(met_i32x@W_of_f32(x + 0x1.8p23f + -0x1.8p23f), met_all_i32x@W(lo));
  return met_select_i32x@W(whole < met_all_i32x@W(hi), whole, met_all_i32x@W(hi));
#endif
}
"""
_X86 = {
    4: {
        "@X86": "defined(__SSE2__)",
        "@MIN": "__builtin_ia32_minps",
        "@MAX": "__builtin_ia32_maxps",
        "@CONVERT": "__builtin_ia32_cvtps2dq",
        "@MASK": "",
        "@WHOLE": "",
        "@SHUFFLES": "defined(__SSSE3__)",
        "@SHUFFLE": "__builtin_ia32_pshufb128",
        "@EVERY": "",
    },
    8: {
        "@X86": "defined(__AVX__)",
        "@MIN": "__builtin_ia32_minps256",
        "@MAX": "__builtin_ia32_maxps256",
        "@CONVERT": "__builtin_ia32_cvtps2dq256",
        "@MASK": "",
        "@WHOLE": "",
        "@SHUFFLES": "defined(__AVX2__)",
        "@SHUFFLE": "__builtin_ia32_pshufb256",
        "@EVERY": "",
    },
    16: {
        "@X86": "defined(__AVX512F__)",
        "@MIN": "__builtin_ia32_minps512_mask",
        "@MAX": "__builtin_ia32_maxps512_mask",
        "@CONVERT": "__builtin_ia32_cvtps2dq512_mask",
        "@MASK": ", x, -1, 4",
        "@WHOLE": ", (i32x16){0}, -1, 4",
        "@SHUFFLES": "defined(__AVX512BW__)",
        "@SHUFFLE": "__builtin_ia32_pshufb512_mask",
        "@EVERY": ", (bytes){0}, -1",
    },
}
_ON_TOP = """\
MET_INLINE u32x@W met_byte_on_top_x@W(u32x@W w, int byte) { /* (w >> 8 * byte) << 24, of a constant byte */
#if @SHUFFLES && !defined(__clang__)
  if (byte < 3) {
    typedef char bytes __attribute__((vector_size(4 * @W)));
    const u32x@W order = (0x00808080u | (u32)byte << 24) + (u32x@W){@FIRST}; /* 0x80 gives a zero */
    return (u32x@W)@SHUFFLE((bytes)w, (bytes)order@EVERY);
  }
#endif
  return (w << (24 - 8 * byte)) & 0xff000000u;
}
MET_INLINE u32x@W met_nibble_on_top_x@W(u32x@W w, int place) { /* ((w >> 4 * place) % 16 - 8) << 28 */
  return met_byte_on_top_x@W(((place % 2 ? w : w << 4) ^ 0x88888888u) & 0xf0f0f0f0u, place / 2);
}
"""
_FOUR_BYTES = """\
MET_INLINE u32x@W met_four_bytes_x@W(const i32m *p) { /* the low bytes of four i32 a lane, each in -128 .. 127 */
@OWN  u32x@W words;
  for (int l = 0; l < @W; l++)
    words[l] = ((u32)p[4 * l] & 255) | ((u32)p[4 * l + 1] & 255) << 8 | ((u32)p[4 * l + 2] & 255) << 16 |
               (u32)p[4 * l + 3] << 24;
  return words;
@LAST}
"""
_FOUR_BYTES8 = """\
#if defined(__AVX2__) && !defined(__clang__)
  typedef short shorts __attribute__((vector_size(32)));
  const i32x8m *v = (const i32x8m *)p;
  shorts low = __builtin_ia32_packssdw256(v[0], v[1]), high = __builtin_ia32_packssdw256(v[2], v[3]);
  i32x8 mixed = (i32x8)__builtin_ia32_packsswb256(low, high); /* each half of a register by itself */
  return (u32x8)__builtin_ia32_permvarsi256(mixed, (i32x8){0, 4, 1, 5, 2, 6, 3, 7});
#else
"""


def prelude_codes(width: int) -> str:
    """The text for vectors of `width` lanes; 1 is what all of them share."""
    if width == 1:
        return _SCALAR
    own = _FOUR_BYTES8 if width == 8 else ""
    text = _VECTOR + (_ACROSS4 if width == 4 else _ACROSS) + _ROUNDED + _ON_TOP + _FOUR_BYTES
    first = ", ".join(f"{lane % 4 * 4}u << 24" for lane in range(width))
    for name, code in {**_X86[width], "@FIRST": first, "@OWN": own, "@LAST": "#endif\n" if own else ""}.items():
        text = text.replace(name, code)
    return text.replace("@W", str(width)).replace("@H", str(width // 2))
