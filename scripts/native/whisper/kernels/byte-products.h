// How products with many rows pack and multiply bytes, for quantized weights.
#ifndef SHRUTI_BYTE_PRODUCTS_H
#define SHRUTI_BYTE_PRODUCTS_H

#include "byte-blocks.h"
#include "product-rows.h"
#include "side-by-side.h"

#ifdef SHRUTI_VECTORS

namespace shruti {

#ifdef SHRUTI_BYTES

// Products of bytes. Inputs are rounded to 8 bits in blocks of 32, as ggml does.
template <Factors kFactors> struct ByteProducts {
    using Blocks = ByteBlocks<32, Signed::kLeft, kFactors>;
    using Left = typename Blocks::Left;
    static constexpr int64_t kRows = Blocks::kRows, kColumns = Blocks::kColumns, kBlock = Blocks::kBlock;
    static constexpr int64_t kDepth = 512, kLeastPacked = kBlock;

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static bool   takes(const Shape & shape, const ggml_tensor * x) { return shape.depth % (2 * kBlock) == 0 && x->type == GGML_TYPE_F32; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) { pack_all_rows<ByteProducts>(x, shape, block, to); }

    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) { round_rows<ByteProducts>(rows, at, count, to); }

    static void round(const float * from, Left & left, int64_t r) {
        const RoundedBlock rounded = rounded_block(from);
        _mm256_storeu_si256((__m256i *) left.values[r], rounded.values);
        left.factors[r] = rounded.factor;
        left.corrections[r] = -128 * sum_of_bytes(rounded.values);
    }

    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        Blocks::multiply((const Left *) left + from / kBlock, count / kBlock, panel, (const float *) (panel + kColumns * count), out, stride,
                         finish);
    }
};

// For weights of 8 bits: their numbers and their factors of 32 stay as they are.
struct Bytes : ByteProducts<Factors::kOfBlocks> {
    static size_t panel_bytes(int64_t depth) { return kColumns * (depth + depth / kBlock * sizeof(float)); }
    static size_t wide_bytes() { return 0; }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char *, char * to) {
        uint32_t * values = (uint32_t *) to;
        float *    factors = (float *) (to + kColumns * count);
        for (int64_t c = 0; c < kColumns; c += kLanes) {
            const block_q8_0 * rows[kLanes];
            for (int64_t i = 0; i < kLanes; i++) rows[i] = (const block_q8_0 *) weights_of(w, shape, column + c + i) + from / kBlock;
            for (int64_t b = 0; b < count / kBlock; b += kBlocksOfWords) {
                Words words[kLanes];
                for (int64_t i = 0; i < kLanes; i++) {
                    words[i] = words_of(rows[i] + b);
                    for (int64_t j = b; j < b + kBlocksOfWords; j++) factors[j * kColumns + c + i] = single(rows[i][j].d);
                }
                transpose(words, values + b * (kBlock / 4) * kColumns + c, kColumns);
            }
        }
    }

   private:
    static constexpr int64_t kBlocksOfWords = 4 * kLanes / kBlock;

#ifdef SHRUTI_AVX512
    static Words words_of(const block_q8_0 * blocks) {
        return _mm512_inserti64x4(_mm512_castsi256_si512(OfQ8_0::bytes(blocks[0])), OfQ8_0::bytes(blocks[1]), 1);
    }
#else
    static Words words_of(const block_q8_0 * blocks) { return OfQ8_0::bytes(blocks[0]); }
#endif
};

// For weights of fewer bits: they are rounded again, to 8 bits with a factor for all numbers of a row that are packed at once.
// This rounds far less than their own type did, and saves a product of factors for each block.
struct RoundedBytes : ByteProducts<Factors::kOfColumns> {
    using WeightScale = ByteScale;
    static constexpr int64_t kOfWord = 4;

    static size_t panel_bytes(int64_t depth) { return RoundedPanel<RoundedBytes>::bytes(depth); }
    static size_t wide_bytes() { return RoundedPanel<RoundedBytes>::wide_bytes(); }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        RoundedPanel<RoundedBytes>::pack(w, shape, column, from, count, wide, to);
    }

    static Words words_of(const Vec * x, Vec multiplier) { return without_sign(rounded_bytes(x, multiplier)); }
};

#elif !defined(SHRUTI_VNNI)

// Products of bytes for weights of 4 and 5 bits where no instruction adds up four products: the sum of eight of them has 16
// bits. Weights are unpacked side by side, a column in each lane, and keep their numbers and factors.
template <typename Type> struct FewBits {
    using Block = typename Type::Block;
    static constexpr int64_t kRows = 4, kColumns = kLanes, kBlock = 32;
    static constexpr int64_t kDepth = 512, kLeastPacked = kBlock;

    // `start`: the products of the offset of the weights, taken away. `weighted`: factor times the sum of all values.
    struct Left {
        int32_t values[kRows][8];  // four bytes each
        int32_t start[kRows];
        float   factors[kRows], weighted[kRows];
    };

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static size_t panel_bytes(int64_t depth) { return depth / kBlock * sizeof(Blocks); }
    static size_t wide_bytes() { return 0; }
    static bool   takes(const Shape & shape, const ggml_tensor * x) {
        return shape.depth % kBlock == 0 && shape.columns % kColumns == 0 && x->type == GGML_TYPE_F32;
    }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) { pack_all_rows<FewBits>(x, shape, block, to); }

    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) { round_rows<FewBits>(rows, at, count, to); }

    static void round(const float * from, Left & left, int64_t r) {
        const RoundedBlock rounded = rounded_block(from);
        const int32_t      sum = sum_of_bytes(rounded.values);
        _mm256_storeu_si256((__m256i *) left.values[r], rounded.values);
        left.start[r] = -Type::kOffset * sum;
        left.factors[r] = rounded.factor;
        left.weighted[r] = rounded.factor * sum;
    }

    static void pack_panel(const ggml_tensor * w, const Shape &, int64_t column, int64_t from, int64_t count, char *, char * to) {
        const Block * first = (const Block *) ((const char *) w->data + column * w->nb[1]) + from / kBlock;
        for (int64_t b = 0; b < count / kBlock; b++) unpack_rows(first + b, w->nb[1], ((Blocks *) to)[b]);
    }

    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        const Left *   rows = (const Left *) left + from / kBlock;
        const Blocks * blocks = (const Blocks *) panel;
        Vec            sums[kRows];
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) sums[r] = zero();
        for (int64_t b = 0; b < count / kBlock; b++, rows++, blocks++) {
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                const Vec whole = to_floats(add_products(fill_ints(Type::kOffset ? rows->start[r] : 0), blocks->numbers, rows->values[r]));
                sums[r] = fma(mul(blocks->scales, fill(rows->factors[r])), whole, sums[r]);
                if constexpr (Type::kHasLeast) sums[r] = fma(blocks->least, fill(rows->weighted[r]), sums[r]);
            }
        }
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) finish_row(out + r * stride, sums[r], r, 0, finish);
    }
};

#endif

}  // namespace shruti

#endif
#endif
