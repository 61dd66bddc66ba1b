"""The C text in front of every kernel: types, and the operations that C does not have or does not define.

C11 with the vector extensions that gcc and clang share. Nothing here calls libm beyond fmaf, and nothing depends on
compiler flags except that `-ffp-contract=off` must be given, fast-math must not, and MXCSR (or its like) must have its
default rounding, without flush to zero. Types ending in `m` are what lies in memory: they may alias anything, and
vectors of them need the alignment of one element only.
"""

from circuit.render.lanes import widths
from circuit.render.prelude_codes import prelude_codes
from circuit.render.prelude_dots import prelude_dots

_SCALAR = """\
typedef float f32;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef f32 f32m __attribute__((may_alias));
typedef i32 i32m __attribute__((may_alias));
typedef u32 u32m __attribute__((may_alias));
typedef struct met_team met_team;
#define MET_INLINE static inline __attribute__((always_inline, unused))
#define MET_AHEAD(p) __builtin_prefetch(p)
#define MET_LATER(p) (__builtin_prefetch(p, 0, 2), (p) += 64) /* into the second-level cache */
#define MET_PARK(x) __asm__ volatile("" : "+m"(x)) /* lives in memory until its next use, which frees a register */
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma)
#define MET_ELEMENTWISE_FMA
#endif
#endif

void met_barrier(met_team *team); /* all threads of the team wait for each other */
/* The turns of a loop that threads share: most are dealt out, the last fourth goes to whoever is done first. */
i32 met_first(met_team *team, i32 n, i32 tid, i32 nt);
i32 met_next(met_team *team, i32 at, i32 tid, i32 nt);
i32 met_ahead(i32 others, i32 intel); /* words to ask the memory for ahead: the second on processors of Intel */
MET_INLINE f32 met_float(u32 x) { union { u32 u; f32 f; } b = {x}; return b.f; }
MET_INLINE u32 met_word(f32 x) { union { f32 f; u32 u; } b = {x}; return x != x ? 0x7fc00000u : b.u; }
MET_INLINE f32 met_fma_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
MET_INLINE f32 met_max_f32(f32 a, f32 b) { return a < b ? b : a; }
MET_INLINE i32 met_max_i32(i32 a, i32 b) { return a < b ? b : a; }
MET_INLINE u32 met_max_u32(u32 a, u32 b) { return a < b ? b : a; }
MET_INLINE f32 met_trunc_f32(f32 x) { return __builtin_truncf(x); }
MET_INLINE i32 met_i32_of_f32(f32 x) {
  return x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? -0x7fffffff - 1 : x == x ? (i32)x : 0;
}
MET_INLINE u32 met_u32_of_f32(f32 x) { return x >= 0x1p32f ? 0xffffffffu : x > 0.0f ? (u32)x : 0u; }
MET_INLINE f32 met_f32_of_i32(i32 x) { return (f32)x; }
MET_INLINE f32 met_f32_of_u32(u32 x) { return (f32)x; }
MET_INLINE i32 met_div_i32(i32 a, i32 b) {
  i64 q = (i64)a / b;
  return (i32)(q - ((i64)a % b != 0 && (a < 0) != (b < 0)));
}
MET_INLINE i32 met_mod_i32(i32 a, i32 b) {
  i64 r = (i64)a % b;
  return (i32)(r + (r != 0 && (a < 0) != (b < 0) ? b : 0));
}
MET_INLINE u32 met_div_u32(u32 a, u32 b) { return a / b; }
MET_INLINE u32 met_mod_u32(u32 a, u32 b) { return a % b; }
"""

