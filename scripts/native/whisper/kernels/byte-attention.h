// Attention with bytes, for models whose weights are multiplied as bytes: both products are those of byte-blocks.h. Queries
// and keys have a factor for each row, values one for 64 rows of a column, and weights one for 64 keys of a query.
#ifndef SHRUTI_BYTE_ATTENTION_H
#define SHRUTI_BYTE_ATTENTION_H

#include "attention-shape.h"
#include "byte-blocks.h"
#include "shruti-functions.h"

#ifdef SHRUTI_BYTES

#include <algorithm>
#include <cmath>

namespace shruti {

struct ByteAttention {
    static constexpr int64_t kWidth = 64;
    using QueryBlocks = ByteBlocks<kWidth, Signed::kLeft>;   // times keys without a sign
    using WeightBlocks = ByteBlocks<64, Signed::kRight>;     // without a sign, times values
    static constexpr int64_t kRows = QueryBlocks::kRows, kColumns = QueryBlocks::kColumns, kBlock = WeightBlocks::kBlock;
    // Blocks of queries that read keys and values together.
    static constexpr int64_t kBlocks = 8, kQueries = kBlocks * kRows;
    // Blocks of rows of the values that are added at once: they stay in the first cache.
    static constexpr int64_t kDepth = 8;
    static constexpr int64_t kMostRows = 64 * kBlock;

    static bool takes(const AttentionShape & shape, const ggml_tensor * dst) {
        return dst->op_params[SHRUTI_ATTENTION_IN_BYTES] && shape.width == kWidth && shape.rows <= kMostRows &&
               dst->src[1]->type == GGML_TYPE_F16;
    }

    // Packed keys and values of a head.
    static size_t key_bytes(const AttentionShape & shape) { return shape.rows * (kWidth + sizeof(float)); }
    static size_t value_bytes(const AttentionShape & shape) { return shape.rows * kWidth + shape.rows / kBlock * kWidth * sizeof(float); }
    static size_t thread_bytes(const AttentionShape & shape) { return query_bytes() + score_bytes(shape) + weight_bytes(shape); }

    // A panel for kColumns keys, then a factor for each key. What all keys have in common adds the same to all scores of a
    // query, and so nothing to its weights: without it, keys are smaller, and rounded less.
    static void pack_keys(const ggml_tensor * k, const AttentionShape & shape, int64_t head, int64_t window, char * out) {
        Vec mean[kVectors];
        find_mean(k, shape, head, window, mean);
        float * factors = (float *) (out + shape.rows * kWidth);
        for (int64_t row = 0; row < shape.rows; row += kLanes) {
            Words words[kLanes];
            for (int i = 0; i < kLanes; i++) {
                Vec x[kVectors];
                for (int j = 0; j < kVectors; j++)
                    x[j] = sub(RowOfHalves::load_at(row_at(k, row + i, head, window), j * kLanes), mean[j]);
                words[i] = without_sign(round_row(x, factors[row + i]));
            }
            transpose(words, (uint32_t *) (out + row / kColumns * kColumns * kWidth) + row % kColumns, kColumns);
        }
    }

    // Panels of kColumns columns, then their factors for each block of rows.
    static void pack_values(const ggml_tensor * v, const AttentionShape & shape, int64_t head, int64_t window, char * out) {
        for (int64_t panel = 0; panel < kWidth / kColumns; panel++) {
            char *  values = out + panel * shape.rows * kColumns;
            float * factors = (float *) (out + shape.rows * kWidth) + panel * (shape.rows / kBlock) * kColumns;
            for (int64_t row = 0; row < shape.rows; row += kBlock)
                for (int64_t c = 0; c < kColumns; c += kLanes)
                    pack_column(
                        [&](int64_t i) { return RowOfHalves::load_at(row_at(v, row + i, head, window), panel * kColumns + c); },
                        (uint32_t *) (values + row * kColumns) + c, factors + row / kBlock * kColumns + c);
        }
    }

