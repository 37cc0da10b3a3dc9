/*
 * Silero's net for many windows in one call; compiled once for each kind of processor, with -D RUN_NET=<its name> and
 * -D VECTOR=<floats in a vector register>.
 *
 * Everything before the recurrent layer uses one window alone. So LANES windows are computed side by side, and a weight
 * is read once for all of them. The weights are in the order in which they are read (src/native/build/silero.ts).
 *
 * The net: magnitudes of a short-time Fourier transform (frames of 256 samples, 128 apart) -> four convolutions of
 * width 3 -> LSTM of 128 cells -> one probability.
 *
 * No variable here has an initial value that is computed: it would be with this kind's instructions, when the library is
 * loaded, on any processor.
 */
#include <string.h>

#include "../headers/fourier.h"
#include "silero.h"

#define INLINE static SHRUTI_INLINE
#define restrict __restrict__

enum {
  LANES = 32,
  STRIP = 2 * VECTOR, /* lanes that are computed together, so that all sums stay in registers */
  MOST_GROUPS = VECTOR == 16 ? 2 : 1, /* AVX-512 has twice as many registers */
  TILE = 16, /* rows that are arranged together, so that their lines stay in the cache */
};

typedef float Floats __attribute__((vector_size(4 * VECTOR)));
/* In memory of any alignment. Unaligned loads cost nothing on processors that have vectors of this length. */
typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

/* A number of rows of LANES. */
#define BLOCK(rows) ((rows) * LANES)

extern "C" run_net RUN_NET;

/* A part of `multiply`: GROUPS times ROWS rows. */
template <int32_t GROUPS>
INLINE void multiply_groups(float *restrict out, const float *restrict weights, const float *restrict in,
                            int32_t inner) {
  for (int32_t lane = 0; lane < LANES; lane += STRIP) {
    float *sums = out + lane;
    vector sum[GROUPS * ROWS][2];
    for (int32_t r = 0; r < GROUPS * ROWS; r++) {
      for (int32_t half = 0; half < 2; half++) sum[r][half] = *(vector *)(sums + r * LANES + half * VECTOR);
    }
    for (int32_t i = 0; i < inner; i++) {
      const float *lanes = in + i * LANES + lane;
      const vector low = *(const vector *)lanes, high = *(const vector *)(lanes + VECTOR);
      for (int32_t r = 0; r < GROUPS * ROWS; r++) {
        const float weight = weights[(r / ROWS * inner + i) * ROWS + r % ROWS];
        sum[r][0] += weight * low;
        sum[r][1] += weight * high;
      }
    }
    for (int32_t r = 0; r < GROUPS * ROWS; r++) {
      for (int32_t half = 0; half < 2; half++) *(vector *)(sums + r * LANES + half * VECTOR) = sum[r][half];
    }
  }
}

/* out[rows][LANES] += weights * in[inner][LANES]; weights: for each four rows, the four of each column together. */
INLINE const float *multiply(float *restrict out, const float *restrict weights, const float *restrict in,
                             int32_t rows, int32_t inner) {
  int32_t row = 0;
  for (; row + MOST_GROUPS * ROWS <= rows; row += MOST_GROUPS * ROWS, weights += MOST_GROUPS * inner * ROWS) {
    multiply_groups<MOST_GROUPS>(out + BLOCK(row), weights, in, inner);
  }
  for (; row < rows; row += ROWS, weights += inner * ROWS) multiply_groups<1>(out + BLOCK(row), weights, in, inner);
  return weights;
}

INLINE void spread(float *restrict out, const float *restrict bias, int32_t rows) {
  for (int32_t row = 0; row < rows; row++) {
    for (int32_t lane = 0; lane < LANES; lane++) out[row * LANES + lane] = bias[row];
  }
}

INLINE void drop_negatives(float *restrict out, int32_t rows) {
  for (int32_t i = 0; i < BLOCK(rows); i++) out[i] = out[i] > 0 ? out[i] : 0;
}

/* e^x within 4e-6 of its value for x of 80 at most: a power of two, and a polynomial for the rest. The sigmoid and the
   tangent that are made of it are within 3e-7. */
INLINE float exponential(float x) {
  float power = x * 1.44269504f;
  power = power < -126.0f ? -126.0f : power > 126.0f ? 126.0f : power;
  /* Too large for digits after the point, so adding it rounds. */
  const float rounding = 12582912.0f;
  const float whole = (power + rounding) - rounding;
  const float rest = (power - whole) * 0.69314718f;
  const float series =
      1 + rest * (1 + rest * (1.0f / 2 + rest * (1.0f / 6 + rest * (1.0f / 24 + rest * (1.0f / 120 + rest / 720)))));
  union {
    int32_t bits;
    float value;
  } scale = {((int32_t)whole + 127) << 23};
  return series * scale.value;
}

INLINE float sigmoid(float x) { return 1 / (1 + exponential(-x)); }
INLINE float hyperbolic_tangent(float x) { return 2 * sigmoid(2 * x) - 1; }

