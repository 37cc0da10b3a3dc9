/*
 * Products of bytes (products.h). Compiled once for each kind of processor, with -D PRODUCTS=<its name>. Nothing of the language's
 * library is used.
 */
#include "products.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "../headers/inline.h"

#define INLINE static SHRUTI_INLINE

/* A block of the result: ROWS rows and VECTORS registers of LANES columns. Its sums, and what is multiplied, fit into the registers. */
#if defined __AVX512VNNI__
enum { LANES = 16, ROWS = 6, VECTORS = 4 };
#elif defined __AVX2__
enum { LANES = 8, ROWS = 4, VECTORS = 2 };
#else
enum { LANES = 4, ROWS = 2, VECTORS = 2 };
#endif
enum { COLUMNS = LANES * VECTORS, PANEL = PRODUCT_COLUMNS };
static_assert(PANEL % COLUMNS == 0, "a panel has whole blocks");

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/*
 * Four bytes without a sign in each lane, four with a sign, and sums that their four products are added to. Instructions that add two
 * products in 16 bits are not used, because such a sum can be too large for them.
 */
#if defined __AVX512VNNI__
typedef ints left_bytes;
typedef ints right_bytes;
INLINE left_bytes lefts_of(const uint8_t *from) { return *(const ints *)from; }
INLINE right_bytes right_of(const uint8_t *from) { return *(const ints *)from; }
INLINE ints with_products(ints sums, left_bytes a, right_bytes b) {
  return (ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
}
#elif defined __AVXVNNI__
typedef ints left_bytes;
typedef ints right_bytes;
INLINE left_bytes lefts_of(const uint8_t *from) { return *(const ints *)from; }
INLINE right_bytes right_of(const uint8_t *from) { return *(const ints *)from; }
INLINE ints with_products(ints sums, left_bytes a, right_bytes b) {
  return (ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
}
#elif defined __AVX2__
/* Bytes at even and at odd places, as numbers of 16 bits. */
struct left_bytes {
  __m256i even, odd;
};
typedef left_bytes right_bytes;
INLINE left_bytes lefts_of(const uint8_t *from) {
  const __m256i all = _mm256_loadu_si256((const __m256i *)from);
  return {_mm256_and_si256(all, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(all, 8)};
}
INLINE right_bytes right_of(const uint8_t *from) {
  const __m256i all = _mm256_loadu_si256((const __m256i *)from);
  return {_mm256_srai_epi16(_mm256_slli_epi16(all, 8), 8), _mm256_srai_epi16(all, 8)};
}
INLINE ints with_products(ints sums, left_bytes a, right_bytes b) {
  return sums + (ints)_mm256_madd_epi16(a.even, b.even) + (ints)_mm256_madd_epi16(a.odd, b.odd);
}
#else
typedef words left_bytes;
typedef words right_bytes;
INLINE left_bytes lefts_of(const uint8_t *from) { return *(const words *)from; }
INLINE right_bytes right_of(const uint8_t *from) { return *(const words *)from; }
INLINE ints with_products(ints sums, left_bytes a, right_bytes b) {
  for (int n = 0; n < 4; n++) sums += (ints)(a >> 8 * n & 255) * ((ints)(b << (24 - 8 * n)) >> 24);
  return sums;
}
#endif

INLINE floats larger(floats a, floats b) { return a > b ? a : b; }
INLINE floats smaller(floats a, floats b) { return a < b ? a : b; }

/* swish_limits of the numbers of each lane. */
struct lane_limits {
  floats most, before, behind;

  SHRUTI_INLINE void see(floats x) {
    most = larger(most, x);
    before = larger(before, x < SWISH_LOWEST ? x : before);
    behind = smaller(behind, x < SWISH_LOWEST ? behind : x);
  }
};

/* The same four bytes in each lane. */
INLINE left_bytes left_of(const uint8_t *from) {
  int32_t four;
  memcpy(&four, from, sizeof four);
  const ints all = ints{} + four;
  return lefts_of((const uint8_t *)&all);
}

/* What all blocks of a product share. */
struct whole {
  const product *of;
  /* Rows of whole steps. */
  const uint8_t *rows;
  /* Of each row the sum of its bytes, less as often its zero. */
  const int32_t *row_sums;
  size_t steps;
  float *result;
  lane_limits limits;
  bool has_limits;
};

INLINE size_t steps_of(size_t depth) { return (depth + 3) / 4; }

/* Rows whose depth is not one of whole steps are copied. */
static size_t work_bytes(size_t count, size_t depth) {
  return count * (sizeof(int32_t) + (depth % 4 ? steps_of(depth) * 4 : 0));
}

static void copy_rows(const product &of, uint8_t *to) {
  const size_t bytes = steps_of(of.depth) * 4;
  for (size_t row = 0; row < of.count; row++, to += bytes) {
    memcpy(to, of.rows + row * of.depth, of.depth);
    memset(to + of.depth, 0, bytes - of.depth);
  }
}

/* Sums the bytes of each row, less as often its zero. */
static void sum_rows(const product &of, const uint8_t *rows, int32_t *row_sums) {
  const ints ones = ints{} + 0x01010101;
  const size_t steps = steps_of(of.depth);
  for (size_t row = 0; row < of.count; row++, rows += steps * 4) {
    ints sums = {};
    size_t step = 0;
    for (; step + LANES <= steps; step += LANES)
      sums = with_products(sums, lefts_of(rows + step * 4), right_of((const uint8_t *)&ones));
    int32_t sum = -(int32_t)of.depth * of.zero;
    for (int n = 0; n < LANES; n++) sum += sums[n];
    for (size_t n = step * 4; n < steps * 4; n++) sum += rows[n];
    row_sums[row] = sum;
  }
}

INLINE floats load(const float *from, size_t count) {
  floats some = {};
  if (count >= LANES) return *(const floats *)from;
  memcpy(&some, from, count * sizeof *from);
  return some;
}

INLINE void store(float *to, floats values, size_t count) {
  if (count >= LANES)
    *(floats *)to = values;
  else
    memcpy(to, &values, count * sizeof *to);
}

/* Multiplies `kRows` rows with COLUMNS columns. `next`: weights that are wanted soon, `stride` bytes for each step. */
template <int kRows>
INLINE void block(whole &all, size_t row, const uint8_t *panel, size_t column, size_t within, const uint8_t *next, size_t stride) {
  const uint8_t *left = all.rows + row * all.steps * 4, *right = panel + within * 4;
  ints sums[kRows][VECTORS] = {};
  for (size_t step = 0; step < all.steps; step++) {
    right_bytes b[VECTORS];
    for (int v = 0; v < VECTORS; v++) b[v] = right_of(right + v * LANES * 4);
    for (int r = 0; r < kRows; r++) {
      const left_bytes a = left_of(left + r * all.steps * 4);
      for (int v = 0; v < VECTORS; v++) sums[r][v] = with_products(sums[r][v], a, b[v]);
    }
    __builtin_prefetch(next, 0, 2);
    left += 4, right += PANEL * 4, next += stride;
  }
  /* A copy, whose places are counted at run time: clang would keep the sums themselves in memory for it, a third as fast. */
  ints done[kRows][VECTORS];
  for (int r = 0; r < kRows; r++)
    for (int v = 0; v < VECTORS; v++) done[r][v] = sums[r][v];
  const uint8_t *of_columns = panel + all.steps * 4 * PANEL + within * 4;
  const product &of = *all.of;
  for (int v = 0; v < VECTORS; v++, of_columns += LANES * 4) {
    const size_t first = column + v * LANES;
    if (first >= of.columns) break;
    const ints column_sum = *(const ints *)of_columns * of.zero, zero = *(const ints *)(of_columns + 4 * PANEL);
    const size_t count = of.columns - first;
    const floats steps = of.has_steps ? load(of.column_steps + first, count) : floats{} + of.column_steps[0];
    const floats step = steps * of.step, bias = load(of.biases + first, count);
    for (int r = 0; r < kRows; r++) {
      const ints sum = done[r][v] - column_sum - zero * all.row_sums[row + r];
      const floats value = __builtin_convertvector(sum, floats) * step + bias;
      /* Columns that are missing are zero, and so are their results, which change no limit. */
      if (all.has_limits) all.limits.see(value);
      store(all.result + (row + r) * of.columns + first, value, count);
    }
  }
}

template <int kRows>
INLINE void last_block(whole &all, size_t rows, size_t row, const uint8_t *panel, size_t column, size_t within, const uint8_t *next, size_t stride) {
  if (rows == kRows)
    block<kRows>(all, row, panel, column, within, next, stride);
  else if constexpr (kRows > 1)
    last_block<kRows - 1>(all, rows, row, panel, column, within, next, stride);
}

static void multiply(const product *of, void *work, float *result, swish_limits *limits) {
  if (of->count == 0) {
    if (limits) *limits = {0, SWISH_LEAST, 0};
    return;
  }
  whole all = {};
  const size_t blocks = (of->count + ROWS - 1) / ROWS, steps = steps_of(of->depth);
  int32_t *row_sums = (int32_t *)work;
  uint8_t *copied = (uint8_t *)(row_sums + of->count);
  if (of->depth % 4) copy_rows(*of, copied);
  all.of = of, all.rows = of->depth % 4 ? copied : of->rows, all.row_sums = row_sums, all.steps = steps, all.result = result;
  sum_rows(*of, all.rows, row_sums);
  all.has_limits = limits != nullptr;
  all.limits.before = floats{} + SWISH_LEAST;
  const size_t bytes = product_panel_bytes(of->depth);
  /* While a panel is multiplied, the next one comes from memory, a part with each block. */
  const size_t parts = blocks * (PANEL / COLUMNS) * (steps ? steps : 1);
  const size_t stride = (bytes + parts - 1) / parts;
  for (size_t column = 0; column < of->columns; column += PANEL) {
    const uint8_t *panel = of->panels + column / PANEL * bytes, *next = panel + bytes;
    for (size_t within = 0; within < PANEL && column + within < of->columns; within += COLUMNS)
      for (size_t n = 0; n < blocks; n++, next += stride * steps) {
        const size_t row = n * ROWS, rows = of->count - row < ROWS ? of->count - row : (size_t)ROWS;
        last_block<ROWS>(all, rows, row, panel, column + within, within, next, stride);
      }
  }
  for (int n = 0; limits && n < LANES; n++) {
    const lane_limits &found = all.limits;
    if (n == 0 || found.most[n] > limits->most) limits->most = found.most[n];
    if (n == 0 || found.before[n] > limits->before) limits->before = found.before[n];
    if (n == 0 || found.behind[n] < limits->behind) limits->behind = found.behind[n];
  }
}

extern "C" {
extern const product_code PRODUCTS;
const product_code PRODUCTS = {work_bytes, multiply};
}