    // Computes kQueries queries of a head from `first` on.
    static void attend(ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window, const char * keys,
                       const char * values, char * memory) {
        QueryBlocks::Left *  queries = (QueryBlocks::Left *) memory;
        float *              scores = (float *) (memory + query_bytes());
        WeightBlocks::Left * weights = (WeightBlocks::Left *) (memory + query_bytes() + score_bytes(shape));
        const int64_t        blocks = std::min(kBlocks, (shape.queries - first + kRows - 1) / kRows), depth = shape.rows / kBlock;

        pack_queries(dst, shape, first, head, window, queries);
        const float * key_factors = (const float *) (keys + shape.rows * kWidth);
        for (int64_t row = 0; row < shape.rows; row += kColumns)
            for (int64_t b = 0; b < blocks; b++)
                QueryBlocks::multiply(queries + b, 1, keys + row * kWidth, key_factors + row, scores + b * kRows * score_stride(shape) + row,
                                      score_stride(shape), {});
        float sums[kQueries];
        for (int64_t i = 0; i < blocks * kRows; i++)
            sums[i] = weigh(scores + i * score_stride(shape), depth, i % kRows, weights + i / kRows * depth);

        alignas(64) float out[kQueries * kWidth];
        add_values(weights, blocks, values, depth, out);
        for (int64_t i = 0; i < std::min(kQueries, shape.queries - first); i++) {
            float *   to = result_at(dst, shape, first + i, head, window);
            const Vec share = fill(1 / sums[i]);
            for (int64_t d = 0; d < kWidth; d += kLanes) store(to + d, mul(share, load(out + i * kWidth + d)));
        }
    }

   private:
    static constexpr int kVectors = kWidth / kLanes;

    static size_t query_bytes() { return (kBlocks * sizeof(QueryBlocks::Left) + 63) / 64 * 64; }
    static size_t score_bytes(const AttentionShape & shape) { return kQueries * score_stride(shape) * sizeof(float); }
    static size_t weight_bytes(const AttentionShape & shape) {
        return (kBlocks * shape.rows / kBlock * sizeof(WeightBlocks::Left) + 63) / 64 * 64;
    }

    static void find_mean(const ggml_tensor * k, const AttentionShape & shape, int64_t head, int64_t window, Vec * mean) {
        for (int j = 0; j < kVectors; j++) {
            mean[j] = zero();
            for (int64_t row = 0; row < shape.rows; row++)
                mean[j] = add(mean[j], RowOfHalves::load_at(row_at(k, row, head, window), j * kLanes));
            mean[j] = mul(mean[j], fill(1.0f / shape.rows));
        }
    }

    // Rounds a row to 8 bits, with a sign.
    static __m512i round_row(const Vec * x, float & factor) {
        const ByteScale scale(max_of(max(max(_mm512_abs_ps(x[0]), _mm512_abs_ps(x[1])), max(_mm512_abs_ps(x[2]), _mm512_abs_ps(x[3])))));
        factor = scale.factor;
        return rounded_bytes(x, fill(scale.multiplier));
    }

    // Rounds kBlock rows of kLanes columns; `load_row` returns a row of them.
    template <typename LoadRow> static void pack_column(const LoadRow & load_row, uint32_t * to, float * factors) {
        Vec largest = zero();
        for (int64_t i = 0; i < kBlock; i++) largest = max(largest, _mm512_abs_ps(load_row(i)));
        const Vec scale = _mm512_maskz_div_ps(_mm512_cmp_ps_mask(largest, fill(kLeastRounded), _CMP_GT_OQ), fill(127.0f), largest);
        store(factors, mul(largest, fill(1 / 127.0f)));
        const __m512i low = _mm512_set1_epi32(255);
        for (int64_t i = 0; i < kBlock; i += 4) {
            __m512i four = _mm512_slli_epi32(whole_of(load_row(i + 3), scale), 24);
            for (int j = 0; j < 3; j++)
                four = _mm512_or_si512(four, _mm512_slli_epi32(_mm512_and_si512(whole_of(load_row(i + j), scale), low), 8 * j));
            store_words(to + i / 4 * kColumns, four);
        }
    }