_VECTOR = """
typedef f32 f32x@W __attribute__((vector_size(@B)));
typedef i32 i32x@W __attribute__((vector_size(@B)));
typedef u32 u32x@W __attribute__((vector_size(@B)));
typedef f32 f32x@Wm __attribute__((vector_size(@B), aligned(4), may_alias));
typedef i32 i32x@Wm __attribute__((vector_size(@B), aligned(4), may_alias));
typedef u32 u32x@Wm __attribute__((vector_size(@B), aligned(4), may_alias));
MET_INLINE f32x@W met_all_f32x@W(f32 x) { return (f32x@W){@X}; }
MET_INLINE i32x@W met_all_i32x@W(i32 x) { return (i32x@W){@X}; }
MET_INLINE u32x@W met_all_u32x@W(u32 x) { return (u32x@W){@X}; }
MET_INLINE i32x@W met_mod_i32x@W(i32x@W a, i32x@W b) {
  for (int l = 0; l < @W; l++) a[l] = met_mod_i32(a[l], b[l]);
  return a;
}
MET_INLINE i32x@W met_div_i32x@W(i32x@W a, i32x@W b) {
  for (int l = 0; l < @W; l++) a[l] = met_div_i32(a[l], b[l]);
  return a;
}
MET_INLINE u32x@W met_mod_u32x@W(u32x@W a, u32x@W b) { return a % b; }
MET_INLINE u32x@W met_div_u32x@W(u32x@W a, u32x@W b) { return a / b; }
MET_INLINE u32x@W met_word_x@W(f32x@W x) {
  i32x@W number = x == x;
  return ((u32x@W)x & (u32x@W)number) | (0x7fc00000u & ~(u32x@W)number);
}
MET_INLINE f32x@W met_half_by_parts_x@W(u32x@W h) { /* no subnormal is an operand: that takes some processors long */
  u32x@W moved = (h & 0x7fffu) << 13;
  i32x@W special = (i32x@W)moved >= 0x0f800000, tiny = (i32x@W)moved < 0x00800000;
  u32x@W normal = moved + 0x38000000u + ((u32x@W)special & 0x38000000u);
  u32x@W small = (u32x@W)((f32x@W)(moved + 0x38800000u) - 0x1p-14f);
  return (f32x@W)(((u32x@W)tiny & small) | (~(u32x@W)tiny & normal) | ((h & 0x8000u) << 16));
}
MET_INLINE f32x@W met_f32x@W_of_i32(i32x@W x) { return __builtin_convertvector(x, f32x@W); }
MET_INLINE f32x@W met_f32x@W_of_u32(u32x@W x) { /* both halves are exact, their sum rounds once */
  f32x@W high = __builtin_convertvector((i32x@W)(x >> 16), f32x@W);
  return high * 65536.0f + __builtin_convertvector((i32x@W)(x & 0xffffu), f32x@W);
}
MET_INLINE i32x@W met_i32x@W_of_f32(f32x@W x) {
  i32x@W over = x >= 0x1p31f, under = x < -0x1p31f, inside = (x == x) & ~over & ~under;
  i32x@W whole = __builtin_convertvector((f32x@W)((i32x@W)x & inside), i32x@W);
  return whole | (over & 0x7fffffff) | (under & (-0x7fffffff - 1));
}
MET_INLINE u32x@W met_u32x@W_of_f32(f32x@W x) {
  u32x@W v = {0};
  for (int l = 0; l < @W; l++) v[l] = met_u32_of_f32(x[l]);
  return v;
}
"""

