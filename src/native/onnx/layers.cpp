/*
 * Parts of FastConformers, each in one go over the numbers where onnxruntime goes over them for every operation. Compiled once for
 * each kind of processor, with -D LAYERS=<its name> and -D VECTOR=<floats in a vector register>. Nothing here has an initial value
 * that is computed, and nothing is of the language's library.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if VECTOR > 4
#include <immintrin.h>
#endif

#include "../headers/inline.h"
#include "layers.h"

#define INLINE static SHRUTI_INLINE
#define SHRUTI_ALWAYS __attribute__((always_inline))

enum { LANES = VECTOR };
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

/* Reads some numbers, and others in the place of missing ones. */
INLINE floats load(const float *from, size_t count, float other) {
  if (count >= (size_t)LANES) return *(const floats *)from;
  float some[LANES];
  for (size_t n = 0; n < LANES; n++) some[n] = n < count ? from[n] : other;
  return *(const floats *)some;
}

INLINE void store(float *to, floats values, size_t count) {
  if (count >= LANES)
    *(floats *)to = values;
  else
    memcpy(to, &values, count * sizeof *to);
}

INLINE floats larger(floats a, floats b) { return a > b ? a : b; }
INLINE floats smaller(floats a, floats b) { return a < b ? a : b; }
/* A difference, because compilers leave it out, and not a sum with zero, which can have another sign. */
INLINE floats all(float value) { return value - floats{}; }

/* e to the power of numbers, of which those below -87 count as that. */
INLINE floats exponential(floats x) {
  x = smaller(larger(x, floats{} - 87.0f), floats{} + 87.0f);
  const floats rounding = floats{} + 12582912.0f;
  const floats power = x * 1.44269504f + rounding;
  const floats whole = power - rounding;
  const floats r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  floats p = floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  return (floats)((ints)p + ((ints)power << 23));
}

INLINE floats sigmoid(floats x) { return 1.0f / (1.0f + exponential(-x)); }
INLINE floats swish(floats x) { return x * sigmoid(x); }

INLINE float sum_of(floats values) {
  float sum = 0;
  for (int n = 0; n < LANES; n++) sum += values[n];
  return sum;
}

INLINE float largest_of(floats values) {
  float found = values[0];
  for (int n = 1; n < LANES; n++) found = values[n] > found ? values[n] : found;
  return found;
}

/* Makes the weights of a frame of its scores. `to` may be the scores by content. */
INLINE void weigh(const float *by_content, const float *by_distance, float scale, size_t frames, float *to) {
  floats most = floats{} - INFINITY, sum = {};
  for (size_t n = 0; n < frames; n += LANES) {
    const floats score =
        (load(by_content + n, frames - n, -INFINITY) + load(by_distance + n, frames - n, 0)) * scale;
    most = larger(most, score);
    store(to + n, score, frames - n);
  }
  const float largest = largest_of(most);
  for (size_t n = 0; n < frames; n += LANES) {
    const floats share = exponential(load(to + n, frames - n, -INFINITY) - largest);
    sum += share;
    store(to + n, share, frames - n);
  }
  /* Those in the place of missing numbers are e to the power of -87, which is nothing beside the largest, 1. */
  const float share = 1.0f / sum_of(sum);
  for (size_t n = 0; n < frames; n += LANES) store(to + n, load(to + n, frames - n, 0) * share, frames - n);
}

static void relative_softmax(const float *content, const float *distance, float scale, size_t heads,
                                           size_t frames, float *weights) {
  const size_t distances = 2 * frames - 1;
  for (size_t row = 0; row < heads * frames; row++)
    weigh(content + row * frames, distance + row * distances + frames - 1 - row % frames, scale, frames,
          weights + row * frames);
}

/* A block of a product of floats: rows of it, and vectors of columns, whose sums stay in registers. */
#if VECTOR == 16
enum { FLOAT_ROWS = 8, FLOAT_VECTORS = 3 };
#else
enum { FLOAT_ROWS = 4, FLOAT_VECTORS = 2 };
#endif

