// What products of whole numbers of all kinds share: the sums of a block become floats, and are scaled and added up over the
// blocks. Each row of a block has a factor. Each column has one for each block, or one for all blocks that are multiplied.
#ifndef SHRUTI_SCALED_BLOCKS_H
#define SHRUTI_SCALED_BLOCKS_H

#include "blocks.h"
#include "whole-vectors.h"

#ifdef SHRUTI_VECTORS

namespace shruti {

// What the whole numbers of a column share a factor for: a block of them, or all that are multiplied together.
enum class Factors { kOfBlocks, kOfColumns };

// Multiplies `count` blocks of `left` with those of a panel. `Kind` is the kind of numbers: it has kRows, kBlock, kColumns, the
// bytes of a number (kBytes), what columns share a factor for (kFactors), and the products of one block (multiply_block).
template <typename Kind>
SHRUTI_INLINE void multiply_scaled(const typename Kind::Left * left, int64_t count, const char * values, const float * factors, float * out,
                                   size_t stride, const Finish & finish) {
    constexpr int64_t kRows = Kind::kRows, kColumns = Kind::kColumns;
    constexpr bool    kOfBlocks = Kind::kFactors == Factors::kOfBlocks;
    Vec               sums[kRows][2];
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = zero();
    for (int64_t b = 0; b < count; b++, left++, values += Kind::kBytes * Kind::kBlock * kColumns) {
        Ints whole[kRows][2];
        Kind::multiply_block(*left, values, whole);
        const Vec first = load(factors), second = load(factors + kLanes);
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) {
            const Vec factor = fill(left->factors[r]);
            sums[r][0] = fma(kOfBlocks ? mul(factor, first) : factor, to_floats(whole[r][0]), sums[r][0]);
            sums[r][1] = fma(kOfBlocks ? mul(factor, second) : factor, to_floats(whole[r][1]), sums[r][1]);
        }
        if (kOfBlocks) factors += kColumns;
    }
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) {
        if (!kOfBlocks) {
            sums[r][0] = mul(sums[r][0], load(factors));
            sums[r][1] = mul(sums[r][1], load(factors + kLanes));
        }
        finish_row(out + r * stride, sums[r][0], r, 0, finish);
        finish_row(out + r * stride + kLanes, sums[r][1], r, kLanes, finish);
    }
}

}  // namespace shruti

#endif
#endif
