/*
 * The Silero voice activity detector for many windows in one call. It uses the build of net.cpp for this processor.
 */
#include "silero.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define EXPORTED __attribute__((visibility("default")))

run_net run_plain;
#ifdef __x86_64__
run_net run_avx2, run_avx512;
#endif

/* Builds of the net, the slowest first. Each needs all instructions of those before it. */
static run_net *const VARIANTS[] = {
    run_plain,
#ifdef __x86_64__
    run_avx2,
    run_avx512,
#endif
};

#ifdef __x86_64__
/* Bits of the register XCR0: what the operating system saves of AVX, and of AVX-512. */
#define AVX_STATE 0x06
#define AVX512_STATE 0xe6

/* Not `__builtin_cpu_supports`: a library of zig cannot have it. */
static int32_t best_for_processor(void) {
  unsigned a, b, c, d, state, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return 0;
  __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || (state & AVX_STATE) != AVX_STATE) return 0;
  return (b & bit_AVX512F) && (state & AVX512_STATE) == AVX512_STATE ? 2 : 1;
}
#endif

/* Returns the index of the fastest build that this processor can run; it can run all before it, too. */
EXPORTED int32_t silero_best_variant(void) {
#ifdef __x86_64__
  return best_for_processor();
#else
  return 0;
#endif
}

/* Lengths of the two arrays that the caller keeps, in floats. */
EXPORTED int32_t silero_state_floats(void) { return sizeof(state) / sizeof(float); }

EXPORTED int32_t silero_weight_floats(void) {
  int32_t count = 3 * FRAME + PRODUCTS * FIRST_CHANNELS * BINS + FIRST_CHANNELS;
  for (int32_t n = 0; n < LAYERS; n++) {
    count += SHAPES[n].channels_out * SHAPES[n].channels_in * TAPS + SHAPES[n].channels_out;
  }
  return count + GATES * CELLS + GATES + CELLS * GATES + CELLS + 1;
}

/*
 * Adds up each of the windows of 512 samples. sums: receives three numbers for each: the sum of its samples, the sum of
 * their squares, and how many are not zero. All are exact.
 */
EXPORTED void silero_sums(const int16_t *pcm, int32_t windows, double *sums) {
  for (int32_t window = 0; window < windows; window++, pcm += WINDOW, sums += 3) {
    int32_t sum = 0, counted = 0;
    int64_t squares = 0;
    for (int32_t n = 0; n < WINDOW; n++) {
      sum += pcm[n];
      squares += pcm[n] * pcm[n];
      counted += pcm[n] != 0;
    }
    sums[0] = sum;
    sums[1] = (double)squares;
    sums[2] = counted;
  }
}

/*
 * weights: silero_weight_floats() of them; carried: silero_state_floats(), zero before the first call of a recording;
 * pcm: windows * 512 samples at 16 kHz; probabilities: receives one for each window, 0 to 1.
 */
EXPORTED void silero_run(int32_t variant, const float *weights, float *carried, const int16_t *pcm, int32_t windows,
                         float *probabilities) {
  VARIANTS[variant](weights, (state *)carried, pcm, windows, probabilities);
}