/* The same as `load`, with 0 in the place of missing numbers; made for loops. */
INLINE floats load_some(const float *from, size_t count) {
#if VECTOR == 16
  return (floats)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
  return load(from, count, 0);
#endif
}

/* A matrix: its numbers, and how many lie between the beginnings of two rows. */
struct matrix {
  const float *numbers;
  size_t stride;
};

template <int kRows, int kVectors, bool kIsWhole>
INLINE void float_block(matrix left, matrix right, size_t depth, size_t count, float *to, size_t stride) {
  floats sums[kRows][kVectors] = {};
  for (size_t n = 0; n < depth; n++) {
    floats b[kVectors];
    for (int v = 0; v < kVectors; v++) {
      const float *from = right.numbers + n * right.stride + v * LANES;
      b[v] = kIsWhole ? *(const floats *)from : load_some(from, count);
    }
    for (int r = 0; r < kRows; r++) {
      const floats a = all(left.numbers[r * left.stride + n]);
      for (int v = 0; v < kVectors; v++) sums[r][v] += a * b[v];
    }
  }
  for (int r = 0; r < kRows; r++)
    for (int v = 0; v < kVectors; v++) store(to + r * stride + v * LANES, sums[r][v], kIsWhole ? (size_t)LANES : count);
}

template <int kRows>
INLINE void float_rows(matrix left, matrix right, size_t depth, size_t columns, float *to, size_t stride) {
  size_t n = 0;
  for (; n + FLOAT_VECTORS * LANES <= columns; n += FLOAT_VECTORS * LANES)
    float_block<kRows, FLOAT_VECTORS, true>(left, {right.numbers + n, right.stride}, depth, 0, to + n, stride);
  for (; n + LANES <= columns; n += LANES)
    float_block<kRows, 1, true>(left, {right.numbers + n, right.stride}, depth, 0, to + n, stride);
  if (n < columns)
    float_block<kRows, 1, false>(left, {right.numbers + n, right.stride}, depth, columns - n, to + n, stride);
}

/* Multiplies up to FLOAT_ROWS rows. */
template <int kRows = FLOAT_ROWS>
static void multiply_rows(size_t rows, matrix left, matrix right, size_t depth, size_t columns, float *to, size_t stride) {
  if (rows == kRows)
    float_rows<kRows>(left, right, depth, columns, to, stride);
  else if constexpr (kRows > 1)
    multiply_rows<kRows - 1>(rows, left, right, depth, columns, to, stride);
}

static size_t attention_work(size_t frames) { return FLOAT_ROWS * (frames + frames + FLOAT_ROWS); }

static void relative_attention(const float *contents, const float *keys, const float *distances, const float *positions,
                               const float *values, float scale, size_t heads, size_t frames, size_t width, float *work,
                               float *result) {
  const size_t all_distances = 2 * frames - 1, shifted = frames + FLOAT_ROWS;
  float *by_content = work, *by_distance = work + FLOAT_ROWS * frames;
  for (size_t head = 0; head < heads; head++)
    for (size_t row = 0; row < frames; row += FLOAT_ROWS) {
      const size_t rows = frames - row < FLOAT_ROWS ? frames - row : (size_t)FLOAT_ROWS, at = (head * frames + row) * width;
      multiply_rows(rows, {contents + at, width}, {keys + head * width * frames, frames}, width, frames, by_content, frames);
      /* The distances of the last of these rows begin first. Those that no row has are left out. */
      const size_t first = frames - row - rows;
      multiply_rows(rows, {distances + at, width}, {positions + head * width * all_distances + first, all_distances}, width,
                    frames + rows - 1, by_distance, shifted);
      for (size_t n = 0; n < rows; n++)
        weigh(by_content + n * frames, by_distance + n * shifted + rows - 1 - n, scale, frames, by_content + n * frames);
      multiply_rows(rows, {by_content, frames}, {values + head * frames * width, width}, frames, width, result + at, width);
    }
}

