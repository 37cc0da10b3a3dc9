// Products of blocks of whole numbers of 16 bits: kRows rows of the left matrix times kColumns columns of the right one. They
// are rounded to 13 bits, so a sum of 128 products has 32.
//
//   left:                                Left, a block
//   right, a panel of kColumns columns:  [values / 2][kColumns][2] numbers, and factors: [values / kBlock or 1][kColumns]
#ifndef SHRUTI_SHORT_BLOCKS_H
#define SHRUTI_SHORT_BLOCKS_H

#include "quantized.h"
#include "scaled-blocks.h"

// One instruction makes twice as many products of 16 bits as of floats. Without VNNI another one adds them up: processors with
// AVX2 have more units for sums than for products, but with AVX-512 both instructions together take as long as floats. Processors
// with bf16 numbers multiply these in the same time, and round and pack them in less. ARM has no such instruction.
// SHRUTI_SHORT_PRODUCTS: they are there; SHRUTI_SHORTS: they are the best in the place of floats.
#if defined(SHRUTI_VECTORS) && !defined(SHRUTI_NEON) && (defined(SHRUTI_VNNI) || !defined(SHRUTI_AVX512))
#define SHRUTI_SHORT_PRODUCTS 1
#ifndef SHRUTI_BF16
#define SHRUTI_SHORTS 1
#endif

namespace shruti {

// The largest number that others are rounded in proportion to.
constexpr int kMostShort = 4095;
using ShortScale = Scale<kMostShort>;

// Two vectors times a factor, rounded to numbers of 16 bits.
inline Ints rounded_shorts(const Vec * x, Vec factor) { return shorts_of(rounded(mul(x[0], factor)), rounded(mul(x[1], factor))); }

template <int64_t Block, Factors FactorsOf = Factors::kOfBlocks> struct ShortBlocks {
    static constexpr int64_t kRows = 6, kColumns = 2 * kLanes, kBlock = Block, kBytes = 2;
    static constexpr Factors kFactors = FactorsOf;
    static_assert(kBlock * kMostShort * kMostShort <= INT32_MAX, "the sum of a block's products has 32 bits");

    // kBlock values of kRows rows.
    struct Left {
        int16_t values[kRows][kBlock];
        float   factors[kRows];
    };

    // Multiplies `count` blocks. A function of its own: inlined into larger ones, GCC keeps its sums in memory.
    static __attribute__((noinline)) void multiply(const Left * left, int64_t count, const char * values, const float * factors, float * out,
                                                   size_t stride, const Finish & finish) {
        multiply_scaled<ShortBlocks>(left, count, values, factors, out, stride, finish);
    }

    // Computes the sums of a block's products. `values`: of a panel's block.
    static SHRUTI_INLINE void multiply_block(const Left & left, const char * values, Ints (*whole)[2]) {
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) whole[r][0] = whole[r][1] = fill_ints(0);
        for (int64_t k = 0; k < kBlock; k += 2, values += 4 * kColumns) {
            const Ints first = load_ints(values), second = load_ints(values + 4 * kLanes);
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                int32_t two;
                memcpy(&two, left.values[r] + k, sizeof two);
                const Ints all = fill_ints(two);
                add_in_place(whole[r][0], all, first);
                add_in_place(whole[r][1], all, second);
            }
        }
    }

   private:
    // Adds two products to each of the sums. In assembly, because GCC would keep these sums in memory and those of floats in
    // registers, or copy them between registers after each sum.
    static SHRUTI_INLINE void add_in_place(Ints & sums, Ints a, Ints b) {
#if defined(SHRUTI_VNNI)
        sums = add_two_products(sums, a, b);
        __asm__("" : "+v"(sums));
#else
        __asm__("vpaddd %1, %0, %0" : "+x"(sums) : "x"(sums_of_two_products(a, b)));
#endif
    }
};

}  // namespace shruti

#endif
#endif
