// Attention with floats, or with bf16 numbers where the processor multiplies those: both products are those of blocks.h.
// Scores of a few blocks of queries are kept whole, so that each is exponentiated once.
#ifndef SHRUTI_WORD_ATTENTION_H
#define SHRUTI_WORD_ATTENTION_H

#include "attention-shape.h"
#include "blocks.h"

#ifdef SHRUTI_VECTORS

#include <algorithm>

namespace shruti {

template <typename Row> struct WordAttention {
    // Blocks of queries that read keys and values together.
    static constexpr int64_t kBlocks = kRows >= 32 ? 2 : 4;
    static constexpr int64_t kQueries = kBlocks * kRows;
    // Rows of the values that are added at once: they stay in the first cache.
    static constexpr int64_t kDepth = 256;

    // Packed keys and values of a head.
    static size_t key_bytes(const AttentionShape & shape) { return shape.rows * shape.width / kPerWord * 4; }
    static size_t value_bytes(const AttentionShape & shape) { return value_panels(shape) * kColumns * shape.rows / kPerWord * 4; }
    static size_t thread_bytes(const AttentionShape & shape) {
        return query_bytes(shape) + score_bytes(shape) + kQueries * shape.rows / kPerWord * 4;
    }

    // Keys as columns: [rows / kColumns][width / kPerWord][kColumns].
    static void pack_keys(const ggml_tensor * k, const AttentionShape & shape, int64_t head, int64_t window, char * memory) {
        uint32_t * out = (uint32_t *) memory;
        for (int64_t row = 0; row < shape.rows; row += kLanes) {
            uint32_t * panel = out + row / kColumns * kColumns * (shape.width / kPerWord) + row % kColumns;
            for (int64_t d = 0; d < shape.width; d += kPerVector) {
                Words words[kLanes];
                for (int i = 0; i < kLanes; i++) words[i] = words_at(row_at(k, row + i, head, window), d);
                transpose(words, panel + d / kPerWord * kColumns, kColumns);
            }
        }
    }

    // Values as they are: [width / kColumns][rows / kPerWord][kColumns].
    static void pack_values(const ggml_tensor * v, const AttentionShape & shape, int64_t head, int64_t window, char * memory) {
        uint32_t * out = (uint32_t *) memory;
        for (int64_t row = 0; row < shape.rows; row += kPerWord) {
            for (int64_t d = 0; d < shape.width; d += kLanes) {
                uint32_t * to = out + (d / kColumns * (shape.rows / kPerWord) + row / kPerWord) * kColumns + d % kColumns;
                const Vec  first = Row::load_at(row_at(v, row, head, window), d);
#ifdef SHRUTI_BF16
                const Vec     second = Row::load_at(row_at(v, row + 1, head, window), d);
                const __m512i low = _mm512_cvtepu16_epi32((__m256i) _mm512_cvtneps_pbh(first));
                const __m512i high = _mm512_cvtepu16_epi32((__m256i) _mm512_cvtneps_pbh(second));
                store_words(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#else
                store((float *) to, first);
#endif
            }
        }
    }

    // Computes kQueries queries of a head from `first` on.
    static void attend(ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window, const char * packed_keys,
                       const char * packed_values, char * memory) {
        const uint32_t * keys = (const uint32_t *) packed_keys;
        const uint32_t * values = (const uint32_t *) packed_values;
        uint32_t *       queries = (uint32_t *) memory;
        float *          scores = (float *) (memory + query_bytes(shape));
        uint32_t *       weights = (uint32_t *) (memory + query_bytes(shape) + score_bytes(shape));
        const int64_t query_words = kRows * (shape.width / kPerWord), weight_words = kRows * (shape.rows / kPerWord);
        const int64_t blocks = std::min(kBlocks, (shape.queries - first + kRows - 1) / kRows);

        pack_queries(dst, shape, first, head, window, queries);
        for (int64_t row = 0; row < shape.rows; row += kColumns)
            for (int64_t b = 0; b < blocks; b++)
                multiply_block(queries + b * query_words, keys + row * (shape.width / kPerWord), shape.width / kPerChunk,
                               scores + b * kRows * score_stride(shape) + row, score_stride(shape), {});
        float sums[kQueries];
        for (int64_t i = 0; i < blocks * kRows; i++)
            sums[i] = weigh(scores + i * score_stride(shape), shape, i % kRows, weights + i / kRows * weight_words);

        alignas(64) float out[kQueries * 2 * kColumns > kQueries * 64 ? kQueries * 2 * kColumns : kQueries * 64];
        const int64_t     stride = value_panels(shape) * kColumns;
        for (int64_t from = 0; from < shape.rows; from += kDepth) {
            const int64_t count = std::min(kDepth, shape.rows - from);
            for (int64_t panel = 0; panel < value_panels(shape); panel++)
                for (int64_t b = 0; b < blocks; b++) {
                    float * to = out + b * kRows * stride + panel * kColumns;
                    Finish  finish;
                    if (from > 0) finish.add = to;
                    finish.add_stride = stride;
                    multiply_block(weights + b * weight_words + from / kPerWord * kRows,
                                   values + (panel * shape.rows + from) / kPerWord * kColumns, count / kPerChunk, to, stride, finish);
                }
        }
        for (int64_t i = 0; i < std::min(kQueries, shape.queries - first); i++) {
            float *   to = result_at(dst, shape, first + i, head, window);
            const Vec share = fill(1 / sums[i]);
            for (int64_t d = 0; d < shape.width; d += kLanes) store(to + d, mul(share, load(out + i * stride + d)));
        }
    }

   private:
    static int64_t value_panels(const AttentionShape & shape) { return (shape.width + kColumns - 1) / kColumns; }
    static size_t  query_bytes(const AttentionShape & shape) { return kQueries * shape.width * 4; }
    static size_t  score_bytes(const AttentionShape & shape) { return kQueries * score_stride(shape) * 4; }

    // kPerVector numbers of a row as words.
    static Words words_at(const char * row, int64_t d) {
#ifdef SHRUTI_BF16
        return (__m512i) _mm512_cvtne2ps_pbh(Row::load_at(row, d + kLanes), Row::load_at(row, d));
#else
        return as_words(Row::load_at(row, d));
#endif
    }

    static void pack_queries(const ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window, uint32_t * out) {
        const ggml_tensor * q = dst->src[0];
        const float         scale = scale_of(dst);
        alignas(64) float scaled[64];
        for (int64_t i = 0; i < kQueries; i++) {
            const float * from = (const float *) row_at(q, std::min(first + i, shape.queries - 1), head, window);
            for (int64_t d = 0; d < shape.width; d++) scaled[d] = from[d] * scale;
            uint32_t * block = out + i / kRows * kRows * (shape.width / kPerWord);
            for (int64_t d = 0; d < shape.width; d += kPerVector) store_left(block, i % kRows, d / kPerWord, to_words(scaled + d));
        }
    }

    // 2^x, as exact as the words that keep it.
    static Vec power_of(Vec x) {
#ifdef SHRUTI_BF16
        return rough_exp2_of(max(fill(-126.0f), x));
#else
        return exp2_of(x);
#endif
    }

    // Exponentiates the scores of a query and packs them as a row of a block. Returns their sum.
    static float weigh(const float * scores, const AttentionShape & shape, int64_t row, uint32_t * block) {
        Vec largest[4], sum[2] = {zero(), zero()};
        for (int i = 0; i < 4; i++) largest[i] = load(scores + i * kLanes);
        for (int64_t k = 4 * kLanes; k < shape.rows; k += 4 * kLanes)
            for (int i = 0; i < 4; i++) largest[i] = max(largest[i], load(scores + k + i * kLanes));
        const Vec most = fill(max_of(max(max(largest[0], largest[1]), max(largest[2], largest[3]))));
        for (int64_t k = 0; k < shape.rows; k += kPerVector) {
            alignas(64) float weights[kPerVector];
            for (int i = 0; i < kPerWord; i++) {
                const Vec x = power_of(sub(load(scores + k + i * kLanes), most));
                sum[i] = add(sum[i], x);
                store(weights + i * kLanes, x);
            }
            store_left(block, row, k / kPerWord, to_words(weights));
        }
        return sum_of(add(sum[0], sum[1]));
    }
};

}  // namespace shruti

#endif
#endif
