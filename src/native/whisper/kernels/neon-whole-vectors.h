// whole-vectors.h for 64-bit ARM: each function works on both registers of a vector.
#ifndef SHRUTI_NEON_WHOLE_VECTORS_H
#define SHRUTI_NEON_WHOLE_VECTORS_H

#include "neon-vectors.h"

#include <cstring>

namespace shruti {

struct Ints {
    uint32x4_t low, high;
};

inline Ints of_bytes(uint8x16_t low, uint8x16_t high) { return {vreinterpretq_u32_u8(low), vreinterpretq_u32_u8(high)}; }
inline Ints of_fours(uint64x2_t low, uint64x2_t high) { return {vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)}; }
inline uint8x16_t as_bytes(uint32x4_t x) { return vreinterpretq_u8_u32(x); }
inline uint64x2_t as_fours(uint32x4_t x) { return vreinterpretq_u64_u32(x); }
inline int32x4_t with_sign(uint32x4_t x) { return vreinterpretq_s32_u32(x); }

inline Ints fill_ints(int32_t x) { return {vdupq_n_u32((uint32_t) x), vdupq_n_u32((uint32_t) x)}; }
inline Ints fill_bytes(int8_t x) { return of_bytes(vdupq_n_u8((uint8_t) x), vdupq_n_u8((uint8_t) x)); }
inline Ints load_ints(const char * p) { return of_bytes(vld1q_u8((const uint8_t *) p), vld1q_u8((const uint8_t *) p + 16)); }
inline void store_ints(void * p, Ints x) {
    vst1q_u8((uint8_t *) p, as_bytes(x.low));
    vst1q_u8((uint8_t *) p + 16, as_bytes(x.high));
}
inline Ints low_pairs(Ints a, Ints b) { return {vzip1q_u32(a.low, b.low), vzip1q_u32(a.high, b.high)}; }
inline Ints high_pairs(Ints a, Ints b) { return {vzip2q_u32(a.low, b.low), vzip2q_u32(a.high, b.high)}; }
inline Ints low_fours(Ints a, Ints b) {
    return of_fours(vzip1q_u64(as_fours(a.low), as_fours(b.low)), vzip1q_u64(as_fours(a.high), as_fours(b.high)));
}
inline Ints high_fours(Ints a, Ints b) {
    return of_fours(vzip2q_u64(as_fours(a.low), as_fours(b.low)), vzip2q_u64(as_fours(a.high), as_fours(b.high)));
}
// The first or the second halves of two vectors.
inline Ints first_halves(Ints a, Ints b) { return {a.low, b.low}; }
inline Ints second_halves(Ints a, Ints b) { return {a.high, b.high}; }
inline Ints bits_and(Ints a, Ints b) { return {vandq_u32(a.low, b.low), vandq_u32(a.high, b.high)}; }
inline Ints bits_or(Ints a, Ints b) { return {vorrq_u32(a.low, b.low), vorrq_u32(a.high, b.high)}; }
inline Ints bits_xor(Ints a, Ints b) { return {veorq_u32(a.low, b.low), veorq_u32(a.high, b.high)}; }
inline Ints shifted_right_by(Ints x, int count) {
    const int32x4_t places = vdupq_n_s32(-count);
    return {vshlq_u32(x.low, places), vshlq_u32(x.high, places)};
}
template <int N> Ints shifted_left(Ints x) { return {vshlq_n_u32(x.low, N), vshlq_n_u32(x.high, N)}; }
template <int N> Ints shifted_right(Ints x) { return N == 0 ? x : shifted_right_by(x, N); }
inline Ints rounded(Vec x) { return {vreinterpretq_u32_s32(vcvtnq_s32_f32(x.low)), vreinterpretq_u32_s32(vcvtnq_s32_f32(x.high))}; }
inline Vec to_floats(Ints x) { return {vcvtq_f32_s32(with_sign(x.low)), vcvtq_f32_s32(with_sign(x.high))}; }
inline Ints as_words(Vec x) { return {vreinterpretq_u32_f32(x.low), vreinterpretq_u32_f32(x.high)}; }

// Both sides have a sign: numbers of 8 bits are never moved out of it (kMoved).
inline uint32x4_t add_four_products(uint32x4_t sums, uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_s32(vdotq_s32(with_sign(sums), vreinterpretq_s8_u32(a), vreinterpretq_s8_u32(b)));
}
inline Ints add_four_products(Ints sums, Ints numbers, Ints values) {
    return {add_four_products(sums.low, numbers.low, values.low), add_four_products(sums.high, numbers.high, values.high)};
}

