// vectors.h for 64-bit ARM: eight lanes in two registers. An instruction for four products of bytes is needed, too (ARMv8.2).
#ifndef SHRUTI_NEON_VECTORS_H
#define SHRUTI_NEON_VECTORS_H

#include "inline.h"

#include <arm_neon.h>
#include <cstdint>

namespace shruti {

struct Vec {
    float32x4_t low, high;
};
// Four floats.
using Four = float32x4_t;
constexpr int kLanes = 8;

inline float16x8_t halves_at(const uint16_t * p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }

inline Vec fill(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Vec zero() { return fill(0); }
inline Vec load(const float * p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline void store(float * p, Vec x) {
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
}
inline Vec load_half(const uint16_t * p) {
    const float16x8_t halves = halves_at(p);
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
inline Vec load_bytes(const int8_t * p) {
    const int16x8_t shorts = vmovl_s8(vld1_s8(p));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(shorts))), vcvtq_f32_s32(vmovl_high_s16(shorts))};
}
inline Vec fill_half(uint16_t x) {
    const float32x4_t all = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x)));
    return {all, all};
}
inline void store_half(uint16_t * p, Vec x) { vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.low), x.high))); }
inline Vec rounded_to_halves(Vec x) { return {vcvt_f32_f16(vcvt_f16_f32(x.low)), vcvt_f32_f16(vcvt_f16_f32(x.high))}; }
inline Vec add(Vec a, Vec b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
inline Vec sub(Vec a, Vec b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
inline Vec mul(Vec a, Vec b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
inline Vec div(Vec a, Vec b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
// Adds the products of four numbers with one of `others`. In assembly, because GCC would make the sums in another order, for which
// there are not enough registers.
template <int kPlace> void add_product_of(float32x4_t & sums, float32x4_t numbers, float32x4_t others) {
    __asm__("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sums) : "w"(numbers), "w"(others), "i"(kPlace));
}
inline Vec max(Vec a, Vec b) { return {vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)}; }
inline Vec min(Vec a, Vec b) { return {vminq_f32(a.low, b.low), vminq_f32(a.high, b.high)}; }
inline Vec abs_of(Vec x) { return {vabsq_f32(x.low), vabsq_f32(x.high)}; }
inline float sum_of(Vec x) { return vaddvq_f32(vaddq_f32(x.low, x.high)); }
inline float max_of(Vec x) { return vmaxvq_f32(vmaxq_f32(x.low, x.high)); }
inline float first_of(Vec x) { return vgetq_lane_f32(x.low, 0); }
inline Vec round(Vec x) { return {vrndnq_f32(x.low), vrndnq_f32(x.high)}; }

inline Four scale_by_power(Four x, Four n) {
    const Four      least = vdupq_n_f32(-126.0f);
    const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(vmaxq_f32(n, least)), vdupq_n_s32(127)), 23);
    const Four      scaled = vmulq_f32(x, vreinterpretq_f32_s32(exponent));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(scaled), vcltq_f32(n, least)));
}
// x · 2^n for whole n, 0 below the range of floats.
inline Vec scale_by_power(Vec x, Vec n) { return {scale_by_power(x.low, n.low), scale_by_power(x.high, n.high)}; }

inline Four fill_four(float x) { return vdupq_n_f32(x); }
inline void store_four(float * p, Four x) { vst1q_f32(p, x); }
inline Four max(Four a, Four b) { return vmaxq_f32(a, b); }
inline float max_of(Four x) { return vmaxvq_f32(x); }
// The largest numbers of each of four vectors.
inline Four maxima_of(const Vec * x) {
    const auto most = [&](int i) { return vmaxq_f32(x[i].low, x[i].high); };
    return vpmaxq_f32(vpmaxq_f32(most(0), most(1)), vpmaxq_f32(most(2), most(3)));
}
// The sums of each of four vectors.
inline Four totals_of(const Vec * x) {
    const auto half = [&](int i) { return vaddq_f32(x[i].low, x[i].high); };
    return vpaddq_f32(vpaddq_f32(half(0), half(1)), vpaddq_f32(half(2), half(3)));
}
// The sum of a vector, in the order of totals_of.
inline float total_of(Vec x) { return sum_of(x); }
// The sums of each of 8 vectors, in one.
inline Vec sums_of(const Vec * x) { return {totals_of(x), totals_of(x + 4)}; }

}  // namespace shruti

#endif