/* Arranges windows side by side, sample by sample. Lanes without a window are silent. */
INLINE void arrange(float *restrict heard, const float *restrict context, const int16_t *restrict pcm,
                    int32_t windows) {
  if (windows < LANES) memset(heard, 0, BLOCK(CONTEXT + WINDOW) * sizeof(float));
  for (int32_t i = 0; i < CONTEXT; i++) heard[i * LANES] = context[i];
  for (int32_t start = 0; start < CONTEXT + WINDOW; start += TILE) {
    /* The context of the first window is not in `pcm`. */
    for (int32_t lane = start < CONTEXT; lane < windows; lane++) {
      const int16_t *samples = pcm + (int64_t)lane * WINDOW + start - CONTEXT;
      for (int32_t i = 0; i < TILE; i++) heard[(start + i) * LANES + lane] = samples[i] * (1.0f / 32768);
    }
  }
  for (int32_t i = 0; i < REFLECTED; i++) {
    memcpy(heard + BLOCK(CONTEXT + WINDOW + i), heard + BLOCK(CONTEXT + WINDOW - 2 - i), LANES * sizeof(float));
  }
}

/* Magnitudes of the frames. Weights: the cosines and sines of the circle, then what a frame is multiplied by. */
INLINE const float *spectrum(float magnitudes[FRAMES][BLOCK(BINS)], const float *restrict heard,
                             const float *restrict weights) {
  const Circle circle = {weights, weights + FRAME, FRAME};
  const float *shape = weights + 2 * FRAME;
  Complex<Floats> even_odd[FRAME / 2], other[FRAME / 2];
  Floats power[BINS];
  for (int32_t frame = 0; frame < FRAMES; frame++) {
    for (int32_t lane = 0; lane < LANES; lane += VECTOR) {
      const float *samples = heard + BLOCK(frame * HOP) + lane;
      for (int32_t n = 0; n < FRAME / 2; n++, samples += BLOCK(2)) {
        even_odd[n].re = *(const vector *)samples * shape[2 * n];
        even_odd[n].im = *(const vector *)(samples + LANES) * shape[2 * n + 1];
      }
      fourier_step<4>(circle, 128, 1, even_odd, other);
      fourier_step<4>(circle, 32, 4, other, even_odd);
      fourier_step<4>(circle, 8, 16, even_odd, other);
      fourier_step<2>(circle, 2, 64, other, even_odd);
      powers_of_real(circle, even_odd, power);
      for (int32_t bin = 0; bin < BINS; bin++) {
        float *magnitude = magnitudes[frame] + bin * LANES + lane;
        for (int32_t n = 0; n < VECTOR; n++) magnitude[n] = __builtin_sqrtf(power[bin][n]);
      }
    }
  }
  return shape + FRAME;
}

/*
 * The first convolution, of width 3 with one frame of zeros on either side; negative results become zero. Its four
 * frames take six products of matrices instead of ten: Winograd's F(4, 3) with the points 0, 1, -1, 2, -2 (Lavin and Gray
 * 2016, "Fast Algorithms for Convolutional Neural Networks"). FROM says how a product's input is made of the frames, INTO
 * how its result adds to those of the convolution; the weights are transformed when the library is built.
 */
INLINE const float *convolve_first(float out[FRAMES][BLOCK(FIRST_CHANNELS)], float in[FRAMES][BLOCK(BINS)],
                                   const float *restrict weights) {
  static const float FROM[PRODUCTS][FRAMES] = {
      {0, -5, 0, 1}, {-4, -4, 1, 1}, {4, -4, -1, 1}, {-2, -1, 2, 1}, {2, -1, -2, 1}, {4, 0, -5, 0},
  };
  static const float INTO[PRODUCTS][FRAMES] = {
      {1, 0, 0, 0}, {1, 1, 1, 1}, {1, -1, 1, -1}, {1, 2, 4, 8}, {1, -2, 4, -8}, {0, 0, 0, 1},
  };
  float sum[BLOCK(BINS)], product[BLOCK(FIRST_CHANNELS)];
  const float *bias = weights + PRODUCTS * FIRST_CHANNELS * BINS;
  for (int32_t frame = 0; frame < FRAMES; frame++) spread(out[frame], bias, FIRST_CHANNELS);
  for (int32_t p = 0; p < PRODUCTS; p++) {
    const float *from = FROM[p], *into = INTO[p];
    for (int32_t i = 0; i < BLOCK(BINS); i++) {
      sum[i] = from[0] * in[0][i] + from[1] * in[1][i] + from[2] * in[2][i] + from[3] * in[3][i];
    }
    memset(product, 0, sizeof product);
    weights = multiply(product, weights, sum, FIRST_CHANNELS, BINS);
    for (int32_t i = 0; i < BLOCK(FIRST_CHANNELS); i++) {
      for (int32_t frame = 0; frame < FRAMES; frame++) out[frame][i] += into[frame] * product[i];
    }
  }
  for (int32_t frame = 0; frame < FRAMES; frame++) drop_negatives(out[frame], FIRST_CHANNELS);
  return bias + FIRST_CHANNELS;
}

