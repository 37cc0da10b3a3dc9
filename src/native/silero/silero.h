/*
 * Shared by silero.c and net.cpp: the shape of Silero's net (v5 and v6, 16 kHz) and the function that runs it.
 * https://github.com/snakers4/silero-vad (MIT)
 */
#ifndef SHRUTI_SILERO_H
#define SHRUTI_SILERO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  WINDOW = 512,   /* samples of one probability */
  CONTEXT = 64,   /* samples before them that the net also uses */
  REFLECTED = 64, /* samples after them, mirrored */
  HEARD = CONTEXT + WINDOW + REFLECTED,
  FRAME = 256,
  HOP = 128,
  FRAMES = 4,
  BINS = FRAME / 2 + 1,
  FIRST_CHANNELS = 128, /* of the first convolution */
  PRODUCTS = 6, /* products of matrices that the first convolution takes */
  LAYERS = 3,   /* the convolutions after it */
  TAPS = 3,
  CELLS = 128,
  GATES = 4 * CELLS,
  STRETCH = 64, /* gates whose recurrent weights are together, so that they are read in the order of memory */
  ROWS = 4, /* rows of a matrix that are computed together; all matrices have a multiple of it */
};

typedef struct {
  int32_t frames_in, channels_in, frames_out, channels_out, stride;
} layer;

static const layer SHAPES[LAYERS] = {
    {4, FIRST_CHANNELS, 2, 64, 2},
    {2, 64, 1, 64, 2},
    {1, 64, 1, CELLS, 1},
};

/* The state between two windows of a recording; all zero at its beginning. */
typedef struct {
  float context[CONTEXT];
  float hidden[CELLS];
  float cell[CELLS];
} state;

/* net.cpp, compiled for a kind of processor. */
typedef void run_net(const float *weights, state *now, const int16_t *pcm, int32_t windows, float *probabilities);

#ifdef __cplusplus
}
#endif

#endif
