// Quantized weights in blocks of 32, and numbers rounded to 8 bits in such blocks.
#ifndef SHRUTI_QUANTIZED_H
#define SHRUTI_QUANTIZED_H

#include "vectors.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {

inline float single(uint16_t half) { return _cvtsh_ss(half); }

// 32 numbers of 4 bits as bytes: the low halves of 16 bytes, then the high ones.
inline __m256i nibbles(const uint8_t * from) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) from);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

// 32 numbers of 5 bits as bytes: `from` has four bits of each, `bits` the fifth.
inline __m256i numbers_of_five(const uint8_t * from, const uint8_t * bits) {
    uint32_t all;
    memcpy(&all, bits, sizeof all);
    const __m256i low = nibbles(from);
#ifdef SHRUTI_AVX512
    return _mm256_mask_add_epi8(low, all, low, _mm256_set1_epi8(16));
#else
    const __m256i places = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i each = _mm256_set1_epi64x((long long) 0x8040201008040201);
    const __m256i found = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int) all), places), each);
    return _mm256_or_si256(low, _mm256_and_si256(_mm256_cmpeq_epi8(found, each), _mm256_set1_epi8(16)));
#endif
}

// Sums of four products each of bytes without and with a sign, plus `plus`. Without the instruction for it, the first
// bytes may be up to 128.
inline __m256i sums_of_four(__m256i plus, __m256i bytes, __m256i with_sign) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define SHRUTI_VNNI 1
#ifdef SHRUTI_AVX512
#define SHRUTI_WIDE_VNNI 1
#endif
    return _mm256_dpbusd_epi32(plus, bytes, with_sign);
#elif defined(__AVXVNNI__)
#define SHRUTI_VNNI 1
    return _mm256_dpbusd_avx_epi32(plus, bytes, with_sign);
#else
    return _mm256_add_epi32(plus, _mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(bytes, with_sign)));
#endif
}

// For each type: `bytes`, a block's numbers plus `kOffset`, so that none is negative, and `sums`, the sums of four products
// each. `corrections` are those of `kOffset`.

struct OfNoLeast {
    static constexpr bool kHasLeast = false;
    template <typename Block> static float least(const Block &) { return 0; }
};

struct OfLeast {
    static constexpr bool kHasLeast = true;
    template <typename Block> static float least(const Block & b) { return single(b.m); }
};

struct OfQ8_0 : OfNoLeast {
    using Block = block_q8_0;
#ifdef SHRUTI_VNNI
    static constexpr int kOffset = 128;
    static __m256i       bytes(const Block & b) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) b.qs), _mm256_set1_epi8(-128));
    }
    static __m256i sums(__m256i corrections, __m256i bytes, __m256i token) { return sums_of_four(corrections, bytes, token); }
#else
    static constexpr int kOffset = 0;
    static __m256i       bytes(const Block & b) { return _mm256_loadu_si256((const __m256i *) b.qs); }
    static __m256i       sums(__m256i, __m256i bytes, __m256i token) {
        return sums_of_four(_mm256_setzero_si256(), _mm256_abs_epi8(bytes), _mm256_sign_epi8(token, bytes));
    }
#endif
};

struct OfQ5_0 : OfNoLeast {
    using Block = block_q5_0;
    static constexpr int kOffset = 16;
    static __m256i       bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
    static __m256i sums(__m256i corrections, __m256i bytes, __m256i token) { return sums_of_four(corrections, bytes, token); }
};

struct OfQ5_1 : OfLeast {
    using Block = block_q5_1;
    static constexpr int kOffset = 0;
    static __m256i       bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
    static __m256i sums(__m256i, __m256i bytes, __m256i token) { return sums_of_four(_mm256_setzero_si256(), bytes, token); }
};

struct OfQ4_1 : OfLeast {
    using Block = block_q4_1;
    static constexpr int kOffset = 0;
    static __m256i       bytes(const Block & b) { return nibbles(b.qs); }
    static __m256i sums(__m256i, __m256i bytes, __m256i token) { return sums_of_four(_mm256_setzero_si256(), bytes, token); }
};

}  // namespace shruti

#endif
#endif
