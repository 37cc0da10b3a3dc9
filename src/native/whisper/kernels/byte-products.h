// How products with many rows pack and multiply bytes, for quantized weights.
#ifndef SHRUTI_BYTE_PRODUCTS_H
#define SHRUTI_BYTE_PRODUCTS_H

#include "byte-blocks.h"
#include "product-rows.h"
#include "super-blocks.h"

#include <cmath>

#ifdef SHRUTI_VECTORS

namespace shruti {

#ifdef SHRUTI_BYTES

// Products of bytes. Both sides are rounded to 8 bits, with one factor for 128 numbers of a row. With 32, as ggml has them, a third of
// the instructions would make floats of sums.
struct Bytes {
    using Blocks = ByteBlocks<128, Signed::kLeft>;
    using Left = typename Blocks::Left;
    using WeightScale = ByteScale;
    static constexpr int64_t kRows = Blocks::kRows, kColumns = Blocks::kColumns, kBlock = Blocks::kBlock, kOfWord = 4;
    static constexpr int64_t kDepth = 1024, kLeastPacked = kBlock;

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static size_t panel_bytes(int64_t depth) { return RoundedPanel<Bytes>::bytes(depth); }
    static size_t wide_bytes() { return RoundedPanel<Bytes>::wide_bytes(); }
    static bool   takes(const Shape & shape, const ggml_tensor * x) { return shape.depth % kBlock == 0 && x->type == GGML_TYPE_F32; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) { pack_all_rows<Bytes>(x, shape, block, to); }

    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) { round_rows<Bytes>(rows, at, count, to); }

    static void round(const float * from, Left & left, int64_t r) {
        const ByteScale scale(largest_of(from, kBlock));
        int             sum = 0;
        for (int64_t k = 0; k < kBlock; k += kRoundedBlock) {
            const RoundedBlock rounded = rounded_block(from + k, scale);
            store_bytes(left.values[r] + k, rounded.values);
            if (kMoved) sum += sum_of_bytes(rounded.values);
        }
        left.factors[r] = scale.factor;
        left.corrections[r] = -kMoved * sum;
    }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        if (w->type == GGML_TYPE_Q8_0)
            pack_bytes(w, shape, column, from, count, to);
        else
            RoundedPanel<Bytes>::pack(w, shape, column, from, count, wide, to);
    }

    static Words words_of(const Vec * x, Vec multiplier) { return moved(rounded_bytes(x, multiplier)); }

    // A function of its own: inlined into larger ones, GCC keeps its sums in memory.
    static __attribute__((noinline)) void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride,
                                                   const Finish & finish) {
        Blocks::multiply((const Left *) left + from / kBlock, count / kBlock, panel, (const float *) (panel + kColumns * count), out, stride,
                         finish);
    }

   private:
    static constexpr int64_t kOfWeights = kRoundedBlock, kTogether = kBlock / kOfWeights, kInWords = kOfWord * kLanes / kOfWeights;

    // Weights that are bytes with a factor for 32: those with less than the largest factor of their 128 are made smaller.
    static void pack_bytes(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * to) {
        uint32_t * values = (uint32_t *) to;
        float *    factors = (float *) (to + kColumns * count);
        for (int64_t c = 0; c < kColumns; c += kLanes) {
            const block_q8_0 * rows[kLanes];
            for (int64_t i = 0; i < kLanes; i++) rows[i] = (const block_q8_0 *) weights_of(w, shape, column + c + i) + from / kOfWeights;
            for (int64_t b = 0; b < count / kBlock; b++) {
                Words words[kTogether / kInWords][kLanes];
                for (int64_t i = 0; i < kLanes; i++) factors[b * kColumns + c + i] = alike(rows[i] + b * kTogether, &words[0][i]);
                for (int64_t j = 0; j < kTogether / kInWords; j++)
                    transpose(words[j], values + (b * kBlock / kOfWord + j * kLanes) * kColumns + c, kColumns);
            }
        }
    }

    // Gives 128 numbers the largest of their factors, which it returns. `words`: where they go, each kLanes behind the one before.
    static float alike(const block_q8_0 * blocks, Words * words) {
        float factors[kTogether], largest = 0;
        for (int64_t j = 0; j < kTogether; j++) {
            factors[j] = single(blocks[j].d);
            largest = std::max(largest, std::abs(factors[j]));
        }
        const ShareOfBytes share(largest);
        for (int64_t j = 0; j < kTogether; j += kInWords) {
            Bytes32 bytes[kInWords];
            for (int64_t n = 0; n < kInWords; n++) bytes[n] = moved(share.of(load_32_bytes(blocks[j + n].qs), factors[j + n]));
            words[j / kInWords * kLanes] = joined(bytes);
        }
        return largest;
    }
};

