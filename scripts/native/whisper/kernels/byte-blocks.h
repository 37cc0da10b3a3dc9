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
#if defined(SHRUTI_WIDE_VNNI) && !defined(SHRUTI_AMX)
#define SHRUTI_BYTES 1

namespace shruti {

// One side has a sign and the other has none: the instruction multiplies such.
enum class Signed { kLeft, kRight };

// What a factor of a column is for.
enum class Factors { kOfBlocks, kOfColumns };

inline __m512i whole_of(Vec x, Vec factor) { return _mm512_cvtps_epi32(mul(x, factor)); }

// Bytes of four vectors that were packed two by two, in their order.
inline __m512i in_order(__m512i bytes) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

// Four vectors, the first two and the last two times a factor, rounded to bytes with a sign.
inline __m512i rounded_bytes(const Vec * x, Vec first, Vec second) {
    return in_order(_mm512_packs_epi16(_mm512_packs_epi32(whole_of(x[0], first), whole_of(x[1], first)),
                                       _mm512_packs_epi32(whole_of(x[2], second), whole_of(x[3], second))));
}

inline __m512i rounded_bytes(const Vec * x, Vec factor) { return rounded_bytes(x, factor, factor); }

// The bytes of the other side, which have no sign: 128 more.
inline __m512i without_sign(__m512i bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }

template <int64_t Block, Signed kSigned, Factors kFactors = Factors::kOfBlocks> struct ByteBlocks {
    static constexpr int64_t kRows = 6, kColumns = 32, kBlock = Block;

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
            __m512i whole[kRows][2];
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++)
                whole[r][0] = whole[r][1] = kSigned == Signed::kLeft ? _mm512_set1_epi32(left->corrections[r]) : _mm512_setzero_si512();
            SHRUTI_UNROLL_MANY
            for (int k = 0; k < kBlock / 4; k++) {
                const __m512i first = _mm512_loadu_si512(values + 4 * kColumns * k), second = _mm512_loadu_si512(values + 4 * kColumns * k + 64);
                SHRUTI_UNROLL
                for (int r = 0; r < kRows; r++) {
                    int32_t four;
                    memcpy(&four, left->values[r] + 4 * k, sizeof four);
                    const __m512i all = _mm512_set1_epi32(four);
                    whole[r][0] = multiply_add(whole[r][0], all, first);
                    whole[r][1] = multiply_add(whole[r][1], all, second);
                }
            }
            const Vec first = load(factors), second = load(factors + kLanes);
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                const Vec factor = fill(left->factors[r]);
                sums[r][0] = fma(kOfBlocks ? mul(factor, first) : factor, _mm512_cvtepi32_ps(whole[r][0]), sums[r][0]);
                sums[r][1] = fma(kOfBlocks ? mul(factor, second) : factor, _mm512_cvtepi32_ps(whole[r][1]), sums[r][1]);
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

    static __m512i multiply_add(__m512i sum, __m512i left, __m512i right) {
        return kSigned == Signed::kLeft ? _mm512_dpbusd_epi32(sum, right, left) : _mm512_dpbusd_epi32(sum, left, right);
    }
};

}  // namespace shruti

#endif
#endif
