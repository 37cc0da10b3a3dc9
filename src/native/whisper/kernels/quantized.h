// Quantized weights in blocks of 32, numbers rounded to 8 bits in such blocks, and how numbers are rounded at all.
#ifndef SHRUTI_QUANTIZED_H
#define SHRUTI_QUANTIZED_H

#include "whole-vectors.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {

inline float single(uint16_t half) { return _cvtsh_ss(half); }

// Numbers whose largest is smaller are rounded to zero: kMost divided by it may be infinite.
constexpr float kLeastRounded = 1e-30f;

// How numbers are rounded to whole ones from -kMost to kMost, in proportion to the largest of them.
template <int kMost> struct Scale {
    float multiplier, factor;
    explicit Scale(float largest) : multiplier(largest > kLeastRounded ? kMost / largest : 0.0f), factor(largest / kMost) {}
};

using ByteScale = Scale<127>;

// The largest of `count` numbers, whole vectors, without their signs.
inline float largest_of(const float * row, int64_t count) {
    Vec largest = zero();
    for (int64_t k = 0; k < count; k += kLanes) largest = max(largest, abs_of(load(row + k)));
    return max_of(largest);
}

// As many numbers of an input share a factor when they are rounded to 8 bits, unless a type of weights says otherwise.
constexpr int64_t kRoundedBlock = 32;

// A block of 32 numbers: bytes with a sign, times `factor`.
struct RoundedBlock {
    __m256i values;
    float   factor;
};

inline RoundedBlock rounded_block(const float * from, const ByteScale & scale) {
    const __m256 all_lanes = _mm256_set1_ps(scale.multiplier);
    __m256i      whole[4];
    SHRUTI_UNROLL
    for (int j = 0; j < 4; j++) whole[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from + 8 * j), all_lanes));
    const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
    return {_mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), scale.factor};
}

// Rounds a block in proportion to the largest of its numbers.
inline RoundedBlock rounded_block(const float * from) { return rounded_block(from, ByteScale(largest_of(from, kRoundedBlock))); }

// The sum of four whole numbers.
inline int total_of(__m128i fours) {
    const __m128i pair = _mm_add_epi32(fours, _mm_unpackhi_epi64(fours, fours));
    return _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32(pair, 1)));
}

// The sum of bytes with a sign.
inline int sum_of_bytes(__m128i bytes) {
    return total_of(_mm_madd_epi16(_mm_set1_epi16(1), _mm_maddubs_epi16(_mm_set1_epi8(1), bytes)));
}

inline int sum_of_bytes(__m256i bytes) {
    const __m256i fours = _mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes));
    return total_of(_mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1)));
}

// Two sums of bytes with a sign, in the lowest two places of 16 bits: of the first and second, and of the third and fourth, of every four.
inline __m128i sums_of_byte_pairs(__m256i bytes) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    const __m128i half = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i both = _mm_add_epi16(half, _mm_unpackhi_epi64(half, half));
    return _mm_add_epi16(both, _mm_shuffle_epi32(both, 1));
}

// 32 numbers of 4 bits as bytes: those of the first 16 are the low halves of `from`.
inline __m256i numbers_of_four(const uint8_t * from) {
    const __m128i packed = _mm_loadu_si128((const __m128i *) from);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed), _mm256_set1_epi8(15));
}

// 32 numbers of 5 bits as bytes: `from` has four bits of each, those of the first 16 in the low halves; `bits` the fifth.
inline __m256i numbers_of_five(const uint8_t * from, const uint8_t * bits) {
    uint32_t all;
    memcpy(&all, bits, sizeof all);
    const __m256i low = numbers_of_four(from);
#ifdef SHRUTI_AVX512
    return _mm256_mask_add_epi8(low, all, low, _mm256_set1_epi8(16));
#else
    // Each byte gets the eight bits that have its own, which is kept.
    const __m256i places = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i found = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int) all), places), _mm256_set1_epi64x((long long) 0x8040201008040201));
    return _mm256_or_si256(low, _mm256_andnot_si256(_mm256_cmpeq_epi8(found, _mm256_setzero_si256()), _mm256_set1_epi8(16)));
#endif
}

// For each type: its `Block`; `kOffset`, which is added to a block's numbers so that none is negative; `kMost`, the largest of
// these; whether blocks have a least number, to which their others are added; into how many parts 32 numbers are divided that have
// a scale and a least number of their own; and of how many numbers ggml rounds an input with one factor for a product with them.
// Those in blocks of 32 have `bytes`, the numbers of a block plus `kOffset`.

struct InBlocksOf32 {
    static constexpr int     kParts = 1;
    static constexpr int64_t kRounded = kRoundedBlock;
};

struct OfQ8_0 : InBlocksOf32 {
    using Block = block_q8_0;
    static constexpr int  kOffset = 128, kMost = 255;
    static constexpr bool kHasLeast = false;
    static __m256i bytes(const Block & b) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) b.qs), _mm256_set1_epi8(-128));
    }
};

struct OfQ5_0 : InBlocksOf32 {
    using Block = block_q5_0;
    static constexpr int  kOffset = 16, kMost = 31;
    static constexpr bool kHasLeast = false;
    static __m256i bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
};

struct OfQ5_1 : InBlocksOf32 {
    using Block = block_q5_1;
    static constexpr int  kOffset = 0, kMost = 31;
    static constexpr bool kHasLeast = true;
    static __m256i bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
};

struct OfQ4_0 : InBlocksOf32 {
    using Block = block_q4_0;
    static constexpr int  kOffset = 8, kMost = 15;
    static constexpr bool kHasLeast = false;
    static __m256i bytes(const Block & b) { return numbers_of_four(b.qs); }
};

struct OfQ4_1 : InBlocksOf32 {
    using Block = block_q4_1;
    static constexpr int  kOffset = 0, kMost = 15;
    static constexpr bool kHasLeast = true;
    static __m256i bytes(const Block & b) { return numbers_of_four(b.qs); }
};

}  // namespace shruti

#endif
#endif