// Adds the products of four bytes of each lane with one four of `fours`. In assembly, because GCC would make the sums in another
// order, for which there are not enough registers.
template <int kFour> void add_four_products_of(uint32x4_t & sums, uint32x4_t bytes, uint32x4_t fours) {
    __asm__("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sums) : "w"(bytes), "w"(fours), "i"(kFour));
}

// Byte `i` of each lane, four times.
inline Ints each_byte(Ints x, int8_t i) {
    const uint32x4_t firsts = {0, 0x04040404, 0x08080808, 0x0C0C0C0C};
    const uint8x16_t places = vaddq_u8(as_bytes(firsts), vdupq_n_u8((uint8_t) i));
    return of_bytes(vqtbl1q_u8(as_bytes(x.low), places), vqtbl1q_u8(as_bytes(x.high), places));
}
inline Ints least_bytes(Ints a, Ints b) {
    return of_bytes(vminq_u8(as_bytes(a.low), as_bytes(b.low)), vminq_u8(as_bytes(a.high), as_bytes(b.high)));
}

inline int16x8_t shorts_of(Ints x) { return vqmovn_high_s32(vqmovn_s32(with_sign(x.low)), with_sign(x.high)); }

// Four vectors as bytes with a sign.
inline Ints bytes_of(Ints a, Ints b, Ints c, Ints d) {
    const int8x16_t low = vqmovn_high_s16(vqmovn_s16(shorts_of(a)), shorts_of(b));
    const int8x16_t high = vqmovn_high_s16(vqmovn_s16(shorts_of(c)), shorts_of(d));
    return of_bytes(vreinterpretq_u8_s8(low), vreinterpretq_u8_s8(high));
}

// Four vectors as bytes without a sign.
inline Ints unsigned_bytes_of(Ints a, Ints b, Ints c, Ints d) {
    return of_bytes(vqmovun_high_s16(vqmovun_s16(shorts_of(a)), shorts_of(b)), vqmovun_high_s16(vqmovun_s16(shorts_of(c)), shorts_of(d)));
}

// The f16 in the low half of each lane.
inline Vec low_halves(Ints x) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x.low))), vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x.high)))};
}

// 16 bytes of each fourth row: a half of the vector for each.
inline Ints load_fourth_rows(const char * from, size_t row_bytes) {
    return of_bytes(vld1q_u8((const uint8_t *) from), vld1q_u8((const uint8_t *) from + 4 * row_bytes));
}

inline float single(uint16_t half) {
    __fp16 x;
    memcpy(&x, &half, sizeof x);
    return x;
}
inline float rounded_to_half(float x) { return (float) (__fp16) x; }

// 32 bytes, such as a block of rounded numbers.
using Bytes32 = Ints;
inline void store_bytes(void * p, Bytes32 x) { store_ints(p, x); }
inline Bytes32 load_32_bytes(const void * p) { return load_ints((const char *) p); }
inline int sum_of_bytes(uint32x4_t bytes) { return vaddlvq_s8(vreinterpretq_s8_u32(bytes)); }
inline int sum_of_bytes(Bytes32 bytes) { return sum_of_bytes(bytes.low) + sum_of_bytes(bytes.high); }
// The sums of the first and of the second half of the bytes, which have a sign.
inline void sums_of_halves(Bytes32 bytes, int * sums) {
    sums[0] = sum_of_bytes(bytes.low);
    sums[1] = sum_of_bytes(bytes.high);
}
// 32 floats times a factor, rounded to bytes with a sign.
inline Bytes32 rounded_32(const float * from, float multiplier) {
    const Vec all = fill(multiplier);
    const auto part = [&](int i) { return rounded(mul(load(from + i * kLanes), all)); };
    return bytes_of(part(0), part(1), part(2), part(3));
}

// Bytes with a sign times `share` / 2^15, rounded.
inline Bytes32 scaled_bytes(Bytes32 bytes, int16_t share) {
    const auto half = [&](uint32x4_t x) {
        const int8x16_t signed_bytes = vreinterpretq_s8_u32(x);
        const int8x8_t  low = vqmovn_s16(vqrdmulhq_n_s16(vmovl_s8(vget_low_s8(signed_bytes)), share));
        return vreinterpretq_u32_s8(vqmovn_high_s16(low, vqrdmulhq_n_s16(vmovl_high_s8(signed_bytes), share)));
    };
    return {half(bytes.low), half(bytes.high)};
}

// 32 numbers of 4 bits as bytes: those of the first 16 are the low halves of `from`.
inline Bytes32 numbers_of_four(const uint8_t * from) {
    const uint8x16_t packed = vld1q_u8(from);
    return of_bytes(vandq_u8(packed, vdupq_n_u8(15)), vshrq_n_u8(packed, 4));
}

// 32 numbers of 5 bits as bytes: `from` has four bits of each, those of the first 16 in the low halves; `bits` the fifth.
inline Bytes32 numbers_of_five(const uint8_t * from, const uint8_t * bits) {
    const uint64x2_t own = vdupq_n_u64(0x8040201008040201);
    const auto       fifth = [&](int i) {
        const uint8x16_t all = vcombine_u8(vdup_n_u8(bits[i]), vdup_n_u8(bits[i + 1]));
        return vandq_u8(vtstq_u8(all, vreinterpretq_u8_u64(own)), vdupq_n_u8(16));
    };
    const Bytes32 low = numbers_of_four(from);
    return of_bytes(vorrq_u8(as_bytes(low.low), fifth(0)), vorrq_u8(as_bytes(low.high), fifth(2)));
}

}  // namespace shruti

#endif