/* How numbers become bytes: the steps of DynamicQuantizeLinear. */
INLINE float step_of(float least, float most, float *zero) {
  least = least < 0 ? least : 0, most = most > 0 ? most : 0;
  const float step = most == least ? 1.0f : (most - least) / 255.0f;
  const float at = nearbyintf(0.0f - least / step);
  *zero = at < 0 ? 0 : at > 255 ? 255 : at;
  return step;
}

/* Numbers as whole numbers of steps from zero, within a byte. */
INLINE floats in_steps(floats x, float step, float zero) {
  const floats rounding = floats{} + 12582912.0f;
  const floats whole = (x / step + rounding) - rounding;
  return smaller(larger(whole, floats{} - zero), floats{} + (255.0f - zero));
}

/* Reads bytes as whole numbers. The compiler's own way goes through each of them. */
INLINE ints wide(const uint8_t *from) {
#if VECTOR == 16
  return (ints)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128((const __m128i *)from));
#elif VECTOR == 8
  return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
  return __builtin_convertvector(*(const bytes *)from, ints);
#endif
}

INLINE void store_rounded_some(floats whole, uint8_t *to) {
  *(bytes *)to = __builtin_convertvector(__builtin_convertvector(whole, ints), bytes);
}

INLINE void store_rounded(floats whole, uint8_t *to, size_t count) {
  if (count >= (size_t)LANES) return store_rounded_some(whole, to);
  uint8_t some[LANES];
  store_rounded_some(whole, some);
  memcpy(to, some, count);
}

static void gated_convolution(const float *gates, const float *kernels, float kernel_step,
                                            const float *bias, size_t frames, size_t channels, size_t taps,
                                            size_t before, float *work, float *result) {
  floats least = {}, most = {};
  for (size_t frame = 0; frame < frames; frame++) {
    const float *values = gates + frame * 2 * channels;
    for (size_t n = 0; n < channels; n += LANES) {
      const floats gated = load(values + n, channels - n, 0) * sigmoid(load(values + channels + n, channels - n, 0));
      least = smaller(least, gated), most = larger(most, gated);
      store(work + frame * channels + n, gated, channels - n);
    }
  }
  float zero;
  const float step = step_of(-largest_of(-least), largest_of(most), &zero);
  for (size_t n = 0; n < frames * channels; n += LANES)
    store(work + n, in_steps(load(work + n, frames * channels - n, 0), step, zero), frames * channels - n);
  for (size_t frame = 0; frame < frames; frame++) {
    /* The taps that are within the sound. */
    const size_t first = frame < before ? before - frame : 0;
    const size_t last = frame + taps - before > frames ? frames + before - frame : taps;
    for (size_t n = 0; n < channels; n += LANES) {
      floats sum = {};
      for (size_t tap = first; tap < last; tap++)
        sum += load(work + (frame + tap - before) * channels + n, channels - n, 0) *
               load(kernels + tap * channels + n, channels - n, 0);
      const floats value = sum * (step * kernel_step) + load(bias + n, channels - n, 0);
      store(result + frame * channels + n, swish(value), channels - n);
    }
  }
}

/* Rounds numbers whose least and most are known. */
static void round_all(const float *values, size_t count, float least, float most, uint8_t *rounded, float *step,
                      uint8_t *zero) {
  float at;
  const float of = step_of(least, most, &at);
  for (size_t n = 0; n < count; n += LANES) {
    const floats whole = in_steps(load(values + n, count - n, 0), of, at) + at;
    store_rounded(whole, rounded + n, count - n);
  }
  *step = of;
  *zero = (uint8_t)at;
}

