// How products with many rows pack and multiply whole numbers of 16 bits, for weights of all types.
#ifndef SHRUTI_SHORT_PRODUCTS_H
#define SHRUTI_SHORT_PRODUCTS_H

#include "product-rows.h"
#include "short-blocks.h"

#ifdef SHRUTI_SHORT_PRODUCTS

namespace shruti {

// Inputs are rounded in blocks of 128.
struct Shorts {
    using Blocks = ShortBlocks<128, Factors::kOfColumns>;
    using Left = typename Blocks::Left;
    using WeightScale = ShortScale;
    static constexpr int64_t kRows = Blocks::kRows, kColumns = Blocks::kColumns, kBlock = Blocks::kBlock, kOfWord = 2;
    static constexpr int64_t kDepth = 512, kLeastPacked = kBlock;

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static size_t panel_bytes(int64_t depth) { return RoundedPanel<Shorts>::bytes(depth); }
    static size_t wide_bytes() { return RoundedPanel<Shorts>::wide_bytes(); }
    static bool   takes(const Shape & shape) { return shape.depth % kBlock == 0; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) { pack_all_rows<Shorts>(x, shape, block, to); }

    static void pack_rows(const float * const * rows, int64_t at, int64_t count, char * to) { round_rows<Shorts>(rows, at, count, to); }

    static void round(const float * from, Left & left, int64_t r) {
        const ShortScale scale(largest_of(from, kBlock));
        for (int64_t k = 0; k < kBlock; k += kOfWord * kLanes) {
            const Vec x[] = {load(from + k), load(from + k + kLanes)};
            store_ints(left.values[r] + k, words_of(x, fill(scale.multiplier)));
        }
        left.factors[r] = scale.factor;
    }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        RoundedPanel<Shorts>::pack(w, shape, column, from, count, wide, to);
    }

    static Words words_of(const Vec * x, Vec multiplier) { return rounded_shorts(x, multiplier); }

    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        Blocks::multiply((const Left *) left + from / kBlock, count / kBlock, panel, (const float *) (panel + kColumns * count * 2), out, stride,
                         finish);
    }
};

}  // namespace shruti

#endif
#endif
