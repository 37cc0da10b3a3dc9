// Quantized weights in blocks of 32, numbers rounded to 8 bits in such blocks, and how numbers are rounded at all.
#ifndef SHRUTI_QUANTIZED_H
#define SHRUTI_QUANTIZED_H

#include "whole-vectors.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {

// Numbers whose largest is smaller are rounded to zero: kMost divided by it may be infinite.
constexpr float kLeastRounded = 1e-30f;

// How many the instruction for products of bytes wants added to those of one side, so that none has a sign.
#ifdef SHRUTI_NEON
constexpr int kMoved = 0;
#else
constexpr int kMoved = 128;
#endif

// Bytes with a sign, and kMoved more.
inline Ints moved(Ints bytes) { return kMoved ? bits_xor(bytes, fill_bytes(-128)) : bytes; }
#ifdef SHRUTI_AVX512
inline Bytes32 moved(Bytes32 bytes) { return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)); }

// Two times 32 bytes in one vector.
inline Ints joined(const Bytes32 * bytes) { return _mm512_inserti64x4(_mm512_castsi256_si512(bytes[0]), bytes[1], 1); }
#else
inline Ints joined(const Bytes32 * bytes) { return bytes[0]; }
#endif

// How numbers are rounded to whole ones from -kMost to kMost, in proportion to the largest of them.
template <int kMost> struct Scale {
    float multiplier, factor;
    explicit Scale(float largest) : multiplier(largest > kLeastRounded ? kMost / largest : 0.0f), factor(largest / kMost) {}
};

using ByteScale = Scale<127>;

// Bytes with a sign and a factor of their own become such with the factor `largest`: they are multiplied by their share of it.
class ShareOfBytes {
   public:
    explicit ShareOfBytes(float largest) : multiplier_(largest > 0 ? INT16_MAX / largest : 0.0f) {}
    Bytes32 of(Bytes32 bytes, float factor) const { return scaled_bytes(bytes, (int16_t) (factor * multiplier_)); }

   private:
    float multiplier_;
};

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
    Bytes32 values;
    float   factor;
};

inline RoundedBlock rounded_block(const float * from, const ByteScale & scale) { return {rounded_32(from, scale.multiplier), scale.factor}; }

// Rounds a block in proportion to the largest of its numbers.
inline RoundedBlock rounded_block(const float * from) { return rounded_block(from, ByteScale(largest_of(from, kRoundedBlock))); }

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
    static constexpr int  kOffset = kMoved, kMost = 127 + kMoved;
    static constexpr bool kHasLeast = false;
    static Bytes32 bytes(const Block & b) { return moved(load_32_bytes(b.qs)); }
};

struct OfQ5_0 : InBlocksOf32 {
    using Block = block_q5_0;
    static constexpr int  kOffset = 16, kMost = 31;
    static constexpr bool kHasLeast = false;
    static Bytes32 bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
};

struct OfQ5_1 : InBlocksOf32 {
    using Block = block_q5_1;
    static constexpr int  kOffset = 0, kMost = 31;
    static constexpr bool kHasLeast = true;
    static Bytes32 bytes(const Block & b) { return numbers_of_five(b.qs, b.qh); }
};

struct OfQ4_0 : InBlocksOf32 {
    using Block = block_q4_0;
    static constexpr int  kOffset = 8, kMost = 15;
    static constexpr bool kHasLeast = false;
    static Bytes32 bytes(const Block & b) { return numbers_of_four(b.qs); }
};

struct OfQ4_1 : InBlocksOf32 {
    using Block = block_q4_1;
    static constexpr int  kOffset = 0, kMost = 15;
    static constexpr bool kHasLeast = true;
    static Bytes32 bytes(const Block & b) { return numbers_of_four(b.qs); }
};

}  // namespace shruti

#endif
#endif
