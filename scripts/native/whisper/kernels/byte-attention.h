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
            Words words[kParts][kLanes];
            for (int i = 0; i < kLanes; i++) {
                Vec x[kVectors];
                SHRUTI_UNROLL
                for (int j = 0; j < kVectors; j++)
                    x[j] = sub(RowOfHalves::load_at(row_at(k, row + i, head, window), j * kLanes), mean[j]);
                Ints bytes[kParts];
                factors[row + i] = round_row(x, bytes);
                SHRUTI_UNROLL
                for (int j = 0; j < kParts; j++) words[j][i] = without_sign(bytes[j]);
            }
            for (int j = 0; j < kParts; j++)
                transpose(words[j], (uint32_t *) (out + row / kColumns * kColumns * kWidth) + j * kLanes * kColumns + row % kColumns, kColumns);
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
    // Vectors of a row of floats, and of a row of bytes.
    static constexpr int kVectors = kWidth / kLanes, kParts = kVectors / 4;

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

    // Rounds a row to 8 bits, with a sign. Returns its factor.
    static float round_row(const Vec * x, Ints * bytes) {
        Vec largest = abs_of(x[0]);
        SHRUTI_UNROLL
        for (int j = 1; j < kVectors; j++) largest = max(largest, abs_of(x[j]));
        const ByteScale scale(max_of(largest));
        SHRUTI_UNROLL
        for (int j = 0; j < kParts; j++) bytes[j] = rounded_bytes(x + 4 * j, fill(scale.multiplier));
        return scale.factor;
    }

    // Rounds kBlock rows of kLanes columns; `load_row` returns a row of them.
    template <typename LoadRow> static void pack_column(const LoadRow & load_row, uint32_t * to, float * factors) {
        Vec largest = zero();
        for (int64_t i = 0; i < kBlock; i++) largest = max(largest, abs_of(load_row(i)));
        const Vec scale = div(fill(127.0f), max(largest, fill(kLeastRounded)));
        store(factors, mul(largest, fill(1 / 127.0f)));
        const Ints low = fill_ints(255);
        for (int64_t i = 0; i < kBlock; i += 4) {
            const auto whole = [&](int64_t j) { return rounded(mul(load_row(i + j), scale)); };
            Ints       four = bits_or(shifted_left<24>(whole(3)), shifted_left<16>(bits_and(whole(2), low)));
            four = bits_or(four, bits_or(shifted_left<8>(bits_and(whole(1), low)), bits_and(whole(0), low)));
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
            SHRUTI_UNROLL
            for (int j = 0; j < kVectors; j++) x[j] = mul(load(from + j * kLanes), scale);
            Ints bytes[kParts];
            left.factors[i % kRows] = round_row(x, bytes);
            int8_t * to = left.values[i % kRows];
            for (int j = 0; j < kParts; j++) store_ints(to + 4 * kLanes * j, bytes[j]);
            // The keys' 128, times the sum of the query's bytes.
            left.corrections[i % kRows] = -128 * (sum_of_bytes(_mm256_loadu_si256((const __m256i *) to)) +
                                                  sum_of_bytes(_mm256_loadu_si256((const __m256i *) (to + 32))));
        }
    }

    // Exponentiates the scores of a query and packs them as a row of blocks, each in proportion to its largest one. Returns
    // their sum.
    static float weigh(const float * scores, int64_t depth, int64_t row, WeightBlocks::Left * out) {
        alignas(64) float largest[kMostRows / kBlock], factors[kMostRows / kBlock];
        const float       most = find_largest(scores, depth, largest);
        for (int64_t b = 0; b < depth; b += kLanes)
            store(factors + b, mul(exp2_or_zero(sub(load(largest + b), fill(most))), fill(1.0f / 255)));
        Vec total = zero();
        for (int64_t b = 0; b < depth; b++) {
            const Vec more = fill(kLog2Of255 - largest[b]);
            Vec       sum = zero();
            SHRUTI_UNROLL
            for (int64_t part = 0; part < kParts; part++) {
                const float * from = scores + b * kBlock + part * 4 * kLanes;
                Vec           x[4];
                SHRUTI_UNROLL
                for (int j = 0; j < 4; j++) x[j] = rough_exp2_of(add(load(from + j * kLanes), more));
                sum = add(sum, add(add(x[0], x[1]), add(x[2], x[3])));
                store_ints(out[b].values[row] + part * 4 * kLanes, unsigned_bytes_of(rounded(x[0]), rounded(x[1]), rounded(x[2]), rounded(x[3])));
            }
            total = fma(sum, fill(factors[b]), total);
            out[b].factors[row] = factors[b];
        }
        return sum_of(total);
    }

    // Finds the largest number of each block, in places up to the next multiple of kLanes, and returns the largest of all.
    static float find_largest(const float * scores, int64_t depth, float * largest) {
        __m128 most = _mm_set1_ps(-INFINITY);
        for (int64_t b = 0; b < (depth + kLanes - 1) / kLanes * kLanes; b += 4) {
            Vec of[4];
            SHRUTI_UNROLL
            for (int64_t i = 0; i < 4; i++) {
                const float * x = scores + std::min(b + i, depth - 1) * kBlock;
                of[i] = load(x);
                SHRUTI_UNROLL
                for (int64_t j = kLanes; j < kBlock; j += kLanes) of[i] = max(of[i], load(x + j));
            }
            const __m128 all = maxima_of(of);
            most = _mm_max_ps(most, all);
            _mm_store_ps(largest + b, all);
        }
        most = _mm_max_ps(most, _mm_movehl_ps(most, most));
        return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
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