#elif !defined(SHRUTI_VNNI)

// The least numbers of a block of columns, if there are any.
template <bool kAreThere> struct LeastNumbers { Vec least[2]; };
template <> struct LeastNumbers<false> {};

// Products of bytes for weights of 4 and 5 bits where no instruction adds up four products. Weights are unpacked side by side, a
// column in each lane, and keep their numbers.
//
// A constant is taken away from each number, so that all lie between -16 and 16. Then the sum of 16 products fits in 16 bits, so a
// block of 32 needs two sums of that size: what is above 16 bits on the way is lost, and the results are right all the same. One
// instruction multiplies both by the block's factor and adds them up, because the factors of a column are whole numbers too, in
// proportion to their largest. Rounding them adds far less of an error than the weights have.
template <typename Type> struct FewBits {
    static constexpr int64_t kRows = kLanes == 16 ? 6 : 3, kColumns = 2 * kLanes, kBlock = 32;
    static constexpr int64_t kDepth = 512, kLeastPacked = kBlock;
    static constexpr bool    kHasLeast = Type::kHasLeast;
    // What is taken away. Of numbers without an offset it becomes a part of their least number.
    static constexpr int     kCentre = kHasLeast ? 16 : Type::kOffset;
    static constexpr int64_t kMostSum = 16 * 16 * 127;
    static_assert(kMostSum <= INT16_MAX && 2 * kMostSum * INT16_MAX <= INT32_MAX, "the sum of 16 products has 16 bits, and that of a block 32");
    static_assert(kCentre <= 16 && Type::kMost - kCentre <= 16, "the sum of 16 products has 16 bits");

    // `start`: for each of both sums 16 bits, the products of what was taken away from the numbers. `weighted`: factor times the sum
    // of all values.
    struct Left {
        int32_t values[kRows][8];  // four bytes each
        int32_t start[kRows];
        float   factors[kRows], weighted[kRows];
    };

    // A block of kColumns columns. `factors`: each twice, as both halves of its lane. They and `least` are in proportion to the
    // column's scale, which follows the last block.
    struct Right : LeastNumbers<kHasLeast> {
        Ints numbers[8][2];
        Ints factors[2];
    };

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static size_t panel_bytes(int64_t depth) { return depth / kBlock * sizeof(Right) + 2 * sizeof(Vec); }
    static size_t wide_bytes() { return 0; }
    static bool   takes(const Shape & shape, const ggml_tensor * x) {
        return shape.depth % kBlock == 0 && shape.columns % kColumns == 0 && x->type == GGML_TYPE_F32;
    }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) { pack_all_rows<FewBits>(x, shape, block, to); }

    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) { round_rows<FewBits>(rows, at, count, to); }

    static void round(const float * from, Left & left, int64_t r) {
        const RoundedBlock rounded = rounded_block(from);
        store_bytes(left.values[r], rounded.values);
        left.start[r] = _mm_cvtsi128_si32(_mm_mullo_epi16(sums_of_byte_pairs(rounded.values), _mm_set1_epi16(-kCentre)));
        left.factors[r] = rounded.factor;
        if constexpr (kHasLeast) left.weighted[r] = rounded.factor * sum_of_bytes(rounded.values);
    }

    static void pack_panel(const ggml_tensor * w, const Shape &, int64_t column, int64_t from, int64_t count, char *, char * to) {
        Right * right = (Right *) to;
        Vec *   scales = (Vec *) (right + count / kBlock);
        for (int c = 0; c < 2; c++) {
            const char *     first = (const char *) w->data + (column + c * kLanes) * w->nb[1] + ggml_row_size(w->type, from);
            SideBySide<Type> rows(first, w->nb[1]);
            Vec              factors[kDepth / kBlock];
            Vec              largest = fill(kLeastFactor);
            for (int64_t b = 0; b < count / kBlock; b++) {
                Blocks<1> blocks;
                rows.next(blocks);
                for (int i = 0; i < 8; i++) right[b].numbers[i][c] = blocks.numbers[i];
                factors[b] = blocks.scales[0];
                largest = max(largest, abs_of(blocks.scales[0]));
                if constexpr (kHasLeast) right[b].least[c] = fma(fill(kCentre), blocks.scales[0], blocks.least[0]);
            }
            const Vec multiplier = div(fill(INT16_MAX), largest);
            scales[c] = mul(largest, fill(1.0f / INT16_MAX));
            for (int64_t b = 0; b < count / kBlock; b++) {
                const Ints factor = bits_and(rounded(mul(factors[b], multiplier)), fill_ints(0xFFFF));
                right[b].factors[c] = bits_or(factor, shifted_left<16>(factor));
                if constexpr (kHasLeast) right[b].least[c] = mul(right[b].least[c], multiplier);
            }
        }
    }

    // A function of its own: inlined into larger ones, GCC keeps its sums in memory.
    static __attribute__((noinline)) void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride,
                                                   const Finish & finish) {
        const Left *  rows = (const Left *) left + from / kBlock;
        const Right * right = (const Right *) panel;
        Vec           sums[kRows][2];
        SHRUTI_UNROLL_MANY
        for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = zero();
        for (int64_t b = 0; b < count / kBlock; b++, rows++, right++) {
            Ints pairs[kRows][2];
            multiply_block(*rows, *right, pairs);
            SHRUTI_UNROLL_MANY
            for (int r = 0; r < kRows; r++) {
                const Vec factor = fill(rows->factors[r]);
                SHRUTI_UNROLL_MANY
                for (int c = 0; c < 2; c++) {
                    sums[r][c] = fma(factor, to_floats(sums_of_two_products(pairs[r][c], right->factors[c])), sums[r][c]);
                    if constexpr (kHasLeast) sums[r][c] = fma(right->least[c], fill(rows->weighted[r]), sums[r][c]);
                }
            }
        }
        const Vec * scales = (const Vec *) right;
        SHRUTI_UNROLL_MANY
        for (int r = 0; r < kRows; r++) {
            SHRUTI_UNROLL_MANY
            for (int c = 0; c < 2; c++) finish_row(out + r * stride + c * kLanes, mul(sums[r][c], scales[c]), r, c * kLanes, finish);
        }
    }

   private:
    // Less than any factor of a block, which is an f16 number, but zero.
    static constexpr float kLeastFactor = 1e-8f;

    // Computes both sums of a block's products for each row and column.
    static SHRUTI_INLINE void multiply_block(const Left & left, const Right & right, Ints (*pairs)[2]) {
        SHRUTI_UNROLL_MANY
        for (int r = 0; r < kRows; r++) pairs[r][0] = pairs[r][1] = fill_ints(left.start[r]);
        SHRUTI_UNROLL_MANY
        for (int k = 0; k < 8; k++) {
            const Ints first = right.numbers[k][0], second = right.numbers[k][1];
            SHRUTI_UNROLL_MANY
            for (int r = 0; r < kRows; r++) {
                const Ints four = fill_ints(left.values[r][k]);
                add_in_place(pairs[r][0], two_products(first, four));
                add_in_place(pairs[r][1], two_products(second, four));
            }
        }
    }

    // In assembly, because GCC would make the sums in another order, for which there are not enough registers.
    static SHRUTI_INLINE void add_in_place(Ints & pairs, Ints more) { __asm__("vpaddw %1, %0, %0" : "+v"(pairs) : "v"(more)); }
};

#endif

}  // namespace shruti

#endif
#endif
