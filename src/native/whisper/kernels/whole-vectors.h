// Vectors of whole numbers, as wide as those of floats in vectors.h: of 32 bits each, or of two of 16, or of four bytes.
#ifndef SHRUTI_WHOLE_VECTORS_H
#define SHRUTI_WHOLE_VECTORS_H

#include "vectors.h"

#ifdef SHRUTI_VECTORS

// SHRUTI_VNNI: there are instructions for sums of four products of bytes; on x86 of two products of 16 bits as well.
#if defined(SHRUTI_NEON) || (defined(SHRUTI_AVX512) && defined(__AVX512VNNI__)) || (!defined(SHRUTI_AVX512) && defined(__AVXVNNI__))
#define SHRUTI_VNNI 1
#endif

#ifdef SHRUTI_NEON
#include "neon-whole-vectors.h"
#else
#include <cstring>

namespace shruti {

#ifdef SHRUTI_AVX512

using Ints = __m512i;

inline Ints fill_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline Ints fill_bytes(int8_t x) { return _mm512_set1_epi8(x); }
inline Ints load_ints(const char * p) { return _mm512_loadu_si512(p); }
inline void store_ints(void * p, Ints x) { _mm512_storeu_si512(p, x); }
inline Ints low_pairs(Ints a, Ints b) { return _mm512_unpacklo_epi32(a, b); }
inline Ints high_pairs(Ints a, Ints b) { return _mm512_unpackhi_epi32(a, b); }
inline Ints low_fours(Ints a, Ints b) { return _mm512_unpacklo_epi64(a, b); }
inline Ints high_fours(Ints a, Ints b) { return _mm512_unpackhi_epi64(a, b); }
inline Ints bits_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
inline Ints bits_or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
inline Ints bits_xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
template <int N> Ints shifted_left(Ints x) { return _mm512_slli_epi32(x, N); }
template <int N> Ints shifted_right(Ints x) { return _mm512_srli_epi32(x, N); }
inline Ints shifted_right_by(Ints x, int count) { return _mm512_srl_epi32(x, _mm_cvtsi32_si128(count)); }
inline Ints rounded(Vec x) { return _mm512_cvtps_epi32(x); }
inline Ints as_words(Vec x) { return _mm512_castps_si512(x); }
inline Vec to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
#ifdef SHRUTI_VNNI
inline Ints add_four_products(Ints sums, Ints numbers, Ints values) { return _mm512_dpbusd_epi32(sums, numbers, values); }
inline Ints add_two_products(Ints sums, Ints a, Ints b) { return _mm512_dpwssd_epi32(sums, a, b); }
#else
inline Ints sums_of_two_products(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
inline Ints two_products(Ints numbers, Ints values) { return _mm512_maddubs_epi16(numbers, values); }
inline Ints add_pairs(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
inline Ints add_both_of_pairs(Ints sums, Ints pairs) { return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))); }
#endif
// Byte `i` of each lane, four times.
inline Ints each_byte(Ints x, int8_t i) {
    const Ints firsts = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(x, _mm512_add_epi8(firsts, fill_bytes(i)));
}
inline Ints least_bytes(Ints a, Ints b) { return _mm512_min_epu8(a, b); }

// Bytes of four vectors that were packed two by two, in their order.
inline Ints in_order(Ints bytes) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

// Two vectors as numbers of 16 bits with a sign.
inline Ints shorts_of(Ints a, Ints b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packs_epi32(a, b));
}

// Four vectors as bytes with a sign.
inline Ints bytes_of(Ints a, Ints b, Ints c, Ints d) {
    return in_order(_mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

// Four vectors as bytes without a sign.
inline Ints unsigned_bytes_of(Ints a, Ints b, Ints c, Ints d) {
    return in_order(_mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d)));
}

// 16 bytes of each fourth row: a quarter of the vector for each.
inline Ints load_fourth_rows(const char * from, size_t row_bytes) {
    const auto row = [&](size_t i) { return _mm_loadu_si128((const __m128i *) (from + i * row_bytes)); };
    const Ints two = _mm512_inserti32x4(_mm512_castsi128_si512(row(0)), row(4), 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(two, row(8), 2), row(12), 3);
}

// The f16 in the low half of each lane.
inline Vec low_halves(Ints x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

#else

using Ints = __m256i;

inline Ints fill_ints(int32_t x) { return _mm256_set1_epi32(x); }
inline Ints fill_bytes(int8_t x) { return _mm256_set1_epi8(x); }
inline Ints load_ints(const char * p) { return _mm256_loadu_si256((const __m256i *) p); }
inline void store_ints(void * p, Ints x) { _mm256_storeu_si256((__m256i *) p, x); }
inline Ints low_pairs(Ints a, Ints b) { return _mm256_unpacklo_epi32(a, b); }
inline Ints high_pairs(Ints a, Ints b) { return _mm256_unpackhi_epi32(a, b); }
inline Ints low_fours(Ints a, Ints b) { return _mm256_unpacklo_epi64(a, b); }
inline Ints high_fours(Ints a, Ints b) { return _mm256_unpackhi_epi64(a, b); }
// The first or the second halves of two vectors.
inline Ints first_halves(Ints a, Ints b) { return _mm256_permute2x128_si256(a, b, 0x20); }
inline Ints second_halves(Ints a, Ints b) { return _mm256_permute2x128_si256(a, b, 0x31); }
inline Ints bits_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
inline Ints bits_or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
inline Ints bits_xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
template <int N> Ints shifted_left(Ints x) { return _mm256_slli_epi32(x, N); }
template <int N> Ints shifted_right(Ints x) { return _mm256_srli_epi32(x, N); }
inline Ints shifted_right_by(Ints x, int count) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(count)); }
inline Ints rounded(Vec x) { return _mm256_cvtps_epi32(x); }
inline Ints as_words(Vec x) { return _mm256_castps_si256(x); }
inline Vec to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
#ifdef SHRUTI_VNNI
inline Ints add_four_products(Ints sums, Ints numbers, Ints values) { return _mm256_dpbusd_avx_epi32(sums, numbers, values); }
inline Ints add_two_products(Ints sums, Ints a, Ints b) { return _mm256_dpwssd_avx_epi32(sums, a, b); }
#else
inline Ints sums_of_two_products(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
inline Ints two_products(Ints numbers, Ints values) { return _mm256_maddubs_epi16(numbers, values); }
inline Ints add_pairs(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
inline Ints add_both_of_pairs(Ints sums, Ints pairs) { return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }
#endif
// Byte `i` of each lane, four times.
inline Ints each_byte(Ints x, int8_t i) {
    const Ints firsts = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404, 0x08080808, 0x0C0C0C0C);
    return _mm256_shuffle_epi8(x, _mm256_add_epi8(firsts, fill_bytes(i)));
}
inline Ints least_bytes(Ints a, Ints b) { return _mm256_min_epu8(a, b); }

// Bytes of four vectors that were packed two by two, in their order.
inline Ints in_order(Ints bytes) { return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); }