_PORTABLE = """\
MET_INLINE f32x@W met_select_f32x@W(i32x@W p, f32x@W a, f32x@W b) {
  return (f32x@W)((p & (i32x@W)a) | (~p & (i32x@W)b));
}
MET_INLINE f32x@W met_max_f32x@W(f32x@W a, f32x@W b) { return met_select_f32x@W(a < b, b, a); }
"""
_SELECTS = """\
MET_INLINE i32x@W met_select_i32x@W(i32x@W p, i32x@W a, i32x@W b) {
  return (i32x@W)met_select_f32x@W(p, (f32x@W)a, (f32x@W)b);
}
MET_INLINE u32x@W met_select_u32x@W(i32x@W p, u32x@W a, u32x@W b) {
  return (u32x@W)met_select_f32x@W(p, (f32x@W)a, (f32x@W)b);
}
MET_INLINE i32x@W met_max_i32x@W(i32x@W a, i32x@W b) {
#if @INTEGERS && !defined(__clang__)
  return @LARGER;
#else
  return met_select_i32x@W(a < b, b, a);
#endif
}
MET_INLINE u32x@W met_max_u32x@W(u32x@W a, u32x@W b) { return met_select_u32x@W((i32x@W)(a < b), b, a); }
"""
_FMA = (
    """\
MET_INLINE f32x@W met_fma_f32x@W(f32x@W a, f32x@W b, f32x@W c) {
#if defined(MET_ELEMENTWISE_FMA)
  return __builtin_elementwise_fma(a, b, c);
#elif @FMA
  return @VFMA;
#else
  for (int l = 0; l < @W; l++) c[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return c;
#endif
}
MET_INLINE void met_into_f32x@W(f32x@W *total, f32x@W a, f32x@W b) { /* keeps the total in its register */
#if @FMA && !defined(__clang__)
  __asm__("vfmadd231ps %2, %1, %0" : "+@R"(*total) : "@R"(a), "@R"(b));
#else
  *total = met_fma_f32x@W(a, b, *total);
#endif
}
#if @AVX && !defined(__clang__)
MET_INLINE f32x@W met_select_f32x@W(i32x@W p, f32x@W a, f32x@W b) { return @SELECT; }
MET_INLINE f32x@W met_max_f32x@W(f32x@W a, f32x@W b) { return @MAX; } /* b > a ? b : a */
MET_INLINE f32x@W met_trunc_f32x@W(f32x@W x) { return @TRUNC; }
#else
"""
    + _PORTABLE
    + """\
MET_INLINE f32x@W met_trunc_f32x@W(f32x@W x) { for (int l = 0; l < @W; l++) x[l] = __builtin_truncf(x[l]); return x; }
#endif
"""
)
_SIDE_BY_SIDE = """\
MET_INLINE f32x@W met_halves_x@W(const u32m *p) { /* of 2 lanes a word */
  typedef unsigned short shorts __attribute__((vector_size(@H), aligned(4), may_alias));
  return met_half_x@W(__builtin_convertvector(*(const shorts *)p, u32x@W));
}
"""
_HALVES = (
    """\
MET_INLINE f32x@W met_half_x@W(u32x@W h) { return met_half_by_parts_x@W(h); } /* the high half is zero */
MET_INLINE f32x@W met_low_half_x@W(u32x@W w) { return met_half_by_parts_x@W(w & 0xffffu); }
MET_INLINE f32x@W met_high_half_x@W(u32x@W w) { return met_half_by_parts_x@W(w >> 16); }
"""
    + _SIDE_BY_SIDE
)


def _halves(width: int) -> str:
    return _HALVES.replace("@W", str(width)).replace("@H", str(2 * width))


_HALF8 = (
    """\
#if defined(__F16C__) && defined(__AVX2__) && !defined(__clang__)
typedef char met_bytes_32 __attribute__((vector_size(32)));
typedef short met_shorts_8 __attribute__((vector_size(16)));
typedef i64 met_longs_4 __attribute__((vector_size(32)));
MET_INLINE i32x8 met_halves_apart_x8(u32x8 w) { /* the eight low halves, then the eight high ones */
  const met_bytes_32 order = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                              0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
  return (i32x8)__builtin_ia32_permdi256((met_longs_4)__builtin_ia32_pshufb256((met_bytes_32)w, order), 0xd8);
}
MET_INLINE f32x8 met_low_half_x8(u32x8 w) {
  return __builtin_ia32_vcvtph2ps256((met_shorts_8)__builtin_ia32_vextractf128_si256(met_halves_apart_x8(w), 0));
}
MET_INLINE f32x8 met_high_half_x8(u32x8 w) {
  return __builtin_ia32_vcvtph2ps256((met_shorts_8)__builtin_ia32_vextractf128_si256(met_halves_apart_x8(w), 1));
}
MET_INLINE f32x8 met_half_x8(u32x8 h) { return met_low_half_x8(h); }
MET_INLINE f32x8 met_halves_x8(const u32m *p) { /* of 2 lanes a word */
  typedef short shorts __attribute__((vector_size(16), aligned(4), may_alias));
  return __builtin_ia32_vcvtph2ps256(*(const shorts *)p);
}
#else
"""
    + _halves(8)
    + "#endif\n"
)
_HALF16 = (
    """\
#if defined(__AVX512BW__) && !defined(__clang__)
typedef short met_shorts_32 __attribute__((vector_size(64)));
typedef short met_shorts_16 __attribute__((vector_size(32)));
typedef i64 met_longs_8 __attribute__((vector_size(64)));
MET_INLINE met_shorts_32 met_halves_apart_x16(u32x16 w) { /* the sixteen low halves, then the sixteen high ones */
  const met_shorts_32 order = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                               1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  return __builtin_ia32_permvarhi512_mask((met_shorts_32)w, order, order, -1);
}
MET_INLINE f32x16 met_f32x16_of_halves(met_longs_4 h) {
  return __builtin_ia32_vcvtph2ps512_mask((met_shorts_16)h, (f32x16){0}, -1, 4);
}
MET_INLINE f32x16 met_low_half_x16(u32x16 w) {
  met_longs_8 h = (met_longs_8)met_halves_apart_x16(w);
  return met_f32x16_of_halves(__builtin_ia32_extracti64x4_mask(h, 0, (met_longs_4){0}, -1));
}
MET_INLINE f32x16 met_high_half_x16(u32x16 w) {
  met_longs_8 h = (met_longs_8)met_halves_apart_x16(w);
  return met_f32x16_of_halves(__builtin_ia32_extracti64x4_mask(h, 1, (met_longs_4){0}, -1));
}
MET_INLINE f32x16 met_half_x16(u32x16 h) { return met_low_half_x16(h); }
MET_INLINE f32x16 met_halves_x16(const u32m *p) { /* of 2 lanes a word */
  typedef i64 longs __attribute__((vector_size(32), aligned(4), may_alias));
  return met_f32x16_of_halves(*(const longs *)p);
}
#else
"""
    + _halves(16)
    + "#endif\n"
)
_PICK16 = """\
MET_INLINE f32x16 met_pick_x16(f32x16 table, u32x16 place) { /* table[place % 16] */
#if defined(__AVX512F__) && !defined(__clang__)
  return __builtin_ia32_permvarsf512_mask(table, (i32x16)place, table, -1);
#else
  f32x16 found;
  for (int l = 0; l < 16; l++) found[l] = table[place[l] & 15];
  return found;
#endif
}
"""