static void normalized(const float *values, const float *scale, const float *bias, float epsilon, size_t rows, size_t width,
                       float *result, uint8_t *rounded, float *step, uint8_t *zero) {
  floats least = {}, most = {};
  for (size_t row = 0; row < rows; row++) {
    const float *from = values + row * width;
    float *to = result + row * width;
    /* Two sums of each: the next number needs not wait for the one before. */
    floats sums[2] = {}, squares[2] = {};
    for (size_t n = 0; n < width; n += LANES) sums[n / LANES % 2] += load(from + n, width - n, 0);
    const float mean = sum_of(sums[0] + sums[1]) / (float)width;
    for (size_t n = 0; n < width; n += LANES) {
      const floats other = load(from + n, width - n, mean) - mean;
      squares[n / LANES % 2] += other * other;
    }
    const float factor = 1.0f / sqrtf(sum_of(squares[0] + squares[1]) / (float)width + epsilon);
    for (size_t n = 0; n < width; n += LANES) {
      const floats value = (load(from + n, width - n, mean) - mean) * factor * load(scale + n, width - n, 0) +
                           load(bias + n, width - n, 0);
      least = smaller(least, value), most = larger(most, value);
      store(to + n, value, width - n);
    }
  }
  if (rounded) round_all(result, rows * width, -largest_of(-least), largest_of(most), rounded, step, zero);
}

static void limited_swish(const float *values, size_t count, swish_limits limits, uint8_t *rounded, float *step,
                          uint8_t *zero) {
  const float nearest[] = {limits.most, limits.before, limits.behind};
  const floats found = swish(load(nearest, 3, 0));
  float at;
  const float of = step_of(found[1] < found[2] ? found[1] : found[2], found[0], &at);
  for (size_t n = 0; n < count; n += LANES) {
    const floats whole = in_steps(swish(load(values + n, count - n, 0)), of, at) + at;
    store_rounded(whole, rounded + n, count - n);
  }
  *step = of;
  *zero = (uint8_t)at;
}

static void rounded_swish(const float *values, size_t count, uint8_t *rounded, float *step, uint8_t *zero) {
  /* The largest result is that of the largest number, and the lowest that of one of those nearest to the lowest place. */
  floats most = {}, before = all(SWISH_LEAST), behind = {};
  for (size_t n = 0; n < count; n += LANES) {
    const floats x = load(values + n, count - n, 0);
    most = larger(most, x);
    before = larger(before, x < SWISH_LOWEST ? x : before);
    behind = smaller(behind, x < SWISH_LOWEST ? behind : x);
  }
  limited_swish(values, count, {largest_of(most), largest_of(before), -largest_of(-behind)}, rounded, step, zero);
}

/* The convolution of 3 x 3 bands at one place, every second one: a sum for each of some channels. */
INLINE floats first_sum(const float *work, size_t wide, const float *kernels, size_t channels, size_t frame, size_t band,
                        size_t n) {
  floats sum = {};
  for (size_t tap = 0; tap < 9; tap++)
    sum += all(work[(2 * frame + tap / 3) * wide + 2 * band + tap % 3]) * *(const floats *)(kernels + tap * channels + n);
  return sum;
}

static void first_convolution(const float *values, const float *kernels, float kernel_step, const float *bias,
                              size_t frames, size_t bands, size_t channels, float *work, uint8_t *rounded,
                              float *rounded_step) {
  floats least = {}, most = {};
  const size_t count = frames * bands, wide = bands + 2;
  for (size_t n = 0; n < count; n += LANES) {
    const floats x = load(values + n, count - n, 0);
    least = smaller(least, x), most = larger(most, x);
  }
  float zero;
  const float step = step_of(-largest_of(-least), largest_of(most), &zero);
  memset(work, 0, (frames + 2) * wide * sizeof *work);
  for (size_t frame = 0; frame < frames; frame++)
    for (size_t n = 0; n < bands; n += LANES)
      store(work + (frame + 1) * wide + n + 1, in_steps(load(values + frame * bands + n, bands - n, 0), step, zero),
            bands - n);
  const size_t frames_out = (frames + 1) / 2, bands_out = (bands + 1) / 2;
  const float scale = step * kernel_step;
  /* The sums are made twice: they would take more time to write and to read. */
  floats highest = {};
  for (size_t n = 0; n < channels; n += LANES)
    for (size_t frame = 0; frame < frames_out; frame++)
      for (size_t band = 0; band < bands_out; band++)
        highest = larger(highest, first_sum(work, wide, kernels, channels, frame, band, n) * scale +
                                      *(const floats *)(bias + n));
  float none;
  const float out_step = step_of(0, largest_of(highest), &none);
  for (size_t frame = 0; frame < frames_out; frame++)
    for (size_t band = 0; band < bands_out; band++)
      for (size_t n = 0; n < channels; n += LANES) {
        const floats value = first_sum(work, wide, kernels, channels, frame, band, n) * scale + *(const floats *)(bias + n);
        store_rounded_some(in_steps(larger(value, floats{}), out_step, 0), rounded + (frame * bands_out + band) * channels + n);
      }
  *rounded_step = out_step;
}