// Two vectors as numbers of 16 bits with a sign.
inline Ints shorts_of(Ints a, Ints b) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8); }

// Four vectors as bytes with a sign.
inline Ints bytes_of(Ints a, Ints b, Ints c, Ints d) {
    return in_order(_mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)));
}

// Four vectors as bytes without a sign.
inline Ints unsigned_bytes_of(Ints a, Ints b, Ints c, Ints d) {
    return in_order(_mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d)));
}

// 16 bytes of each fourth row: a half of the vector for each.
inline Ints load_fourth_rows(const char * from, size_t row_bytes) {
    const auto row = [&](size_t i) { return _mm_loadu_si128((const __m128i *) (from + i * row_bytes)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(row(0)), row(4), 1);
}

// The f16 in the low half of each lane.
inline Vec low_halves(Ints x) {
    const Ints low = bits_and(x, fill_ints(0xFFFF));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

#endif

inline float single(uint16_t half) { return _cvtsh_ss(half); }
inline float rounded_to_half(float x) { return single(_cvtss_sh(x, 0)); }

// 32 bytes, such as a block of rounded numbers.
using Bytes32 = __m256i;
inline void store_bytes(void * p, Bytes32 x) { _mm256_storeu_si256((__m256i *) p, x); }
inline Bytes32 load_32_bytes(const void * p) { return _mm256_loadu_si256((const __m256i *) p); }

// 32 floats times a factor, rounded to bytes with a sign.
inline Bytes32 rounded_32(const float * from, float multiplier) {
    const __m256 all_lanes = _mm256_set1_ps(multiplier);
    __m256i      whole[4];
    SHRUTI_UNROLL
    for (int j = 0; j < 4; j++) whole[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from + 8 * j), all_lanes));
    const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
    return _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Bytes with a sign times `share` / 2^15, rounded.
inline Bytes32 scaled_bytes(Bytes32 bytes, int16_t share) {
#ifdef SHRUTI_AVX512
    return _mm512_cvtepi16_epi8(_mm512_mulhrs_epi16(_mm512_cvtepi8_epi16(bytes), _mm512_set1_epi16(share)));
#else
    const __m256i all = _mm256_set1_epi16(share);
    const __m256i low = _mm256_mulhrs_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)), all);
    const __m256i high = _mm256_mulhrs_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1)), all);
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
#endif
}

// The sum of four whole numbers.
inline int total_of(__m128i fours) {
    const __m128i pair = _mm_add_epi32(fours, _mm_unpackhi_epi64(fours, fours));
    return _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32(pair, 1)));
}

// The sum of bytes with a sign.
inline int sum_of_bytes(__m128i bytes) {
    return total_of(_mm_madd_epi16(_mm_set1_epi16(1), _mm_maddubs_epi16(_mm_set1_epi8(1), bytes)));
}

inline int sum_of_bytes(Bytes32 bytes) {
    const __m256i fours = _mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes));
    return total_of(_mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1)));
}

// The sums of the first and of the second half of the bytes, which have a sign.
inline void sums_of_halves(Bytes32 bytes, int * sums) {
    sums[0] = sum_of_bytes(_mm256_castsi256_si128(bytes));
    sums[1] = sum_of_bytes(_mm256_extracti128_si256(bytes, 1));
}

// Two sums of bytes with a sign, in the lowest two places of 16 bits: of the first and second, and of the third and fourth, of every four.
inline __m128i sums_of_byte_pairs(Bytes32 bytes) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    const __m128i half = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i both = _mm_add_epi16(half, _mm_unpackhi_epi64(half, half));
    return _mm_add_epi16(both, _mm_shuffle_epi32(both, 1));
}

// 32 numbers of 4 bits as bytes: those of the first 16 are the low halves of `from`.
inline Bytes32 numbers_of_four(const uint8_t * from) {
    const __m128i packed = _mm_loadu_si128((const __m128i *) from);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed), _mm256_set1_epi8(15));
}

// 32 numbers of 5 bits as bytes: `from` has four bits of each, those of the first 16 in the low halves; `bits` the fifth.
inline Bytes32 numbers_of_five(const uint8_t * from, const uint8_t * bits) {
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

}  // namespace shruti
#endif

namespace shruti {

// The f16 in the high half of each lane.
inline Vec high_halves(Ints x) { return low_halves(shifted_right<16>(x)); }

}  // namespace shruti

#endif
#endif