# What the fast paths of gcc on x86 are for each width; the portable text is beside them.
_X86 = {
    "4": {
        "@FMA": "defined(__FMA__)",
        "@VFMA": "__builtin_ia32_vfmaddps(a, b, c)",
        "@AVX": "defined(__AVX__)",
        "@SELECT": "__builtin_ia32_blendvps(b, a, (f32x4)p)",
        "@MAX": "__builtin_ia32_maxps(b, a)",
        "@TRUNC": "__builtin_ia32_roundps(x, 11)",
        "@INTEGERS": "defined(__SSE4_1__)",
        "@LARGER": "__builtin_ia32_pmaxsd128(a, b)",
    },
    "8": {
        "@FMA": "defined(__FMA__)",
        "@VFMA": "__builtin_ia32_vfmaddps256(a, b, c)",
        "@AVX": "defined(__AVX__)",
        "@SELECT": "__builtin_ia32_blendvps256(b, a, (f32x8)p)",
        "@MAX": "__builtin_ia32_maxps256(b, a)",
        "@TRUNC": "__builtin_ia32_roundps256(x, 11)",
        "@INTEGERS": "defined(__AVX2__)",
        "@LARGER": "__builtin_ia32_pmaxsd256(a, b)",
    },
    "16": {
        "@FMA": "defined(__AVX512F__)",
        "@VFMA": "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)",
        "@AVX": "defined(__AVX512F__)",
        "@SELECT": "(f32x16)((p & (i32x16)a) | (~p & (i32x16)b))",
        "@MAX": "__builtin_ia32_maxps512_mask(b, a, a, -1, 4)",
        "@TRUNC": "__builtin_ia32_rndscaleps_mask(x, 11, x, -1, 4)",
        "@INTEGERS": "defined(__AVX512F__)",
        "@LARGER": "__builtin_ia32_pmaxsd512_mask(a, b, a, -1)",
    },
}


def prelude(lanes: int) -> str:
    """The text for vector registers of `lanes` values."""
    parts = [_SCALAR]
    for width in sorted(widths(lanes)):
        text = (_VECTOR + _FMA + _SELECTS).replace("@X", ", ".join("x" * width)).replace("@B", str(4 * width))
        for name, code in _X86[str(width)].items():
            text = text.replace(name, code)
        parts += [text.replace("@R", "x" if width < 16 else "v").replace("@W", str(width))]
        parts += {4: [_halves(4)], 8: [_HALF8], 16: [_HALF16, _PICK16]}[width]
    every = (1, *sorted(widths(lanes)))
    return "".join([*parts, *map(prelude_codes, every), *map(prelude_dots, every)])