    static void pack_queries(const ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window,
                             QueryBlocks::Left * out) {
        const Vec scale = fill(scale_of(dst));
        for (int64_t i = 0; i < kQueries; i++) {
            const float *       from = (const float *) row_at(dst->src[0], std::min(first + i, shape.queries - 1), head, window);
            QueryBlocks::Left & left = out[i / kRows];
            Vec                 x[kVectors];
            for (int j = 0; j < kVectors; j++) x[j] = mul(load(from + j * kLanes), scale);
            const __m512i bytes = round_row(x, left.factors[i % kRows]);
            _mm512_storeu_si512(left.values[i % kRows], bytes);
            // The keys' 128, times the sum of the query's bytes.
            left.corrections[i % kRows] = -128 * _mm512_reduce_add_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes));
        }
    }

    // Exponentiates the scores of a query and packs them as a row of blocks, each in proportion to its largest one. Returns
    // their sum.
    static float weigh(const float * scores, int64_t depth, int64_t row, WeightBlocks::Left * out) {
        alignas(64) float largest[kMostRows / kBlock], factors[kMostRows / kBlock];
        const float       most = find_largest(scores, depth, largest);
        for (int64_t b = 0; b < depth; b += kLanes)
            store(factors + b, mul(exp2_of(sub(load(largest + b), fill(most))), fill(1.0f / 255)));
        Vec total = zero();
        for (int64_t b = 0; b < depth; b++) {
            const Vec more = fill(kLog2Of255 - largest[b]);
            Vec       x[4];
            for (int j = 0; j < 4; j++) x[j] = rough_exp2_of(add(load(scores + b * kBlock + j * kLanes), more));
            total = fma(add(add(x[0], x[1]), add(x[2], x[3])), fill(factors[b]), total);
            const __m512i low = _mm512_packus_epi32(_mm512_cvtps_epi32(x[0]), _mm512_cvtps_epi32(x[1]));
            const __m512i high = _mm512_packus_epi32(_mm512_cvtps_epi32(x[2]), _mm512_cvtps_epi32(x[3]));
            _mm512_storeu_si512(out[b].values[row], in_order(_mm512_packus_epi16(low, high)));
            out[b].factors[row] = factors[b];
        }
        return sum_of(total);
    }

    // Finds the largest number of each block, in places up to the next multiple of kLanes, and returns the largest of all.
    static float find_largest(const float * scores, int64_t depth, float * largest) {
        Vec most = fill(-INFINITY);
        for (int64_t b = 0; b < (depth + kLanes - 1) / kLanes * kLanes; b += 4) {
            Vec of[4];
            for (int64_t i = 0; i < 4; i++) {
                const float * x = scores + std::min(b + i, depth - 1) * kBlock;
                of[i] = max(max(load(x), load(x + kLanes)), max(load(x + 2 * kLanes), load(x + 3 * kLanes)));
            }
            const Vec all = maxima_of(of);
            most = max(most, all);
            _mm_store_ps(largest + b, _mm512_castps512_ps128(all));
        }
        return max_of(most);
    }

    // The maxima of four vectors, in each four places.
    static Vec maxima_of(const Vec * x) {
        const __m512d a = _mm512_castps_pd(max(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1])));
        const __m512d b = _mm512_castps_pd(max(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3])));
        const Vec     quads = max(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
        const Vec     pairs = max(quads, _mm512_shuffle_f32x4(quads, quads, 0x4E));
        return max(pairs, _mm512_shuffle_f32x4(pairs, pairs, 0xB1));
    }

    // 2^x with a relative error of 0.0001, for what is rounded to 8 bits.
    static Vec rough_exp2_of(Vec x) {
        const Vec rest = _mm512_reduce_ps(x, 0);
        Vec       p = fill(5.51715030e-02f);
        p = fma(p, rest, fill(2.42611178e-01f));
        p = fma(p, rest, fill(6.93261022e-01f));
        p = fma(p, rest, fill(9.99928071e-01f));
        return scale_by_power(p, round(x));
    }

    static constexpr float kLog2Of255 = 7.99435344f;

    // Adds up the weighted values of `blocks` blocks of queries.
    static void add_values(const WeightBlocks::Left * weights, int64_t blocks, const char * values, int64_t depth, float * out) {
        const int64_t panel_bytes = depth * kBlock * kColumns;
        const float * factors = (const float *) (values + kWidth / kColumns * panel_bytes);
        for (int64_t from = 0; from < depth; from += kDepth)
            for (int64_t panel = 0; panel < kWidth / kColumns; panel++)
                for (int64_t b = 0; b < blocks; b++) {
                    float * to = out + b * kRows * kWidth + panel * kColumns;
                    Finish  finish;
                    if (from > 0) finish.add = to;
                    finish.add_stride = kWidth;
                    WeightBlocks::multiply(weights + b * depth + from, std::min(kDepth, depth - from),
                                           values + panel * panel_bytes + from * kBlock * kColumns,
                                           factors + (panel * depth + from) * kColumns, to, kWidth, finish);
                }
    }
};

}  // namespace shruti

#endif
#endif
