// Blocks of quantized weights of several rows side by side, as many as a vector has lanes: each lane has numbers of one row,
// so that the sums of a token with these rows are one vector, and nothing is added across lanes.
#ifndef SHRUTI_SIDE_BY_SIDE_H
#define SHRUTI_SIDE_BY_SIDE_H

#include "quantized.h"

#include <cstddef>

#ifdef SHRUTI_VECTORS

namespace shruti {

#ifdef SHRUTI_AVX512

using Ints = __m512i;

inline Ints fill_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline Ints fill_bytes(int8_t x) { return _mm512_set1_epi8(x); }
inline Ints low_pairs(Ints a, Ints b) { return _mm512_unpacklo_epi32(a, b); }
inline Ints high_pairs(Ints a, Ints b) { return _mm512_unpackhi_epi32(a, b); }
inline Ints low_fours(Ints a, Ints b) { return _mm512_unpacklo_epi64(a, b); }
inline Ints high_fours(Ints a, Ints b) { return _mm512_unpackhi_epi64(a, b); }
inline Ints bits_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
inline Ints bits_or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
inline Ints bits_xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
template <int N> Ints shifted_left(Ints x) { return _mm512_slli_epi32(x, N); }
template <int N> Ints shifted_right(Ints x) { return _mm512_srli_epi32(x, N); }
inline Vec to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline float first_of(Vec x) { return _mm512_cvtss_f32(x); }
#ifdef SHRUTI_VNNI
inline Ints add_four_products(Ints sums, Ints numbers, Ints values) { return _mm512_dpbusd_epi32(sums, numbers, values); }
#else
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
inline Ints low_pairs(Ints a, Ints b) { return _mm256_unpacklo_epi32(a, b); }
inline Ints high_pairs(Ints a, Ints b) { return _mm256_unpackhi_epi32(a, b); }
inline Ints low_fours(Ints a, Ints b) { return _mm256_unpacklo_epi64(a, b); }
inline Ints high_fours(Ints a, Ints b) { return _mm256_unpackhi_epi64(a, b); }
inline Ints bits_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
inline Ints bits_or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
inline Ints bits_xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
template <int N> Ints shifted_left(Ints x) { return _mm256_slli_epi32(x, N); }
template <int N> Ints shifted_right(Ints x) { return _mm256_srli_epi32(x, N); }
inline Vec to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
inline float first_of(Vec x) { return _mm256_cvtss_f32(x); }
#ifdef SHRUTI_VNNI
inline Ints add_four_products(Ints sums, Ints numbers, Ints values) { return _mm256_dpbusd_avx_epi32(sums, numbers, values); }
#else
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

// The f16 in the high half of each lane.
inline Vec high_halves(Ints x) { return low_halves(shifted_right<16>(x)); }

// Adds to `start` the products of a block's 32 numbers of each row (`numbers`) with those of a token, which are bytes with a
// sign, four in each of `values`.
SHRUTI_INLINE Ints add_products(Ints start, const Ints * numbers, const int32_t * values) {
#ifdef SHRUTI_VNNI
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) start = add_four_products(start, numbers[i], fill_ints(values[i]));
#else
    // The numbers are below 32, so that the sum of eight products has 16 bits.
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i += 4) {
        Ints pairs = two_products(numbers[i], fill_ints(values[i]));
        SHRUTI_UNROLL_MANY
        for (int k = i + 1; k < i + 4; k++) pairs = add_pairs(pairs, two_products(numbers[k], fill_ints(values[k])));
        start = add_both_of_pairs(start, pairs);
    }
#endif
    return start;
}

// A block of 32 numbers of each row. `numbers[i]`: the numbers 4 i to 4 i + 3 of each, plus the type's `kOffset`.
struct Blocks {
    Ints numbers[8];
    Vec  scales, least;
};

