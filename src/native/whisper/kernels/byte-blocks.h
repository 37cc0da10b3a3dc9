// Products of blocks of bytes that stay in registers: kRows rows of the left matrix times kColumns columns of the right one.
//
//   left:                                Left, a block
//   right, a panel of kColumns columns:  [values / 4][kColumns][4] bytes, and factors: [values / kBlock or 1][kColumns]
#ifndef SHRUTI_BYTE_BLOCKS_H
#define SHRUTI_BYTE_BLOCKS_H

#include "quantized.h"
#include "scaled-blocks.h"

// AMX multiplies bf16 numbers faster.
#if defined(SHRUTI_VNNI) && !defined(SHRUTI_AMX)
#define SHRUTI_BYTES 1

namespace shruti {

// One side has a sign and the other has none: the instruction multiplies such.
enum class Signed { kLeft, kRight };

// Four vectors times a factor, rounded to bytes with a sign.
inline Ints rounded_bytes(const Vec * x, Vec factor) {
    return bytes_of(rounded(mul(x[0], factor)), rounded(mul(x[1], factor)), rounded(mul(x[2], factor)), rounded(mul(x[3], factor)));
}

// The bytes of the other side, which have no sign: 128 more.
inline Ints without_sign(Ints bytes) { return bits_xor(bytes, fill_bytes(-128)); }

template <int64_t Block, Signed kSigned, Factors FactorsOf = Factors::kOfBlocks> struct ByteBlocks {
    static constexpr int64_t kRows = 6, kColumns = 2 * kLanes, kBlock = Block, kBytes = 1;
    static constexpr Factors kFactors = FactorsOf;

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

    // Computes the sums of a block's products, and their corrections. `values`: of a panel's block.
    static SHRUTI_INLINE void multiply_block(const Left & left, const char * values, Ints (*whole)[2]) {
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) whole[r][0] = whole[r][1] = fill_ints(kSigned == Signed::kLeft ? left.corrections[r] : 0);
        SHRUTI_UNROLL_MANY
        for (int k = 0; k < kBlock / 4; k++) {
            const Ints first = load_ints(values + 4 * kColumns * k), second = load_ints(values + 4 * kColumns * k + 4 * kLanes);
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                int32_t four;
                memcpy(&four, left.values[r] + 4 * k, sizeof four);
                const Ints all = fill_ints(four);
                whole[r][0] = multiply_add(whole[r][0], all, first);
                whole[r][1] = multiply_add(whole[r][1], all, second);
            }
        }
    }

   private:
    static Ints multiply_add(Ints sum, Ints left, Ints right) {
        return kSigned == Signed::kLeft ? add_four_products(sum, right, left) : add_four_products(sum, left, right);
    }
};

}  // namespace shruti

#endif
#endif
