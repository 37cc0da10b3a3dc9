// Rows of both sides of products that are multiplied as whole numbers.
#ifndef SHRUTI_PRODUCT_ROWS_H
#define SHRUTI_PRODUCT_ROWS_H

#include "product-shape.h"
#include "quantized.h"
#include "scaled-blocks.h"
#include "widened-rows.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {

// Rounds places `at` to `at + count` of a block of rows, whole blocks of kBlock.
template <typename Kind> void round_rows(const float * const * rows, int64_t at, int64_t count, char * to) {
    typename Kind::Left * left = (typename Kind::Left *) to + at / Kind::kBlock;
    for (int64_t r = 0; r < Kind::kRows; r++)
        for (int64_t i = 0; i < count / Kind::kBlock; i++) Kind::round(rows[r] + i * Kind::kBlock, left[i], r);
}

// Rounds a block of rows of floats or f16 numbers. Rows after the last one have numbers that are not used.
template <typename Kind> void pack_all_rows(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) {
    typename Kind::Left * left = (typename Kind::Left *) to;
    alignas(64) float     wide[Kind::kBlock];
    for (int64_t r = 0; r < Kind::kRows; r++) {
        const char * row = (const char *) x->data + std::min(block * Kind::kRows + r, shape.rows - 1) * x->nb[1];
        for (int64_t i = 0; i < shape.depth / Kind::kBlock; i++) {
            const float * from = (const float *) row + i * Kind::kBlock;
            if (x->type == GGML_TYPE_F16) {
                widen_halves(row + i * Kind::kBlock * sizeof(uint16_t), Kind::kBlock, wide);
                from = wide;
            }
            Kind::round(from, left[i], r);
        }
    }
}

// The weights' row for a column. Columns after the last one have numbers that are not used.
inline const char * weights_of(const ggml_tensor * w, const Shape & shape, int64_t column) {
    return (const char *) w->data + std::min(column, shape.columns - 1) * w->nb[1];
}

// A panel of weights that are rounded when they are packed, with one factor for kBlock numbers of a row, or for all. `Kind` says to
// what they are rounded: `Blocks`, kOfWord numbers in a word, `WeightScale`, and `words_of`.
template <typename Kind> struct RoundedPanel {
    static size_t bytes(int64_t depth) { return Kind::kColumns * (depth * 4 / Kind::kOfWord + depth / scaled(depth) * sizeof(float)); }
    static size_t wide_bytes() { return kLanes * std::max(scaled(Kind::kDepth), kMostOfType) * sizeof(float); }

    static void pack(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        uint32_t *    values = (uint32_t *) to;
        float *       factors = (float *) (to + Kind::kColumns * count * 4 / Kind::kOfWord);
        float *       rows = (float *) wide;
        const int64_t part = scaled(count), widened = std::min(count, std::max(part, (int64_t) ggml_blck_size(w->type)));
        for (int64_t c = 0; c < Kind::kColumns; c += kLanes) {
            for (int64_t at = 0; at < count; at += part) {
                for (int64_t i = 0; at % widened == 0 && i < kLanes; i++)
                    widen_numbers(w->type, weights_of(w, shape, column + c + i) + ggml_row_size(w->type, from + at), widened, rows + i * widened);
                round(rows + at % widened, widened, part, values + at / Kind::kOfWord * Kind::kColumns + c, factors + at / part * Kind::kColumns + c);
            }
        }
    }

   private:
    // The numbers of a block of a type of weights, which are widened together.
    static constexpr int64_t kMostOfType = 256;

    // How many numbers of a row have one factor.
    static int64_t scaled(int64_t count) { return Kind::Blocks::kFactors == Factors::kOfBlocks ? Kind::kBlock : count; }

    // Rounds `count` numbers of each of kLanes rows, which are `stride` apart.
    static void round(const float * rows, int64_t stride, int64_t count, uint32_t * values, float * factors) {
        Vec multipliers[kLanes];
        for (int64_t i = 0; i < kLanes; i++) {
            const typename Kind::WeightScale scale(largest_of(rows + i * stride, count));
            multipliers[i] = fill(scale.multiplier);
            factors[i] = scale.factor;
        }
        for (int64_t k = 0; k < count; k += Kind::kOfWord * kLanes) {
            Words words[kLanes];
            for (int64_t i = 0; i < kLanes; i++) {
                Vec x[Kind::kOfWord];
                for (int64_t j = 0; j < Kind::kOfWord; j++) x[j] = load(rows + i * stride + k + j * kLanes);
                words[i] = Kind::words_of(x, multipliers[i]);
            }
            transpose(words, values + k / Kind::kOfWord * Kind::kColumns, Kind::kColumns);
        }
    }
};

}  // namespace shruti

#endif
#endif
