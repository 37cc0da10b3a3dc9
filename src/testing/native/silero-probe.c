/*
 * Runs each build of the speech detector's net that this processor can run, on recordings of 1 to 69 windows: noise at
 * full scale, and a constant of it. silero-memory.test.ts compiles it with checks of addresses and of undefined behaviour.
 *
 *   silero-probe WEIGHTS    prints a line for each build
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512, MOST_WINDOWS = 69, SUMS = 3 };

int32_t silero_best_variant(void);
int32_t silero_state_floats(void);
int32_t silero_weight_floats(void);
void silero_run(int32_t variant, const float *weights, float *carried, const int16_t *pcm, int32_t windows,
                float *probabilities);
void silero_sums(const int16_t *pcm, int32_t windows, double *sums);

/* Memory of exactly the sizes that the functions may use, so that each access beyond them is found. */
static void listen(int32_t variant, const float *weights, int32_t windows) {
  int16_t *pcm = malloc(windows * WINDOW * sizeof *pcm);
  for (int32_t n = 0; n < windows * WINDOW; n++) pcm[n] = windows % 3 == 0 ? INT16_MIN : (int16_t)rand();
  float *state = calloc(silero_state_floats(), sizeof *state);
  float *probabilities = malloc(windows * sizeof *probabilities);
  double *sums = malloc(windows * SUMS * sizeof *sums);
  for (int32_t call = 0; call < 2; call++) silero_run(variant, weights, state, pcm, windows, probabilities);
  silero_sums(pcm, windows, sums);
  for (int32_t n = 0; n < windows; n++) {
    if (!(probabilities[n] >= 0 && probabilities[n] <= 1)) exit(4);
  }
  free(pcm), free(state), free(probabilities), free(sums);
}

int main(int count, char **arguments) {
  const size_t floats = silero_weight_floats();
  float *weights = malloc(floats * sizeof *weights);
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (!file || fread(weights, sizeof *weights, floats, file) != floats || fgetc(file) != EOF) return 3;
  for (int32_t variant = 0; variant <= silero_best_variant(); variant++) {
    for (int32_t windows = 1; windows <= MOST_WINDOWS; windows += 4) listen(variant, weights, windows);
    printf("build %d\n", variant);
  }
  free(weights);
  return fclose(file);
}
