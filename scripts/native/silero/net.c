/*
 * Silero's net for many windows in one call; compiled once for each kind of processor, with -D RUN_NET=<its name> and
 * -D VECTOR=<floats in a vector register>.
 *
 * Everything before the recurrent layer uses one window alone. So LANES windows are computed side by side, and a weight
 * is read once for all of them. The weights are in the order in which they are read (scripts/native/silero.ts).
 *
 * The net: magnitudes of a short-time Fourier transform (frames of 256 samples, 128 apart) -> four convolutions of
 * width 3 -> LSTM of 128 cells -> one probability.
 */
#include <string.h>

#include "silero.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  LANES = 32,
  STRIP = 2 * VECTOR, /* lanes that are computed together, so that all sums stay in registers */
  MOST_GROUPS = VECTOR == 16 ? 2 : 1, /* AVX-512 has twice as many registers */
  WIDEST = (BINS + ROWS - 1) / ROWS * ROWS,
};

/* Unaligned loads cost nothing on processors that have vectors of this length. */
typedef float vector __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

run_net RUN_NET;

/* A part of `multiply`: `groups` times ROWS rows. It is a constant, so that all sums stay in registers. */
INLINE void multiply_groups(float *restrict out, const float *restrict weights, const float *restrict in,
                            int32_t inner, const int32_t groups) {
  for (int32_t lane = 0; lane < LANES; lane += STRIP) {
    float *sums = out + lane;
    vector sum[MOST_GROUPS * ROWS][2];
    for (int32_t r = 0; r < groups * ROWS; r++) {
      for (int32_t half = 0; half < 2; half++) sum[r][half] = *(vector *)(sums + r * LANES + half * VECTOR);
    }
    for (int32_t i = 0; i < inner; i++) {
      const float *lanes = in + i * LANES + lane;
      const vector low = *(const vector *)lanes, high = *(const vector *)(lanes + VECTOR);
      for (int32_t r = 0; r < groups * ROWS; r++) {
        const float weight = weights[(r / ROWS * inner + i) * ROWS + r % ROWS];
        sum[r][0] += weight * low;
        sum[r][1] += weight * high;
      }
    }
    for (int32_t r = 0; r < groups * ROWS; r++) {
      for (int32_t half = 0; half < 2; half++) *(vector *)(sums + r * LANES + half * VECTOR) = sum[r][half];
    }
  }
}

/* out[rows][LANES] += weights * in[inner][LANES]; weights: for each four rows, the four of each column together. */
INLINE const float *multiply(float *restrict out, const float *restrict weights, const float *restrict in,
                             int32_t rows, int32_t inner) {
  int32_t row = 0;
  for (; row + MOST_GROUPS * ROWS <= rows; row += MOST_GROUPS * ROWS, weights += MOST_GROUPS * inner * ROWS) {
    multiply_groups(out + row * LANES, weights, in, inner, MOST_GROUPS);
  }
  for (; row < rows; row += ROWS, weights += inner * ROWS) {
    multiply_groups(out + row * LANES, weights, in, inner, 1);
  }
  return weights;
}

INLINE void spread(float *restrict out, const float *restrict bias, int32_t rows) {
  for (int32_t row = 0; row < rows; row++) {
    for (int32_t lane = 0; lane < LANES; lane++) out[row * LANES + lane] = bias[row];
  }
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
  for (int32_t lane = 0; lane < LANES; lane++) {
    const int16_t *window = pcm + (int64_t)lane * WINDOW;
    for (int32_t i = 0; i < CONTEXT + WINDOW; i++) {
      float sample = 0;
      if (lane < windows) {
        sample = lane == 0 && i < CONTEXT ? context[i] : window[i - CONTEXT] * (1.0f / 32768);
      }
      heard[i * LANES + lane] = sample;
    }
  }
  for (int32_t i = 0; i < REFLECTED; i++) {
    memcpy(heard + (CONTEXT + WINDOW + i) * LANES, heard + (CONTEXT + WINDOW - 2 - i) * LANES, LANES * sizeof(float));
  }
}

