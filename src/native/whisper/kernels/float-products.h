// How products with many rows pack floats or bf16 numbers, for weights of all types.
#ifndef SHRUTI_FLOAT_PRODUCTS_H
#define SHRUTI_FLOAT_PRODUCTS_H

#include "blocks.h"
#include "product-shape.h"
#include "widened-rows.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {

struct Floats {
    static constexpr int64_t kRows = shruti::kRows, kColumns = shruti::kColumns;
    // Values of a row that are packed at once. A panel of them stays in the first cache, and blocks of all types fit.
    static constexpr int64_t kDepth = 256 * kPerWord;
    // Values of a row that are packed together, at least.
    static constexpr int64_t kLeastPacked = 32;

    static int64_t padded(int64_t depth) { return (depth + kPerVector - 1) / kPerVector * kPerVector; }
    // Bytes of values of a block of rows, of a panel, and of work memory for packing a panel.
    static size_t left_bytes(int64_t depth) { return kRows * padded(depth) / kPerWord * 4; }
    static size_t panel_bytes(int64_t depth) { return kColumns * padded(depth) / kPerWord * 4; }
    static size_t wide_bytes() { return kLanes * kDepth * 4; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) {
        uint32_t *        out = (uint32_t *) to;
        alignas(64) float last[kPerVector];
        for (int64_t r = 0; r < kRows; r++) {
            const int64_t row = block * kRows + r;
            const char *  from = (const char *) x->data + row * x->nb[1];
            for (int64_t k = 0; k < padded(shape.depth); k += kPerVector) {
                Words words;
                if (row < shape.rows && k + kPerVector <= shape.depth) {
                    words = x->type == GGML_TYPE_F32 ? to_words((const float *) from + k) : halves_to_words((const uint16_t *) from + k);
                } else {
                    for (int64_t i = 0; i < kPerVector; i++) {
                        last[i] = 0;
                        if (row >= shape.rows || k + i >= shape.depth) continue;
                        last[i] = x->type == GGML_TYPE_F32 ? ((const float *) from)[k + i] : GGML_FP16_TO_FP32(((const ggml_fp16_t *) from)[k + i]);
                    }
                    words = to_words(last);
                }
                store_left(out, r, k / kPerWord, words);
            }
        }
    }

    // Packs places `at` to `at + count` of a block of rows, whole vectors.
    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) {
        for (int64_t r = 0; r < kRows; r++)
            for (int64_t k = 0; k < count; k += kPerVector) store_left((uint32_t *) to, r, (at + k) / kPerWord, to_words(rows[r] + k));
    }

    // A panel of kColumns rows of the weights; rows after the last one are zeros.
    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * memory, char * to) {
        float *    wide = (float *) memory;
        uint32_t * out = (uint32_t *) to;
        for (int c = 0; c < kColumns; c += kLanes) {
            for (int i = 0; i < kLanes; i++) {
                float * row = wide + i * kDepth;
                if (column + c + i < shape.columns)
                    widen(w, column + c + i, from, count, row);
                else
                    std::fill(row, row + padded(count), 0.0f);
            }
            for (int64_t k = 0; k < padded(count); k += kPerVector) {
                Words words[kLanes];
                for (int i = 0; i < kLanes; i++) words[i] = to_words(wide + i * kDepth + k);
                transpose(words, out + k / kPerWord * kColumns + c, kColumns);
            }
        }
    }

    // Multiplies values `from` to `from + count` of a block of rows by a panel of them.
    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        multiply_block((const uint32_t *) left + from / kPerWord * kRows, (const uint32_t *) panel, padded(count) / kPerChunk, out, stride,
                       finish);
    }

   private:
    // Widens values `from` to `from + count` of a row of the weights, then zeros up to a whole vector.
    static void widen(const ggml_tensor * w, int64_t row, int64_t from, int64_t count, float * out) {
        widen_numbers(w->type, (const char *) w->data + row * w->nb[1] + ggml_row_size(w->type, from), count, out);
        for (int64_t i = count; i % kPerVector != 0; i++) out[i] = 0;
    }
};

}  // namespace shruti

#endif
#endif