// 16 bytes of each row, transposed. `out[i]`: bytes 4 i to 4 i + 3 of each.
SHRUTI_INLINE void transpose_rows(const char * from, size_t row_bytes, Ints * out) {
    const Ints a = load_fourth_rows(from, row_bytes), b = load_fourth_rows(from + row_bytes, row_bytes);
    const Ints c = load_fourth_rows(from + 2 * row_bytes, row_bytes), d = load_fourth_rows(from + 3 * row_bytes, row_bytes);
    const Ints low_ab = low_pairs(a, b), high_ab = high_pairs(a, b), low_cd = low_pairs(c, d), high_cd = high_pairs(c, d);
    out[0] = low_fours(low_ab, low_cd);
    out[1] = high_fours(low_ab, low_cd);
    out[2] = low_fours(high_ab, high_cd);
    out[3] = high_fours(high_ab, high_cd);
}

// Numbers of 4 bits: the low halves of 16 bytes of each row, then the high ones.
SHRUTI_INLINE void unpack_nibbles(const char * from, size_t row_bytes, Blocks & to) {
    Ints packed[4];
    transpose_rows(from, row_bytes, packed);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 4; i++) {
        to.numbers[i] = bits_and(packed[i], fill_bytes(15));
        to.numbers[4 + i] = bits_and(shifted_right<4>(packed[i]), fill_bytes(15));
    }
}

// Adds the fifth bits of the numbers. `bits`: 32 bits of each row.
#if defined(SHRUTI_AVX512) && defined(__AVX512VBMI__)
SHRUTI_INLINE void add_fifth_bits(Ints bits, Blocks & to) {
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) {
        // Each byte gets eight bits of its row, of which the fifth is its own.
        const auto place = [&](long long byte) { return ((4 * i + byte % 4 + byte / 4 * 32 - 4) & 63) << (8 * byte); };
        const Ints places = _mm512_set1_epi64(place(0) | place(1) | place(2) | place(3) | place(4) | place(5) | place(6) | place(7));
        const Ints found = _mm512_multishift_epi64_epi8(places, bits);
        to.numbers[i] = _mm512_ternarylogic_epi32(to.numbers[i], found, fill_bytes(16), 0xF8);  // numbers | (found & 16)
    }
}
#else
SHRUTI_INLINE void add_fifth_bits(Ints bits, Blocks & to) {
    const Ints shifted = shifted_left<4>(bits);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) {
        // Each byte gets the eight bits of its row that have its own, which is one of the upper four.
        const Ints found = bits_and(each_byte(i % 2 ? bits : shifted, i / 2), fill_ints((int32_t) 0x80402010));
        to.numbers[i] = bits_or(to.numbers[i], least_bytes(found, fill_bytes(16)));
    }
}
#endif

// One function for each type of block: unpacks those of rows that are `row_bytes` apart.

SHRUTI_INLINE void unpack_rows(const block_q8_0 * blocks, size_t row_bytes, Blocks & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    transpose_rows(from + offsetof(block_q8_0, qs), row_bytes, to.numbers);
    transpose_rows(from + offsetof(block_q8_0, qs) + 16, row_bytes, to.numbers + 4);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) to.numbers[i] = bits_xor(to.numbers[i], fill_bytes(-128));
}

SHRUTI_INLINE void unpack_rows(const block_q5_0 * blocks, size_t row_bytes, Blocks & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_0, qs), row_bytes, to);
    add_fifth_bits(bits_or(shifted_right<16>(head[0]), shifted_left<16>(head[1])), to);
}

SHRUTI_INLINE void unpack_rows(const block_q5_1 * blocks, size_t row_bytes, Blocks & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    to.least = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_1, qs), row_bytes, to);
    add_fifth_bits(head[1], to);
}

SHRUTI_INLINE void unpack_rows(const block_q4_1 * blocks, size_t row_bytes, Blocks & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    to.least = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q4_1, qs), row_bytes, to);
}

}  // namespace shruti

#endif
#endif