/* The transform's cosines are symmetric about a frame's middle and its sines antisymmetric: half the products do. */
INLINE const float *spectrum(float magnitudes[FRAMES][WIDEST * LANES], const float *restrict heard,
                             const float *restrict weights) {
  float even[EVEN * LANES], odd[ODD * LANES], real[WIDEST * LANES], imaginary[WIDEST * LANES];
  const float *end = weights;
  for (int32_t frame = 0; frame < FRAMES; frame++) {
    const float *samples = heard + frame * HOP * LANES;
    for (int32_t i = 1; i < FRAME / 2; i++) {
      for (int32_t lane = 0; lane < LANES; lane++) {
        const float before = samples[i * LANES + lane], behind = samples[(FRAME - i) * LANES + lane];
        even[(i - 1) * LANES + lane] = before + behind;
        odd[(i - 1) * LANES + lane] = before - behind;
      }
    }
    memcpy(even + (EVEN - 1) * LANES, samples + FRAME / 2 * LANES, LANES * sizeof(float));
    memset(real, 0, sizeof real);
    memset(imaginary, 0, sizeof imaginary);
    end = multiply(real, weights, even, BINS, EVEN);
    end = multiply(imaginary, end, odd, BINS, ODD);
    for (int32_t i = 0; i < BINS * LANES; i++) {
      magnitudes[frame][i] = __builtin_sqrtf(real[i] * real[i] + imaginary[i] * imaginary[i]);
    }
  }
  return end;
}

/* A convolution of width 3 with one frame of zeros on either side; negative results become zero. */
INLINE const float *convolve(float out[FRAMES][WIDEST * LANES], float in[FRAMES][WIDEST * LANES], const layer shape,
                             const float *restrict weights) {
  const int32_t tap_floats = padded(shape.channels_out) * shape.channels_in;
  const float *bias = weights + TAPS * tap_floats;
  for (int32_t frame = 0; frame < shape.frames_out; frame++) {
    spread(out[frame], bias, shape.channels_out);
    for (int32_t tap = 0; tap < TAPS; tap++) {
      const int32_t from = frame * shape.stride + tap - 1;
      if (from < 0 || from >= shape.frames_in) continue;
      multiply(out[frame], weights + tap * tap_floats, in[from], shape.channels_out, shape.channels_in);
    }
    for (int32_t i = 0; i < shape.channels_out * LANES; i++) out[frame][i] = out[frame][i] > 0 ? out[frame][i] : 0;
  }
  return bias + shape.channels_out;
}

/* One step of the LSTM for one window, whose share of the gates (input and biases) is in `gates`; gates: i, f, g, o. */
INLINE float step(state *now, float *restrict gates, const float *restrict recurrent, const float *restrict output,
                  float output_bias) {
  enum { TOGETHER = 8 };
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
  float heard[HEARD * LANES], gates[GATES * LANES];
  float one[FRAMES][WIDEST * LANES], other[FRAMES][WIDEST * LANES];
  for (int32_t done = 0; done < windows; done += LANES) {
    const int32_t count = windows - done < LANES ? windows - done : LANES;
    arrange(heard, now->context, pcm + (int64_t)done * WINDOW, count);
    const float *next = spectrum(one, heard, weights);
    next = convolve(other, one, SHAPES[0], next);
    next = convolve(one, other, SHAPES[1], next);
    next = convolve(other, one, SHAPES[2], next);
    next = convolve(one, other, SHAPES[3], next);
    spread(gates, next + GATES * CELLS, GATES);
    const float *recurrent = multiply(gates, next, one[0], GATES, CELLS) + GATES;
    const float *output = recurrent + CELLS * GATES;
    for (int32_t lane = 0; lane < count; lane++) {
      float own[GATES];
      for (int32_t i = 0; i < GATES; i++) own[i] = gates[i * LANES + lane];
      probabilities[done + lane] = step(now, own, recurrent, output, output[CELLS]);
    }
    for (int32_t i = 0; i < CONTEXT; i++) {
      now->context[i] = pcm[(int64_t)(done + count) * WINDOW - CONTEXT + i] * (1.0f / 32768);
    }
  }
}
