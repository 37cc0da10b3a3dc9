// Blocks of quantized weights of several rows side by side, as many as a vector has lanes: each lane has numbers of one row,
// so that the sums of a token with these rows are one vector, and nothing is added across lanes.
#ifndef SHRUTI_SIDE_BY_SIDE_H
#define SHRUTI_SIDE_BY_SIDE_H

#include "quantized.h"
#include "whole-vectors.h"

#include <cstddef>

#ifdef SHRUTI_VECTORS

namespace shruti {

// Adds to `start` the products of kCount vectors of numbers of each row, which are kMost at most, with those of a token, which
// are bytes with a sign, four in each of `values`.
template <int kCount, int kMost> SHRUTI_INLINE Ints add_products(Ints start, const Ints * numbers, const int32_t * values) {
#ifdef SHRUTI_VNNI
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < kCount; i++) start = add_four_products(start, numbers[i], fill_ints(values[i]));
#else
    // As many as have a sum of 16 bits.
    constexpr int kTogether = kMost < 32 ? 4 : 2;
    static_assert(2 * kTogether * kMost * 127 <= INT16_MAX && kCount % kTogether == 0, "sums of so many products have more than 16 bits");
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < kCount; i += kTogether) {
        Ints pairs = two_products(numbers[i], fill_ints(values[i]));
        SHRUTI_UNROLL_MANY
        for (int k = i + 1; k < i + kTogether; k++) pairs = add_pairs(pairs, two_products(numbers[k], fill_ints(values[k])));
        start = add_both_of_pairs(start, pairs);
    }
#endif
    return start;
}

// A block of 32 numbers of each row, in kParts. `numbers[i]`: the numbers 4 i to 4 i + 3 of each, plus the type's `kOffset`.
template <int kParts> struct Blocks {
    Ints numbers[8];
    Vec  scales[kParts], least[kParts];
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
SHRUTI_INLINE void unpack_nibbles(const char * from, size_t row_bytes, Ints * numbers) {
    Ints packed[4];
    transpose_rows(from, row_bytes, packed);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 4; i++) {
        numbers[i] = bits_and(packed[i], fill_bytes(15));
        numbers[4 + i] = bits_and(shifted_right<4>(packed[i]), fill_bytes(15));
    }
}

// Adds the fifth bits of the numbers. `bits`: 32 bits of each row.
#if defined(SHRUTI_AVX512) && defined(__AVX512VBMI__)
SHRUTI_INLINE void add_fifth_bits(Ints bits, Ints * numbers) {
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) {
        // Each byte gets eight bits of its row, of which the fifth is its own.
        const auto place = [&](long long byte) { return ((4 * i + byte % 4 + byte / 4 * 32 - 4) & 63) << (8 * byte); };
        const Ints places = _mm512_set1_epi64(place(0) | place(1) | place(2) | place(3) | place(4) | place(5) | place(6) | place(7));
        const Ints found = _mm512_multishift_epi64_epi8(places, bits);
        numbers[i] = _mm512_ternarylogic_epi32(numbers[i], found, fill_bytes(16), 0xF8);  // numbers | (found & 16)
    }
}
#else
SHRUTI_INLINE void add_fifth_bits(Ints bits, Ints * numbers) {
    const Ints shifted = shifted_left<4>(bits);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) {
        // Each byte gets the eight bits of its row that have its own, which is one of the upper four.
        const Ints found = bits_and(each_byte(i % 2 ? bits : shifted, i / 2), fill_ints((int32_t) 0x80402010));
        numbers[i] = bits_or(numbers[i], least_bytes(found, fill_bytes(16)));
    }
}
#endif

// One function for each type of block: unpacks those of rows that are `row_bytes` apart.

SHRUTI_INLINE void unpack_rows(const block_q8_0 * blocks, size_t row_bytes, Blocks<1> & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales[0] = low_halves(head[0]);
    transpose_rows(from + offsetof(block_q8_0, qs), row_bytes, to.numbers);
    transpose_rows(from + offsetof(block_q8_0, qs) + 16, row_bytes, to.numbers + 4);
    SHRUTI_UNROLL_MANY
    for (int i = 0; i < 8; i++) to.numbers[i] = moved(to.numbers[i]);
}

SHRUTI_INLINE void unpack_rows(const block_q5_0 * blocks, size_t row_bytes, Blocks<1> & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales[0] = low_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_0, qs), row_bytes, to.numbers);
    add_fifth_bits(bits_or(shifted_right<16>(head[0]), shifted_left<16>(head[1])), to.numbers);
}

SHRUTI_INLINE void unpack_rows(const block_q5_1 * blocks, size_t row_bytes, Blocks<1> & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales[0] = low_halves(head[0]);
    to.least[0] = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q5_1, qs), row_bytes, to.numbers);
    add_fifth_bits(head[1], to.numbers);
}

SHRUTI_INLINE void unpack_rows(const block_q4_0 * blocks, size_t row_bytes, Blocks<1> & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales[0] = low_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q4_0, qs), row_bytes, to.numbers);
}

SHRUTI_INLINE void unpack_rows(const block_q4_1 * blocks, size_t row_bytes, Blocks<1> & to) {
    const char * from = (const char *) blocks;
    Ints         head[4];
    transpose_rows(from, row_bytes, head);
    to.scales[0] = low_halves(head[0]);
    to.least[0] = high_halves(head[0]);
    unpack_nibbles(from + offsetof(block_q4_1, qs), row_bytes, to.numbers);
}

// Reads as many rows as there are lanes, `row_bytes` apart, 32 numbers of each at a time. 0: one row in all lanes. This is for types
// in blocks of 32; super-blocks.h has the others.
template <typename Type, int64_t kOfBlock = Type::kRounded> class SideBySide {
   public:
    SideBySide(const char * first, size_t row_bytes) : block_((const typename Type::Block *) first), row_bytes_(row_bytes) {}

    SHRUTI_INLINE void next(Blocks<1> & to) {
        // Hides where the address comes from: clang otherwise keeps one of each row, more than it has registers for.
        asm("" : "+r"(block_));
        unpack_rows(block_++, row_bytes_, to);
    }

   private:
    const typename Type::Block * block_;
    size_t                       row_bytes_;
};

}  // namespace shruti

#endif
#endif
