// Products of blocks of bytes that stay in registers: kRows rows of the left matrix times kColumns columns of the right one.
//
//   left:                                Left, a block
//   right, a panel of kColumns columns:  [values / 4][kColumns][4] bytes, and factors: [values / kBlock][kColumns]
#ifndef SHRUTI_BYTE_BLOCKS_H
#define SHRUTI_BYTE_BLOCKS_H

#include "quantized.h"
#include "scaled-blocks.h"

// AMX multiplies bf16 numbers faster.
#if defined(SHRUTI_VNNI) && !defined(SHRUTI_AMX)
#define SHRUTI_BYTES 1

namespace shruti {

// One side has a sign and the other has none: the instruction of x86 multiplies such. With that of ARM both have one.
enum class Signed { kLeft, kRight };

// Four vectors times a factor, rounded to bytes with a sign.
inline Ints rounded_bytes(const Vec * x, Vec factor) {
    return bytes_of(rounded(mul(x[0], factor)), rounded(mul(x[1], factor)), rounded(mul(x[2], factor)), rounded(mul(x[3], factor)));
}

template <int64_t Block, Signed kSigned> struct ByteBlocks {
    static constexpr int64_t kRows = 6, kColumns = 2 * kLanes, kBlock = Block, kBytes = 1;
    static constexpr Factors kFactors = Factors::kOfBlocks;

    // kBlock values of kRows rows. `corrections`: the products of what was added to the right side's values so that none is
    // negative, taken away.
    struct Left {
        int8_t  values[kRows][kBlock];
        float   factors[kRows];
        int32_t corrections[kRows];
    };

    // Multiplies `count` blocks.
    static void multiply(const Left * left, int64_t count, const char * values, const float * factors, float * out, size_t stride,
                         const Finish & finish) {
        multiply_scaled<ByteBlocks>(left, count, values, factors, out, stride, finish);
    }

#ifdef SHRUTI_NEON
    // Computes the sums of a block's products. `values`: of a panel's block. A register has four fours of a row.
    static SHRUTI_INLINE void multiply_block(const Left & left, const char * values, Ints (*whole)[2]) {
        uint32x4_t sums[kRows][4];
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = vdupq_n_u32(0);
        for (int k = 0; k < kBlock; k += 16) {
            uint32x4_t fours[kRows];
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) fours[r] = words_at(left.values[r] + k);
            multiply_fours<0>(fours, values + 16 * k, sums);
            multiply_fours<1>(fours, values + 16 * k, sums);
            multiply_fours<2>(fours, values + 16 * k, sums);
            multiply_fours<3>(fours, values + 16 * k, sums);
        }
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) {
            whole[r][0] = {sums[r][0], sums[r][1]};
            whole[r][1] = {sums[r][2], sums[r][3]};
        }
    }

   private:
    static SHRUTI_INLINE uint32x4_t words_at(const void * p) { return vreinterpretq_u32_s8(vld1q_s8((const int8_t *) p)); }

    // Adds the products of one four of each row.
    template <int kFour> static SHRUTI_INLINE void multiply_fours(const uint32x4_t * fours, const char * values, uint32x4_t (*sums)[4]) {
        SHRUTI_UNROLL
        for (int c = 0; c < 4; c++) {
            const uint32x4_t column = words_at(values + 64 * kFour + 16 * c);
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) add_four_products_of<kFour>(sums[r][c], column, fours[r]);
        }
    }
#else
    // Computes the sums of a block's products, and their corrections. `values`: of a panel's block.
    static SHRUTI_INLINE void multiply_block(const Left & left, const char * values, Ints (*whole)[2]) {
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) whole[r][0] = whole[r][1] = fill_ints(kMoved && kSigned == Signed::kLeft ? left.corrections[r] : 0);
        if constexpr (kIsLong) {
            for (int64_t k = 0; k < kBlock; k += 4) multiply_four(left, values, k, whole);
        } else {
            SHRUTI_UNROLL_MANY
            for (int k = 0; k < kBlock; k += 4) multiply_four(left, values, k, whole);
        }
    }

   private:
    static constexpr bool kIsLong = kBlock > 64;

    // Adds the products of four values of each row, from `k` on.
    static SHRUTI_INLINE void multiply_four(const Left & left, const char * values, int64_t k, Ints (*whole)[2]) {
        const Ints first = load_ints(values + kColumns * k), second = load_ints(values + kColumns * k + 4 * kLanes);
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) {
            int32_t four;
            memcpy(&four, left.values[r] + k, sizeof four);
            const Ints all = fill_ints(four);
            add_products(whole[r][0], all, first);
            add_products(whole[r][1], all, second);
        }
    }

    // Assembly sees the sums of a loop: GCC would keep them in memory, and those of floats in registers.
    static SHRUTI_INLINE void add_products(Ints & sums, Ints left, Ints right) {
        sums = kSigned == Signed::kLeft ? add_four_products(sums, right, left) : add_four_products(sums, left, right);
        if constexpr (kIsLong) __asm__("" : "+v"(sums));
    }
#endif
};

}  // namespace shruti

#endif
#endif
