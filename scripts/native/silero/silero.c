/*
 * The Silero voice activity detector for many windows in one call. It uses the build of net.c for this processor.
 */
#include "silero.h"

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

/* Returns the index of the fastest build that this processor can run; it can run all before it, too. */
EXPORTED int32_t silero_best_variant(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

/* Lengths of the two arrays that the caller keeps, in floats. */
EXPORTED int32_t silero_state_floats(void) { return sizeof(state) / sizeof(float); }

EXPORTED int32_t silero_weight_floats(void) {
  int32_t count = padded(BINS) * (EVEN + ODD);
  for (int32_t n = 0; n < LAYERS; n++) {
    count += padded(SHAPES[n].channels_out) * SHAPES[n].channels_in * TAPS + SHAPES[n].channels_out;
  }
  return count + GATES * CELLS + GATES + CELLS * GATES + CELLS + 1;
}

/*
 * weights: silero_weight_floats() of them; carried: silero_state_floats(), zero before the first call of a recording;
 * pcm: windows * 512 samples at 16 kHz; probabilities: receives one for each window, 0 to 1.
 */
EXPORTED void silero_run(int32_t variant, const float *weights, float *carried, const int16_t *pcm, int32_t windows,
                         float *probabilities) {
  VARIANTS[variant](weights, (state *)carried, pcm, windows, probabilities);
}
