// Quantized weights in blocks of 32, and numbers rounded to 8 bits in such blocks.
#ifndef SHRUTI_QUANTIZED_H
#define SHRUTI_QUANTIZED_H

#include "whole-vectors.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {

inline float single(uint16_t half) { return _cvtsh_ss(half); }

// Numbers whose largest is smaller are rounded to zero: 127 divided by it may be infinite.
constexpr float kLeastRounded = 1e-30f;

// How numbers are rounded to 8 bits, with a sign, in proportion to the largest of them.
struct ByteScale {
    float multiplier, factor;
    explicit ByteScale(float largest) : multiplier(largest > kLeastRounded ? 127.0f / largest : 0.0f), factor(largest / 127.0f) {}
};

#ifdef SHRUTI_WIDE_VNNI

// 32 numbers of 5 bits as bytes: `from` has four bits of each, those of the first 16 in the low halves; `bits` the fifth.
inline __m256i numbers_of_five(const uint8_t * from, const uint8_t * bits) {
    uint32_t all;
    memcpy(&all, bits, sizeof all);
    const __m128i packed = _mm_loadu_si128((const __m128i *) from);
    const __m256i low = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed), _mm256_set1_epi8(15));
    return _mm256_mask_add_epi8(low, all, low, _mm256_set1_epi8(16));
}

#endif

// For each type: `kOffset`, which is added to a block's numbers so that none is negative; whether blocks have a least number,
// to which their others are added; and `bytes`, the numbers of a block plus `kOffset`.

struct OfQ8_0 {
    using Block = block_q8_0;
    static constexpr int  kOffset = 128;
    static constexpr bool kHasLeast = false;
#ifdef SHRUTI_WIDE_VNNI
    static __m256i bytes(const Block & b) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) b.qs), _mm256_set1_epi8(-128));
    }
#endif
};

struct OfQ5_0 {
    using Block = block_q5_0;
    static constexpr int  kOffset = 16;
    static constexpr bool kHasLeast = false;
#ifdef SHRUTI_WIDE_VNNI
    static __m256i bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
#endif
};

struct OfQ5_1 {
    using Block = block_q5_1;
    static constexpr int  kOffset = 0;
    static constexpr bool kHasLeast = true;
};

struct OfQ4_1 {
    using Block = block_q4_1;
    static constexpr int  kOffset = 0;
    static constexpr bool kHasLeast = true;
};

}  // namespace shruti

#endif
#endif
