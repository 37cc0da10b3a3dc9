// Products of bytes (src/native/onnx/products.cpp) against sums one by one: each number must be the same.
#include <cstdio>
#include <cstring>
#include <vector>

#include "products.h"

extern "C" const product_code PRODUCTS;

namespace {

uint32_t state = 1;
uint32_t random_bits() { return (state = state * 1664525 + 1013904223) >> 8; }

enum class Values { kRandom, kLargest, kSmallest };

struct Case {
  size_t count, depth, columns;
  int zero;
  Values values;
  bool has_steps;
};

struct Made {
  std::vector<uint8_t> rows, panels;
  std::vector<int> weights, zeros;
  std::vector<float> steps, biases;
};

int weight_of(Values values) {
  return values == Values::kRandom ? (int)(random_bits() % 256) - 128 : values == Values::kLargest ? 127 : -128;
}

Made make(const Case & of) {
  Made made;
  for (size_t n = 0; n < of.count * of.depth; n++)
    made.rows.push_back(of.values == Values::kRandom ? (uint8_t)random_bits() : 255);
  for (size_t n = 0; n < of.depth * of.columns; n++) made.weights.push_back(weight_of(of.values));
  const size_t steps = (of.depth + 3) / 4, bytes = product_panel_bytes(of.depth);
  made.panels.resize((of.columns + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS * bytes);
  for (size_t column = 0; column < of.columns; column++) {
    uint8_t * panel = made.panels.data() + column / PRODUCT_COLUMNS * bytes;
    int32_t sum = 0;
    for (size_t row = 0; row < of.depth; row++) {
      const int value = made.weights[row * of.columns + column];
      panel[(row / 4 * PRODUCT_COLUMNS + column % PRODUCT_COLUMNS) * 4 + row % 4] = (uint8_t)value;
      sum += value;
    }
    // Zeros at the other end, so that differences are as large as can be.
    const int32_t zero = of.values == Values::kRandom ? weight_of(of.values) : of.values == Values::kLargest ? -128 : 127;
    made.zeros.push_back(zero);
    int32_t * numbers = (int32_t *)(panel + steps * 4 * PRODUCT_COLUMNS) + column % PRODUCT_COLUMNS;
    numbers[0] = sum, numbers[PRODUCT_COLUMNS] = zero;
    made.steps.push_back((float)(random_bits() % 1000) * 1e-4f);
    made.biases.push_back((float)(random_bits() % 1000) * 1e-2f - 5);
  }
  return made;
}

bool is_same(const Case & of) {
  const Made made = make(of);
  const float step = 0.37f, after = 77;
  product asked = {};
  asked.rows = made.rows.data(), asked.step = step, asked.zero = (uint8_t)of.zero, asked.panels = made.panels.data();
  asked.column_steps = made.steps.data(), asked.has_steps = of.has_steps, asked.biases = made.biases.data();
  asked.count = of.count, asked.depth = of.depth, asked.columns = of.columns;
  std::vector<uint8_t> work(PRODUCTS.work_bytes(of.count, of.depth));
  std::vector<float> result(of.count * of.columns + 1, after);
  swish_limits limits, expected = {0, SWISH_LEAST, 0};
  PRODUCTS.multiply(&asked, work.data(), result.data(), &limits);
  bool same = result.back() == after;
  for (size_t row = 0; row < of.count; row++)
    for (size_t column = 0; column < of.columns; column++) {
      int32_t sum = 0;
      for (size_t n = 0; n < of.depth; n++)
        sum += (made.rows[row * of.depth + n] - of.zero) * (made.weights[n * of.columns + column] - made.zeros[column]);
      // Rounded twice, also where the compiler could join both.
      volatile float scaled = (float)sum * (made.steps[of.has_steps ? column : 0] * step);
      const float value = scaled + made.biases[column];
      same = same && result[row * of.columns + column] == value;
      if (value > expected.most) expected.most = value;
      if (value >= SWISH_LOWEST && value < expected.behind) expected.behind = value;
      if (value < SWISH_LOWEST && value > expected.before) expected.before = value;
    }
  return same && std::memcmp(&limits, &expected, sizeof limits) == 0;
}

}  // namespace

int main() {
  int wrong = 0, all = 0;
  for (size_t count : {0, 1, 2, 3, 5, 6, 7, 13})
    for (size_t depth : {1, 3, 4, 5, 64, 130})
      for (size_t columns : {1, 15, 16, 17, 63, 64, 65, 130})
        for (int zero : {0, 97, 255})
          for (Values values : {Values::kRandom, Values::kLargest, Values::kSmallest}) {
            const Case of = {count, depth, columns, zero, values, (count + depth) % 2 == 0};
            all++;
            if (is_same(of)) continue;
            wrong++;
            std::printf("%zu x %zu x %zu, zero %d, values %d differ\n", count, depth, columns, zero, (int)values);
          }
  std::printf("%d cases, %d wrong\n", all, wrong);
  return wrong > 0;
}
