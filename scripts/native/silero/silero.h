/*
 * What silero.c and net.c share: the shape of Silero's net (v5 and v6, 16 kHz) and how it is run.
 * https://github.com/snakers4/silero-vad (MIT)
 */
#ifndef SHRUTI_SILERO_H
#define SHRUTI_SILERO_H

#include <stdint.h>

enum {
  WINDOW = 512,   /* samples that one answer is about */
  CONTEXT = 64,   /* samples before them that the net hears as well */
  REFLECTED = 64, /* samples behind them, mirrored */
  HEARD = CONTEXT + WINDOW + REFLECTED,
  FRAME = 256,
  HOP = 128,
  FRAMES = 4,
  BINS = 129,
  EVEN = FRAME / 2,    /* pairs of samples, and the one in the middle, that a cosine sees */
  ODD = FRAME / 2 - 1, /* pairs that a sine sees */
  LAYERS = 4,
  TAPS = 3,
  CELLS = 128,
  GATES = 4 * CELLS,
  ROWS = 4, /* rows of a matrix that are worked on together */
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

/* What a recording's windows hand on from one to the next; all zero at its beginning. */
typedef struct {
  float context[CONTEXT];
  float hidden[CELLS];
  float cell[CELLS];
} state;

static inline int32_t padded(int32_t rows) { return (rows + ROWS - 1) / ROWS * ROWS; }

/* net.c, compiled for a kind of processor. */
typedef void run_net(const float *weights, state *now, const int16_t *pcm, int32_t windows, float *probabilities);

#endif
