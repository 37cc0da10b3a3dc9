/*
 * The Silero voice activity detector for many windows in one call. It uses the build of net.cpp for this processor.
 */
#include "silero.h"

#include "../onnx/processor.h"

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
  return best_for_processor();
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
