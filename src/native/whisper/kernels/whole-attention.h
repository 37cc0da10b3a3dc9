// Attention with whole numbers: both products are those of byte-blocks.h or short-blocks.h. Queries and keys have a factor for
// each row, values one for 64 rows of a column, and weights one for 64 keys of a query.
#ifndef SHRUTI_WHOLE_ATTENTION_H
#define SHRUTI_WHOLE_ATTENTION_H

#include "attention-numbers.h"

#if defined(SHRUTI_BYTES) || defined(SHRUTI_SHORTS)

#include <algorithm>
#include <cmath>

namespace shruti {

template <typename Numbers> struct WholeAttention {
    using QueryBlocks = typename Numbers::QueryBlocks;
    using WeightBlocks = typename Numbers::WeightBlocks;
    using QueriesLeft = typename QueryBlocks::Left;
    using WeightsLeft = typename WeightBlocks::Left;
    static constexpr int64_t kWidth = kAttentionWidth, kPerWord = Numbers::kPerWord, kNumberBytes = 4 / kPerWord;
    static constexpr int64_t kRows = QueryBlocks::kRows, kColumns = QueryBlocks::kColumns, kBlock = WeightBlocks::kBlock;
    // Blocks of queries that read keys and values together.
    static constexpr int64_t kBlocks = 8, kQueries = kBlocks * kRows;
    // Blocks of rows of the values that are added at once: 16 KB with AVX-512 stay in the first cache.
    static constexpr int64_t kDepth = 2 * kPerWord;
    static constexpr int64_t kMostRows = 64 * kBlock;

    static bool takes(const AttentionShape & shape, const ggml_tensor * dst) {
        return Numbers::takes(dst) && shape.width == kWidth && shape.rows <= kMostRows && dst->src[1]->type == GGML_TYPE_F16;
    }

    // Packed keys and values of a head.
    static size_t key_bytes(const AttentionShape & shape) { return number_bytes(shape) + shape.rows * sizeof(float); }
    static size_t value_bytes(const AttentionShape & shape) { return number_bytes(shape) + shape.rows / kBlock * kWidth * sizeof(float); }
    static size_t thread_bytes(const AttentionShape & shape) { return query_bytes() + score_bytes(shape) + weight_bytes(shape); }

    // A panel for kColumns keys, then a factor for each key. What all keys have in common adds the same to all scores of a
    // query, and so nothing to its weights: without it, keys are smaller, and rounded less.
    static void pack_keys(const ggml_tensor * k, const AttentionShape & shape, int64_t head, int64_t window, char * out) {
        Vec mean[kVectors];
        find_mean(k, shape, head, window, mean);
        float * factors = (float *) (out + number_bytes(shape));
        for (int64_t row = 0; row < shape.rows; row += kLanes) {
            Words words[kParts][kLanes];
            for (int i = 0; i < kLanes; i++) {
                Vec x[kVectors];
                SHRUTI_UNROLL
                for (int j = 0; j < kVectors; j++)
                    x[j] = sub(RowOfHalves::load_at(row_at(k, row + i, head, window), j * kLanes), mean[j]);
                Ints whole[kParts];
                factors[row + i] = round_row(x, whole);
                SHRUTI_UNROLL
                for (int j = 0; j < kParts; j++) words[j][i] = Numbers::key_words(whole[j]);
            }
            for (int j = 0; j < kParts; j++)
                transpose(words[j], (uint32_t *) (out + row / kColumns * kColumns * kRowBytes) + j * kLanes * kColumns + row % kColumns, kColumns);
        }
    }

    // Panels of kColumns columns, then their factors for each block of rows.
    static void pack_values(const ggml_tensor * v, const AttentionShape & shape, int64_t head, int64_t window, char * out) {
        for (int64_t panel = 0; panel < kWidth / kColumns; panel++) {
            char *  values = out + panel * shape.rows * kColumns * kNumberBytes;
            float * factors = (float *) (out + number_bytes(shape)) + panel * (shape.rows / kBlock) * kColumns;
            for (int64_t row = 0; row < shape.rows; row += kBlock)
                for (int64_t c = 0; c < kColumns; c += kLanes)
                    pack_column(
                        [&](int64_t i) { return RowOfHalves::load_at(row_at(v, row + i, head, window), panel * kColumns + c); },
                        (uint32_t *) (values + row * kColumns * kNumberBytes) + c, factors + row / kBlock * kColumns + c);
        }
    }

    // Computes kQueries queries of a head from `first` on.
    static void attend(ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window, const char * keys,
                       const char * values, char * memory) {
        QueriesLeft * queries = (QueriesLeft *) memory;
        float *       scores = (float *) (memory + query_bytes());
        WeightsLeft * weights = (WeightsLeft *) (memory + query_bytes() + score_bytes(shape));
        const int64_t blocks = std::min(kBlocks, (shape.queries - first + kRows - 1) / kRows), depth = shape.rows / kBlock;

        pack_queries(dst, shape, first, head, window, queries);
        const float * key_factors = (const float *) (keys + number_bytes(shape));
        for (int64_t row = 0; row < shape.rows; row += kColumns)
            for (int64_t b = 0; b < blocks; b++)
                QueryBlocks::multiply(queries + b, 1, keys + row * kRowBytes, key_factors + row, scores + b * kRows * score_stride(shape) + row,
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
    // Vectors of a row of floats, and of a row of whole numbers.
    static constexpr int     kVectors = kWidth / kLanes, kParts = kVectors / kPerWord;
    static constexpr int64_t kRowBytes = kWidth * kNumberBytes;

    // Of all keys or values, without their factors.
    static size_t number_bytes(const AttentionShape & shape) { return shape.rows * kRowBytes; }

    static size_t query_bytes() { return (kBlocks * sizeof(QueriesLeft) + 63) / 64 * 64; }
    static size_t score_bytes(const AttentionShape & shape) { return kQueries * score_stride(shape) * sizeof(float); }
    static size_t weight_bytes(const AttentionShape & shape) {
        return (kBlocks * shape.rows / kBlock * sizeof(WeightsLeft) + 63) / 64 * 64;
    }

    static void find_mean(const ggml_tensor * k, const AttentionShape & shape, int64_t head, int64_t window, Vec * mean) {
        for (int j = 0; j < kVectors; j++) {
            mean[j] = zero();
            for (int64_t row = 0; row < shape.rows; row++)
                mean[j] = add(mean[j], RowOfHalves::load_at(row_at(k, row, head, window), j * kLanes));
            mean[j] = mul(mean[j], fill(1.0f / shape.rows));
        }
    }

    // Rounds a row to whole numbers with a sign. Returns its factor.
    static float round_row(const Vec * x, Ints * whole) {
        Vec largest = abs_of(x[0]);
        SHRUTI_UNROLL
        for (int j = 1; j < kVectors; j++) largest = max(largest, abs_of(x[j]));
        const Scale<Numbers::kMost> scale(max_of(largest));
        SHRUTI_UNROLL
        for (int j = 0; j < kParts; j++) whole[j] = Numbers::rounded_words(x + kPerWord * j, fill(scale.multiplier));
        return scale.factor;
    }

    // Rounds kBlock rows of kLanes columns; `load_row` returns a row of them.
    template <typename LoadRow> static void pack_column(const LoadRow & load_row, uint32_t * to, float * factors) {
        Vec largest = zero();
        for (int64_t i = 0; i < kBlock; i++) largest = max(largest, abs_of(load_row(i)));
        const Vec scale = div(fill(Numbers::kMost), max(largest, fill(kLeastRounded)));
        store(factors, mul(largest, fill(1.0f / Numbers::kMost)));
        for (int64_t i = 0; i < kBlock; i += kPerWord) {
            Ints whole[kPerWord];
            SHRUTI_UNROLL
            for (int64_t j = 0; j < kPerWord; j++) whole[j] = rounded(mul(load_row(i + j), scale));
            store_words(to + i / kPerWord * kColumns, Numbers::column_words(whole));
        }
    }

    static void pack_queries(const ggml_tensor * dst, const AttentionShape & shape, int64_t first, int64_t head, int64_t window,
                             QueriesLeft * out) {
        const Vec scale = fill(scale_of(dst));
        for (int64_t i = 0; i < kQueries; i++) {
            const float * from = (const float *) row_at(dst->src[0], std::min(first + i, shape.queries - 1), head, window);
            QueriesLeft & left = out[i / kRows];
            Vec           x[kVectors];
            SHRUTI_UNROLL
            for (int j = 0; j < kVectors; j++) x[j] = mul(load(from + j * kLanes), scale);
            Ints whole[kParts];
            left.factors[i % kRows] = round_row(x, whole);
            for (int j = 0; j < kParts; j++) store_ints((char *) left.values[i % kRows] + sizeof(Ints) * j, whole[j]);
            Numbers::correct(left, i % kRows);
        }
    }

    // Exponentiates the scores of a query and packs them as a row of blocks, each in proportion to its largest one. Returns
    // their sum.
    static float weigh(const float * scores, int64_t depth, int64_t row, WeightsLeft * out) {
        alignas(64) float largest[kMostRows / kBlock], factors[kMostRows / kBlock];
        const float       most = find_largest(scores, depth, largest);
        for (int64_t b = 0; b < depth; b += kLanes)
            store(factors + b, mul(exp2_or_zero(sub(load(largest + b), fill(most))), fill(1.0f / Numbers::kMostWeight)));
        Vec total = zero();
        for (int64_t b = 0; b < depth; b++) {
            const Vec more = fill(Numbers::kLog2OfMostWeight - largest[b]);
            Vec       sum = zero();
            SHRUTI_UNROLL
            for (int64_t part = 0; part < kParts; part++) {
                const float * from = scores + b * kBlock + part * kPerWord * kLanes;
                Vec           x[kPerWord];
                SHRUTI_UNROLL
                for (int j = 0; j < kPerWord; j++) x[j] = rough_exp2_of(add(load(from + j * kLanes), more));
                Vec of_part = x[0];
                SHRUTI_UNROLL
                for (int j = 1; j < kPerWord; j++) of_part = add(of_part, x[j]);
                sum = add(sum, of_part);
                store_ints((char *) out[b].values[row] + sizeof(Ints) * part, Numbers::weight_words(x));
            }
            total = fma(sum, fill(factors[b]), total);
            out[b].factors[row] = factors[b];
        }
        return sum_of(total);
    }

    // Finds the largest number of each block, in places up to the next multiple of kLanes, and returns the largest of all.
    static float find_largest(const float * scores, int64_t depth, float * largest) {
        Four most = fill_four(-INFINITY);
        for (int64_t b = 0; b < (depth + kLanes - 1) / kLanes * kLanes; b += 4) {
            Vec of[4];
            SHRUTI_UNROLL
            for (int64_t i = 0; i < 4; i++) {
                const float * x = scores + std::min(b + i, depth - 1) * kBlock;
                of[i] = load(x);
                SHRUTI_UNROLL
                for (int64_t j = kLanes; j < kBlock; j += kLanes) of[i] = max(of[i], load(x + j));
            }
            const Four all = maxima_of(of);
            most = max(most, all);
            store_four(largest + b, all);
        }
        return max_of(most);
    }

    // Adds up the weighted values of `blocks` blocks of queries.
    static void add_values(const WeightsLeft * weights, int64_t blocks, const char * values, int64_t depth, float * out) {
        const int64_t panel_bytes = depth * kBlock * kColumns * kNumberBytes;
        const float * factors = (const float *) (values + kWidth / kColumns * panel_bytes);
        for (int64_t from = 0; from < depth; from += kDepth)
            for (int64_t panel = 0; panel < kWidth / kColumns; panel++)
                for (int64_t b = 0; b < blocks; b++) {
                    float * to = out + b * kRows * kWidth + panel * kColumns;
                    Finish  finish;
                    if (from > 0) finish.add = to;
                    finish.add_stride = kWidth;
                    WeightBlocks::multiply(weights + b * depth + from, std::min(kDepth, depth - from),
                                           values + panel * panel_bytes + from * kBlock * kColumns * kNumberBytes,
                                           factors + (panel * depth + from) * kColumns, to, kWidth, finish);
                }
    }
};

}  // namespace shruti

#endif
#endif
