/*
 * Shared by silero.c and net.c: the shape of Silero's net (v5 and v6, 16 kHz) and the function that runs it.
 * https://github.com/snakers4/silero-vad (MIT)
 */
#ifndef SHRUTI_SILERO_H
#define SHRUTI_SILERO_H

#include <stdint.h>

enum {
  WINDOW = 512,   /* samples of one probability */
  CONTEXT = 64,   /* samples before them that the net also uses */
  REFLECTED = 64, /* samples after them, mirrored */
  HEARD = CONTEXT + WINDOW + REFLECTED,
  FRAME = 256,
  HOP = 128,
  FRAMES = 4,
  BINS = 129,
  EVEN = FRAME / 2,    /* pairs of samples for a cosine, and the one in the middle */
  ODD = FRAME / 2 - 1, /* pairs of samples for a sine */
  LAYERS = 4,
  TAPS = 3,
  CELLS = 128,
  GATES = 4 * CELLS,
  STRETCH = 128, /* gates whose recurrent weights are together, so that they are read in the order of memory */
  ROWS = 4, /* rows of a matrix that are computed together */
};

typedef struct {
  int32_t frames_in, channels_in, frames_out, channels_out, stride;
} layer;

static const layer SHAPES[LAYERS] = {
    {4, BINS, 4, 128, 1},
    {4, 128, 2, 64, 2},
    {2, 64, 1, 64, 2},
    {1, 64, 1, CELLS, 1},
};

/* The state between two windows of a recording; all zero at its beginning. */
typedef struct {
  float context[CONTEXT];
  float hidden[CELLS];
  float cell[CELLS];
} state;

static inline int32_t padded(int32_t rows) { return (rows + ROWS - 1) / ROWS * ROWS; }

/* net.c, compiled for a kind of processor. */
typedef void run_net(const float *weights, state *now, const int16_t *pcm, int32_t windows, float *probabilities);

#endif
