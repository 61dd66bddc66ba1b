/* How fast the processor multiplies and adds, when nothing waits for memory: prints "f32 int8", operations a second.

   compute_probe THREADS

   Twelve independent accumulators hide the latency. f32: fused multiply-add. int8: what an exact dot product of signed
   bytes takes, from registers: with VNNI one instruction, else the multiply of bytes to i16, of i16 to i32, the add. */
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ACCUMULATORS 12
#define STEPS 30000000L

#ifdef __AVX512F__
typedef __m512 floats;
#define FLOATS _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#else
typedef __m256 floats;
#define FLOATS _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#endif

#ifdef __AVX512VNNI__
typedef __m512i bytes;
#define BYTES _mm512_set1_epi8
static inline bytes dot(bytes sum, bytes a, bytes b) { return _mm512_dpbusd_epi32(sum, a, b); }
#else
typedef __m256i bytes;
#define BYTES _mm256_set1_epi8
static inline bytes dot(bytes sum, bytes a, bytes b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
#endif

static long steps;
static volatile float float_sink;
static volatile int byte_sink;

/* The operands are opaque to the compiler, and so is every accumulator at the end. */
static void *float_run(void *argument) {
  (void)argument;
  floats a = FLOATS(0.999f), b = FLOATS(0.001f), sum[ACCUMULATORS];
  __asm__ volatile("" : "+x"(a), "+x"(b));
  for (int i = 0; i < ACCUMULATORS; i++) sum[i] = FLOATS((float)i);
  for (long s = 0; s < steps; s++) {
#pragma GCC unroll 12
    for (int i = 0; i < ACCUMULATORS; i++) sum[i] = FMA(sum[i], a, b);
  }
  for (int i = 0; i < ACCUMULATORS; i++) float_sink += sum[i][0];
  return NULL;
}

static void *byte_run(void *argument) {
  (void)argument;
  bytes a = BYTES(3), b = BYTES(-5), sum[ACCUMULATORS];
  for (int i = 0; i < ACCUMULATORS; i++) sum[i] = BYTES(0);
  for (long s = 0; s < steps; s++) {
    __asm__ volatile("" : "+x"(a), "+x"(b)); /* else the products move out of the loop */
#pragma GCC unroll 12
    for (int i = 0; i < ACCUMULATORS; i++) {
      bytes each = a;
      __asm__ volatile("" : "+x"(each));
      sum[i] = dot(sum[i], each, b);
    }
  }
  for (int i = 0; i < ACCUMULATORS; i++) byte_sink += (int)sum[i][0];
  return NULL;
}

static double per_s(void *(*run)(void *), int n_threads, double per_step) {
  struct timespec start, end;
  pthread_t *threads = malloc((size_t)n_threads * sizeof *threads);
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < n_threads; i++)
    if (pthread_create(&threads[i], NULL, run, NULL)) exit(1);
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  free(threads);
  double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  return (double)n_threads * (double)steps * ACCUMULATORS * per_step / seconds;
}

int main(int argc, char **argv) {
  int n_threads = argc == 2 ? atoi(argv[1]) : 0;
  if (n_threads < 1) return 2;
  steps = STEPS / 20; /* the clock rises */
  per_s(float_run, n_threads, 1);
  steps = STEPS;
  double f32 = per_s(float_run, n_threads, 2.0 * sizeof(floats) / sizeof(float));
  double int8 = per_s(byte_run, n_threads, 2.0 * sizeof(bytes));
  printf("%.6e %.6e\n", f32, int8);
  return 0;
}
