"""The C text in front of every kernel: types, and the operations that C does not have or does not define.

C11 with the vector extensions that gcc and clang share. Nothing here calls libm beyond fmaf, and nothing depends on
compiler flags except that `-ffp-contract=off` must be given, fast-math must not, and MXCSR (or its like) must have its
default rounding, without flush to zero. Types ending in `m` are what lies in memory: they may alias anything, and
vectors of them need the alignment of one element only.
"""

from circuit.render.lanes import WIDTHS

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
#define MET_AHEAD(p) __builtin_prefetch((const char *)(p) + 2048)
#define MET_PARK(x) __asm__ volatile("" : "+m"(x)) /* lives in memory until its next use, which frees a register */
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma)
#define MET_ELEMENTWISE_FMA
#endif
#endif

void met_barrier(met_team *team); /* all threads of the team wait for each other */
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
MET_INLINE i32x@W met_max_i32x@W(i32x@W a, i32x@W b) { return met_select_i32x@W(a < b, b, a); }
MET_INLINE u32x@W met_max_u32x@W(u32x@W a, u32x@W b) { return met_select_u32x@W((i32x@W)(a < b), b, a); }
"""
_FMA = (
    """\
MET_INLINE f32x@W met_fma_f32x@W(f32x@W a, f32x@W b, f32x@W c) {
#if defined(MET_ELEMENTWISE_FMA)
  return __builtin_elementwise_fma(a, b, c);
#elif defined(__FMA__)
  return __builtin_ia32_vfmaddps@S(a, b, c);
#else
  for (int l = 0; l < @W; l++) c[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return c;
#endif
}
MET_INLINE void met_into_f32x@W(f32x@W *total, f32x@W a, f32x@W b) { /* keeps the total in its register */
#if defined(__FMA__) && !defined(__clang__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*total) : "x"(a), "x"(b));
#else
  *total = met_fma_f32x@W(a, b, *total);
#endif
}
#if defined(__AVX__) && !defined(__clang__)
MET_INLINE f32x@W met_select_f32x@W(i32x@W p, f32x@W a, f32x@W b) { return __builtin_ia32_blendvps@S(b, a, (f32x@W)p); }
MET_INLINE f32x@W met_max_f32x@W(f32x@W a, f32x@W b) { return __builtin_ia32_maxps@S(b, a); } /* b > a ? b : a */
MET_INLINE f32x@W met_trunc_f32x@W(f32x@W x) { return __builtin_ia32_roundps@S(x, 11); }
#else
"""
    + _PORTABLE
    + """\
MET_INLINE f32x@W met_trunc_f32x@W(f32x@W x) { for (int l = 0; l < @W; l++) x[l] = __builtin_truncf(x[l]); return x; }
#endif
"""
)
_HALF8 = """\
MET_INLINE f32x8 met_half_x8(u32x8 h) { /* f16 bits in the low half of each word, the high half is zero */
#if defined(__F16C__) && defined(__AVX2__) && !defined(__clang__)
  i32x4 low = __builtin_ia32_vextractf128_si256((i32x8)h, 0), high = __builtin_ia32_vextractf128_si256((i32x8)h, 1);
  return __builtin_ia32_vcvtph2ps256(__builtin_ia32_packusdw128(low, high));
#else
  return met_half_by_parts_x8(h);
#endif
}
"""
_HALF4 = """\
MET_INLINE f32x4 met_half_x4(u32x4 h) { return met_half_by_parts_x4(h); }
"""

_FAST = {w: (_FMA + _SELECTS).replace("@W", str(w)).replace("@S", "256" if w == 8 else "") for w in WIDTHS}

PRELUDE = (
    _SCALAR
    + "".join(
        _VECTOR.replace("@W", str(w)).replace("@B", str(4 * w)).replace("@X", ", ".join("x" * w)) + _FAST[w]
        for w in sorted(WIDTHS)
    )
    + _HALF4
    + _HALF8
)
