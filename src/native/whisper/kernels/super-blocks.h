// Weights in blocks of 256 numbers (ggml's types "K"), several rows side by side: eight blocks of 32 in one or two parts. The
// scales of the parts, and their least numbers, are whole numbers of few bits, in proportion to two of the block.
#ifndef SHRUTI_SUPER_BLOCKS_H
#define SHRUTI_SUPER_BLOCKS_H

#include "side-by-side.h"

#ifdef SHRUTI_VECTORS

namespace shruti {

// Numbers have kLowBits bits in one place, and kHighBits above them in another. The low bits of kRun blocks of 32 lie side by side;
// those of the next blocks share their bytes. kScaleOffset is added to the scales of parts, so that none is negative.

struct InSuperBlocks {
    static constexpr int64_t kRounded = 256;
};

struct OfQ2_K : InSuperBlocks {
    using Block = block_q2_K;
    static constexpr int    kOffset = 0, kMost = 3, kParts = 2, kScaleOffset = 0;
    static constexpr int    kLowBits = 2, kHighBits = 0, kRun = 1;
    static constexpr bool   kHasLeast = true;
    static constexpr size_t kLow = offsetof(Block, qs), kHigh = 0;
};

struct OfQ3_K : InSuperBlocks {
    using Block = block_q3_K;
    static constexpr int    kOffset = 4, kMost = 7, kParts = 2, kScaleOffset = 32;
    static constexpr int    kLowBits = 2, kHighBits = 1, kRun = 1;
    static constexpr bool   kHasLeast = false;
    static constexpr size_t kLow = offsetof(Block, qs), kHigh = offsetof(Block, hmask);
};

struct OfQ4_K : InSuperBlocks {
    using Block = block_q4_K;
    static constexpr int    kOffset = 0, kMost = 15, kParts = 1, kScaleOffset = 0;
    static constexpr int    kLowBits = 4, kHighBits = 0, kRun = 1;
    static constexpr bool   kHasLeast = true;
    static constexpr size_t kLow = offsetof(Block, qs), kHigh = 0;
};

struct OfQ5_K : InSuperBlocks {
    using Block = block_q5_K;
    static constexpr int    kOffset = 0, kMost = 31, kParts = 1, kScaleOffset = 0;
    static constexpr int    kLowBits = 4, kHighBits = 1, kRun = 1;
    static constexpr bool   kHasLeast = true;
    static constexpr size_t kLow = offsetof(Block, qs), kHigh = offsetof(Block, qh);
};

struct OfQ6_K : InSuperBlocks {
    using Block = block_q6_K;
    static constexpr int    kOffset = 32, kMost = 63, kParts = 2, kScaleOffset = 128;
    static constexpr int    kLowBits = 4, kHighBits = 2, kRun = 2;
    static constexpr bool   kHasLeast = false;
    static constexpr size_t kLow = offsetof(Block, ql), kHigh = offsetof(Block, qh);
};

// Scales and least numbers of the parts of a block, a byte for each, and the block's numbers to which they are in proportion.
struct PartScales {
    Ints scales[4], leasts[4];
    Vec  scale, least;
};

// Of each byte: the bits from `kAt` on that `mask` has.
template <int kAt> Ints bits_of(Ints bytes, int8_t mask) { return bits_and(shifted_right<kAt>(bytes), fill_bytes(mask)); }

// Six bits for each byte: four of one byte, and two of another above them.
inline Ints six_bits(Ints four, Ints two) { return bits_or(four, shifted_left<4>(two)); }

// The last 16 bytes of each row's block, transposed: none after them may be read.
template <typename Block> void transpose_tails(const Block * blocks, size_t row_bytes, Ints * out) {
    transpose_rows((const char *) (blocks + 1) - 16, row_bytes, out);
}

// One function for each type of block, whose layouts are ggml's (ggml-common.h, ggml-quants.c).

inline void read_scales(const block_q2_K * blocks, size_t row_bytes, PartScales & to) {
    Ints bytes[4], tail[4];
    transpose_rows((const char *) blocks->scales, row_bytes, bytes);
    transpose_tails(blocks, row_bytes, tail);
    for (int i = 0; i < 4; i++) {
        to.scales[i] = bits_of<0>(bytes[i], 15);
        to.leasts[i] = bits_of<4>(bytes[i], 15);
    }
    to.scale = low_halves(tail[3]);
    to.least = high_halves(tail[3]);
}

inline void read_scales(const block_q3_K * blocks, size_t row_bytes, PartScales & to) {
    Ints tail[4], bytes[3];
    transpose_tails(blocks, row_bytes, tail);
    for (int i = 0; i < 3; i++) bytes[i] = bits_or(shifted_right<16>(tail[i]), shifted_left<16>(tail[i + 1]));
    to.scales[0] = six_bits(bits_of<0>(bytes[0], 15), bits_of<0>(bytes[2], 3));
    to.scales[1] = six_bits(bits_of<0>(bytes[1], 15), bits_of<2>(bytes[2], 3));
    to.scales[2] = six_bits(bits_of<4>(bytes[0], 15), bits_of<4>(bytes[2], 3));
    to.scales[3] = six_bits(bits_of<4>(bytes[1], 15), bits_of<6>(bytes[2], 3));
    to.scale = high_halves(tail[3]);
}

// q4_K and q5_K begin alike.
template <typename Block> void read_scales(const Block * blocks, size_t row_bytes, PartScales & to) {
    Ints head[4];
    transpose_rows((const char *) blocks, row_bytes, head);
    to.scale = low_halves(head[0]);
    to.least = high_halves(head[0]);
    to.scales[0] = bits_of<0>(head[1], 63);
    to.leasts[0] = bits_of<0>(head[2], 63);
    to.scales[1] = six_bits(bits_of<0>(head[3], 15), bits_of<6>(head[1], 3));
    to.leasts[1] = six_bits(bits_of<4>(head[3], 15), bits_of<6>(head[2], 3));
}

inline void read_scales(const block_q6_K * blocks, size_t row_bytes, PartScales & to) {
    Ints bytes[4], tail[4];
    transpose_rows((const char *) blocks->scales, row_bytes, bytes);
    transpose_tails(blocks, row_bytes, tail);
    for (int i = 0; i < 4; i++) to.scales[i] = bits_xor(bytes[i], fill_bytes(-128));
    to.scale = high_halves(tail[3]);
}

template <typename Type> class SideBySide<Type, 256> {
   public:
    SideBySide(const char * first, size_t row_bytes) : block_((const typename Type::Block *) first), row_bytes_(row_bytes) {}

    SHRUTI_INLINE void next(Blocks<Type::kParts> & to) {
        if (at_ == 0) read();
        unpack(to);
        at_ = (at_ + 1) % 8;
    }

   private:
    static constexpr int kAllParts = 8 * Type::kParts, kLowVectors = 8 * Type::kLowBits, kHighVectors = 8 * Type::kHighBits;

    // A function of its own: it is as large as what multiplies the numbers.
    __attribute__((noinline)) void read() {
        PartScales   parts;
        const char * from = (const char *) block_;
        read_scales(block_, row_bytes_, parts);
        for (int p = 0; p < kAllParts; p++) {
            scales_[p] = mul(parts.scale, sub(byte_of(parts.scales[p / 4], p % 4), fill(Type::kScaleOffset)));
            if constexpr (Type::kHasLeast) leasts_[p] = mul(sub(zero(), parts.least), byte_of(parts.leasts[p / 4], p % 4));
        }
        for (int i = 0; i < kLowVectors; i += 4) transpose_rows(from + Type::kLow + 4 * i, row_bytes_, low_ + i);
        for (int i = 0; i < kHighVectors; i += 4) transpose_rows(from + Type::kHigh + 4 * i, row_bytes_, high_ + i);
        block_++;
    }

    SHRUTI_INLINE void unpack(Blocks<Type::kParts> & to) const {
        constexpr int kOfByte = 8 / Type::kLowBits, kTogether = kOfByte * Type::kRun;
        const Ints *  low = low_ + 8 * (at_ / kTogether * Type::kRun + at_ % Type::kRun);
        const int     shift = Type::kLowBits * (at_ % kTogether / Type::kRun);
        SHRUTI_UNROLL_MANY
        for (int i = 0; i < 8; i++) to.numbers[i] = bits_and(shifted_right_by(low[i], shift), fill_bytes((1 << Type::kLowBits) - 1));
        if constexpr (Type::kHighBits > 0) {
            constexpr int kHighOfByte = 8 / Type::kHighBits;
            const Ints *  high = high_ + 8 * (at_ / kHighOfByte);
            const int     high_shift = Type::kHighBits * (at_ % kHighOfByte);
            SHRUTI_UNROLL_MANY
            for (int i = 0; i < 8; i++) {
                const Ints bits = bits_and(shifted_right_by(high[i], high_shift), fill_bytes((1 << Type::kHighBits) - 1));
                to.numbers[i] = bits_or(to.numbers[i], shifted_left<Type::kLowBits>(bits));
            }
        }
        SHRUTI_UNROLL_MANY
        for (int p = 0; p < Type::kParts; p++) {
            to.scales[p] = scales_[at_ * Type::kParts + p];
            if constexpr (Type::kHasLeast) to.least[p] = leasts_[at_ * Type::kParts + p];
        }
    }

    static Vec byte_of(Ints words, int i) { return to_floats(bits_and(shifted_right_by(words, 8 * i), fill_ints(0xFF))); }

    const typename Type::Block * block_;  // the next one
    size_t                       row_bytes_;
    int                          at_ = 0;  // which of the block's eight times 32 numbers come next
    Vec                          scales_[kAllParts], leasts_[Type::kHasLeast ? kAllParts : 1];
    Ints                         low_[kLowVectors], high_[Type::kHighBits > 0 ? kHighVectors : 1];
};

}  // namespace shruti

#endif
#endif
