// Quantized weights of 16 rows side by side, for products of bytes with AVX-512 and VNNI: each lane has numbers of one row,
// so that a token's sums with 16 rows are one vector, and nothing is added across lanes.
#ifndef SHRUTI_SIXTEEN_ROWS_H
#define SHRUTI_SIXTEEN_ROWS_H

#include "quantized.h"

#include <cstddef>

#ifdef SHRUTI_WIDE_VNNI

namespace shruti {

// A block of 32 numbers of each of 16 rows. `numbers[i]`: the numbers 4 i to 4 i + 3 of each row plus the type's `kOffset`.
struct SixteenBlocks {
    __m512i numbers[8];
    __m512  scales, least;
};

// 16 bytes of each of rows 0, 4, 8 and 12.
SHRUTI_INLINE __m512i quarters(const char * from, size_t row_bytes) {
    const auto row = [&](size_t i) { return _mm_loadu_si128((const __m128i *) (from + i * row_bytes)); };
    const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(row(0)), row(4), 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(two, row(8), 2), row(12), 3);
}

// 16 bytes of each of 16 rows, transposed. `out[i]`: bytes 4 i to 4 i + 3.
SHRUTI_INLINE void transpose_rows(const char * from, size_t row_bytes, __m512i * out) {
    const __m512i a = quarters(from, row_bytes), b = quarters(from + row_bytes, row_bytes);
    const __m512i c = quarters(from + 2 * row_bytes, row_bytes), d = quarters(from + 3 * row_bytes, row_bytes);
    const __m512i low_ab = _mm512_unpacklo_epi32(a, b), high_ab = _mm512_unpackhi_epi32(a, b);
    const __m512i low_cd = _mm512_unpacklo_epi32(c, d), high_cd = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(low_ab, low_cd);
    out[1] = _mm512_unpackhi_epi64(low_ab, low_cd);
    out[2] = _mm512_unpacklo_epi64(high_ab, high_cd);
    out[3] = _mm512_unpackhi_epi64(high_ab, high_cd);
}

// The f16 in the low half of each lane, and in the high one.
SHRUTI_INLINE __m512 low_halves(__m512i x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
SHRUTI_INLINE __m512 high_halves(__m512i x) { return low_halves(_mm512_srli_epi32(x, 16)); }

// Numbers of 4 bits of each row, from byte `offset` of its block on.
SHRUTI_INLINE void unpack_nibbles(const char * from, size_t row_bytes, SixteenBlocks & to) {
    __m512i packed[4];
    transpose_rows(from, row_bytes, packed);
    SHRUTI_UNROLL
    for (int i = 0; i < 4; i++) {
        to.numbers[i] = _mm512_and_si512(packed[i], _mm512_set1_epi8(15));
        to.numbers[4 + i] = _mm512_and_si512(_mm512_srli_epi16(packed[i], 4), _mm512_set1_epi8(15));
    }
}

// Adds the fifth bits of the numbers. `bits`: 32 bits of each row.
SHRUTI_INLINE void add_fifth_bits(__m512i bits, SixteenBlocks & to) {
    SHRUTI_UNROLL
    for (int i = 0; i < 8; i++) {
#ifdef __AVX512VBMI__
        // Each byte gets eight bits of its row, of which its own is the fifth.
        const long long first = 4 * i;
        const auto from_bit = [&](long long b) { return (((first + b % 4 + b / 4 * 32 - 4) & 63) << (8 * b)); };
        const __m512i places = _mm512_set1_epi64(from_bit(0) | from_bit(1) | from_bit(2) | from_bit(3) | from_bit(4) | from_bit(5) |
                                                 from_bit(6) | from_bit(7));
        const __m512i found = _mm512_multishift_epi64_epi8(places, bits);
        to.numbers[i] = _mm512_ternarylogic_epi32(to.numbers[i], found, _mm512_set1_epi8(16), 0xF8);  // numbers | (found & 16)
#else
        const __m512i bytes = _mm512_shuffle_epi8(bits, _mm512_add_epi8(_mm512_set1_epi8(i / 2), _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0)));
        const __mmask64 is_set = _mm512_test_epi8_mask(bytes, _mm512_set1_epi32(i % 2 ? (int) 0x80402010 : 0x08040201));
        to.numbers[i] = _mm512_mask_add_epi8(to.numbers[i], is_set, to.numbers[i], _mm512_set1_epi8(16));
#endif
    }
}

// One function for each type of block: unpacks those of 16 rows, which are `row_bytes` apart.

SHRUTI_INLINE void unpack_rows(const block_q8_0 * blocks, size_t row_bytes, SixteenBlocks & to) {
    const char * from = (const char *) blocks;
    __m512i      head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    transpose_rows(from + offsetof(block_q8_0, qs), row_bytes, to.numbers);
    transpose_rows(from + offsetof(block_q8_0, qs) + 16, row_bytes, to.numbers + 4);
    SHRUTI_UNROLL
    for (int i = 0; i < 8; i++) to.numbers[i] = _mm512_xor_si512(to.numbers[i], _mm512_set1_epi8(-128));
}

SHRUTI_INLINE void unpack_rows(const block_q5_0 * blocks, size_t row_bytes, SixteenBlocks & to) {
    const char * from = (const char *) blocks;
    __m512i      head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_0, qs), row_bytes, to);
    add_fifth_bits(_mm512_or_si512(_mm512_srli_epi32(head[0], 16), _mm512_slli_epi32(head[1], 16)), to);
}

SHRUTI_INLINE void unpack_rows(const block_q5_1 * blocks, size_t row_bytes, SixteenBlocks & to) {
    const char * from = (const char *) blocks;
    __m512i      head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    to.least = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_1, qs), row_bytes, to);
    add_fifth_bits(head[1], to);
}

SHRUTI_INLINE void unpack_rows(const block_q4_1 * blocks, size_t row_bytes, SixteenBlocks & to) {
    const char * from = (const char *) blocks;
    __m512i      head[4];
    transpose_rows(from, row_bytes, head);
    to.scales = low_halves(head[0]);
    to.least = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q4_1, qs), row_bytes, to);
}

}  // namespace shruti

#endif
#endif
