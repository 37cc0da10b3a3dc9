// Products of blocks of bytes that stay in registers: kRows rows of the left matrix times kColumns columns of the right one.
// Each row of a block has a factor. Each column has one for each block, or one for all blocks that are multiplied.
//
//   left:                                Left, a block
//   right, a panel of kColumns columns:  [values / 4][kColumns][4] bytes, and factors: [values / kBlock or 1][kColumns]
#ifndef SHRUTI_BYTE_BLOCKS_H
#define SHRUTI_BYTE_BLOCKS_H

#include "blocks.h"
#include "quantized.h"

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

template <int64_t Block, Signed kSigned, Factors kFactors = Factors::kOfBlocks> struct ByteBlocks {
    static constexpr int64_t kRows = 6, kColumns = 2 * kLanes, kBlock = Block;

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
        Vec sums[kRows][2];
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = zero();
        for (int64_t b = 0; b < count; b++, left++, values += kBlock * kColumns) {
            Ints whole[kRows][2];
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++)
                whole[r][0] = whole[r][1] = fill_ints(kSigned == Signed::kLeft ? left->corrections[r] : 0);
            SHRUTI_UNROLL_MANY
            for (int k = 0; k < kBlock / 4; k++) {
                const Ints first = load_ints(values + 4 * kColumns * k), second = load_ints(values + 4 * kColumns * k + 4 * kLanes);
                SHRUTI_UNROLL
                for (int r = 0; r < kRows; r++) {
                    int32_t four;
                    memcpy(&four, left->values[r] + 4 * k, sizeof four);
                    const Ints all = fill_ints(four);
                    whole[r][0] = multiply_add(whole[r][0], all, first);
                    whole[r][1] = multiply_add(whole[r][1], all, second);
                }
            }
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

   private:
    static constexpr bool kOfBlocks = kFactors == Factors::kOfBlocks;

    static Ints multiply_add(Ints sum, Ints left, Ints right) {
        return kSigned == Signed::kLeft ? add_four_products(sum, right, left) : add_four_products(sum, left, right);
    }
};

}  // namespace shruti

#endif
#endif