/* A convolution of width 3 with one frame of zeros on either side; negative results become zero. */
INLINE const float *convolve(float out[FRAMES][BLOCK(FIRST_CHANNELS)], float in[FRAMES][BLOCK(FIRST_CHANNELS)],
                             const layer shape, const float *restrict weights) {
  const int32_t tap_floats = shape.channels_out * shape.channels_in;
  const float *bias = weights + TAPS * tap_floats;
  for (int32_t frame = 0; frame < shape.frames_out; frame++) {
    spread(out[frame], bias, shape.channels_out);
    for (int32_t tap = 0; tap < TAPS; tap++) {
      const int32_t from = frame * shape.stride + tap - 1;
      if (from < 0 || from >= shape.frames_in) continue;
      multiply(out[frame], weights + tap * tap_floats, in[from], shape.channels_out, shape.channels_in);
    }
    drop_negatives(out[frame], shape.channels_out);
  }
  return bias + shape.channels_out;
}

/* Gives each window its own gates. */
INLINE void divide(float own[LANES][GATES], const float *restrict gates) {
  for (int32_t start = 0; start < GATES; start += TILE) {
    for (int32_t lane = 0; lane < LANES; lane++) {
      for (int32_t i = start; i < start + TILE; i++) own[lane][i] = gates[i * LANES + lane];
    }
  }
}

/* One step of the LSTM for one window, whose share of the gates (input and biases) is in `gates`; gates: i, f, g, o. */
INLINE float step(state *now, float *restrict gates, const float *restrict recurrent, const float *restrict output,
                  float output_bias) {
  /* With AVX-512, 64 gates: 128 are read from the second cache more slowly (the net takes 5.9 instead of 5.1 µs a
     window, Zen 5). */
  enum { TOGETHER = VECTOR == 16 ? 4 : 8 };
  for (int32_t first = 0; first < GATES; first += TOGETHER * VECTOR) {
    vector sum[TOGETHER];
    for (int32_t n = 0; n < TOGETHER; n++) sum[n] = *(vector *)(gates + first + n * VECTOR);
    for (int32_t from = 0; from < CELLS; from++) {
      const float *column = recurrent + first / STRETCH * STRETCH * CELLS + from * STRETCH + first % STRETCH;
      for (int32_t n = 0; n < TOGETHER; n++) sum[n] += now->hidden[from] * *(const vector *)(column + n * VECTOR);
    }
    for (int32_t n = 0; n < TOGETHER; n++) *(vector *)(gates + first + n * VECTOR) = sum[n];
  }
  for (int32_t i = 0; i < CELLS; i++) {
    const float kept = sigmoid(gates[CELLS + i]) * now->cell[i];
    now->cell[i] = kept + sigmoid(gates[i]) * hyperbolic_tangent(gates[2 * CELLS + i]);
    now->hidden[i] = sigmoid(gates[3 * CELLS + i]) * hyperbolic_tangent(now->cell[i]);
  }
  float sum = output_bias;
  for (int32_t i = 0; i < CELLS; i++) sum += (now->hidden[i] > 0 ? now->hidden[i] : 0) * output[i];
  return sigmoid(sum);
}

void RUN_NET(const float *weights, state *now, const int16_t *pcm, int32_t windows, float *probabilities) {
  float heard[BLOCK(HEARD)], gates[BLOCK(GATES)], own[LANES][GATES], magnitudes[FRAMES][BLOCK(BINS)];
  float one[FRAMES][BLOCK(FIRST_CHANNELS)], other[FRAMES][BLOCK(FIRST_CHANNELS)];
  for (int32_t done = 0; done < windows; done += LANES) {
    const int32_t count = windows - done < LANES ? windows - done : LANES;
    arrange(heard, now->context, pcm + (int64_t)done * WINDOW, count);
    const float *next = spectrum(magnitudes, heard, weights);
    next = convolve_first(one, magnitudes, next);
    next = convolve(other, one, SHAPES[0], next);
    next = convolve(one, other, SHAPES[1], next);
    next = convolve(other, one, SHAPES[2], next);
    spread(gates, next + GATES * CELLS, GATES);
    const float *recurrent = multiply(gates, next, other[0], GATES, CELLS) + GATES;
    const float *output = recurrent + CELLS * GATES;
    divide(own, gates);
    for (int32_t lane = 0; lane < count; lane++) {
      probabilities[done + lane] = step(now, own[lane], recurrent, output, output[CELLS]);
    }
    for (int32_t i = 0; i < CONTEXT; i++) {
      now->context[i] = pcm[(int64_t)(done + count) * WINDOW - CONTEXT + i] * (1.0f / 32768);
    }
  }
}
