// Rows of both sides of products that are multiplied as whole numbers.
#ifndef SHRUTI_PRODUCT_ROWS_H
#define SHRUTI_PRODUCT_ROWS_H

#include "product-shape.h"
#include "quantized.h"
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

// A panel of weights that are rounded when they are packed, with one factor for all numbers of a row. `Kind` says to what they
// are rounded: kOfWord numbers in a word, `WeightScale`, and `words_of`.
template <typename Kind> struct RoundedPanel {
    static size_t bytes(int64_t depth) { return Kind::kColumns * (depth * 4 / Kind::kOfWord + sizeof(float)); }
    static size_t wide_bytes() { return kLanes * Kind::kDepth * sizeof(float); }

    static void pack(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        constexpr int64_t kOfWord = Kind::kOfWord, kColumns = Kind::kColumns;
        uint32_t *        values = (uint32_t *) to;
        float *           factors = (float *) (to + kColumns * count * 4 / kOfWord);
        for (int64_t c = 0; c < kColumns; c += kLanes) {
            Vec multipliers[kLanes];
            for (int64_t i = 0; i < kLanes; i++) {
                float * row = (float *) wide + i * Kind::kDepth;
                widen_numbers(w->type, weights_of(w, shape, column + c + i) + ggml_row_size(w->type, from), count, row);
                const typename Kind::WeightScale scale(largest_of(row, count));
                multipliers[i] = fill(scale.multiplier);
                factors[c + i] = scale.factor;
            }
            for (int64_t k = 0; k < count; k += kOfWord * kLanes) {
                Words words[kLanes];
                for (int64_t i = 0; i < kLanes; i++) {
                    const float * row = (const float *) wide + i * Kind::kDepth + k;
                    Vec           x[kOfWord];
                    for (int64_t j = 0; j < kOfWord; j++) x[j] = load(row + j * kLanes);
                    words[i] = Kind::words_of(x, multipliers[i]);
                }
                transpose(words, values + k / kOfWord * kColumns + c, kColumns);
            }
        }
    }
};

}  // namespace shruti

#endif
#endif