/* The places that a convolution of 3 x 3 reads, but those around the sound, which are zero. */
typedef struct {
  const uint8_t *values[9];
  const float *kernels[9];
  size_t count;
} places;

INLINE places places_of(const uint8_t *values, const float *kernels, size_t frames, size_t bands, size_t channels,
                        size_t frame, size_t band) {
  places found;
  found.count = 0;
  for (size_t down = frame == 0; down < 3 && 2 * frame + down <= frames; down++)
    for (size_t right = band == 0; right < 3 && 2 * band + right <= bands; right++) {
      found.values[found.count] = values + ((2 * frame + down - 1) * bands + 2 * band + right - 1) * channels;
      found.kernels[found.count++] = kernels + (down * 3 + right) * channels;
    }
  return found;
}

INLINE floats separate_sum(const places &at, size_t count, float zero, size_t n) {
  floats sum = {};
  for (size_t tap = 0; tap < count; tap++) {
    sum += (__builtin_convertvector(wide(at.values[tap] + n), floats) - zero) * *(const floats *)(at.kernels[tap] + n);
  }
  return sum;
}

/* Calls `use` with the numbers of some channels, and where they are. */
template <typename Use>
INLINE void each_separate(const uint8_t *values, float zero, float scale, const float *kernels, const float *bias,
                          size_t frames, size_t bands, size_t channels, Use use) {
  const size_t frames_out = (frames + 1) / 2, bands_out = (bands + 1) / 2;
  for (size_t frame = 0; frame < frames_out; frame++)
    for (size_t band = 0; band < bands_out; band++) {
      const places at = places_of(values, kernels, frames, bands, channels, frame, band);
      const size_t first = (frame * bands_out + band) * channels;
      for (size_t n = 0; n < channels; n += LANES) {
        /* Nearly all places are within the sound: nine are a loop that the compiler unrolls. */
        const floats sum = at.count == 9 ? separate_sum(at, 9, zero, n) : separate_sum(at, at.count, zero, n);
        use(sum * scale + *(const floats *)(bias + n), first + n);
      }
    }
}

static void separate_convolution(const uint8_t *values, float step, uint8_t zero, const float *kernels,
                                 float kernel_step, const float *bias, size_t frames, size_t bands, size_t channels,
                                 uint8_t *rounded, float *rounded_step, uint8_t *rounded_zero) {
  floats least = {}, most = {};
  each_separate(values, zero, step * kernel_step, kernels, bias, frames, bands, channels,
                [&](floats value, size_t) SHRUTI_ALWAYS { least = smaller(least, value), most = larger(most, value); });
  float at;
  const float out_step = step_of(-largest_of(-least), largest_of(most), &at);
  each_separate(values, zero, step * kernel_step, kernels, bias, frames, bands, channels,
                [&](floats value, size_t n)
                    SHRUTI_ALWAYS { store_rounded_some(in_steps(value, out_step, at) + at, rounded + n); });
  *rounded_step = out_step;
  *rounded_zero = (uint8_t)at;
}

extern "C" {
extern const layer_code LAYERS;
const layer_code LAYERS = {relative_softmax, relative_attention, attention_work, gated_convolution, normalized, rounded_swish, limited_swish, first_convolution, separate_convolution};
}
