// Vectors of floats as wide as the processors of this build have them. SHRUTI_VECTORS is defined where there are any.
#ifndef SHRUTI_VECTORS_H
#define SHRUTI_VECTORS_H

#include "inline.h"

#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define SHRUTI_VECTORS 1
#define SHRUTI_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SHRUTI_VECTORS 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define SHRUTI_VECTORS 1
#define SHRUTI_NEON 1
#endif

// Before a loop over an array of vectors: clang keeps such an array in memory unless the loop is gone early. GCC does not.
// SHRUTI_UNROLL_MANY: for loops over so many vectors that GCC leaves them as well, and copies them between registers.
#ifdef __clang__
#define SHRUTI_UNROLL _Pragma("clang loop unroll(full)")
#define SHRUTI_UNROLL_MANY SHRUTI_UNROLL
#else
#define SHRUTI_UNROLL
#define SHRUTI_UNROLL_MANY _Pragma("GCC unroll 16")
#endif

#ifdef SHRUTI_NEON
#include "neon-vectors.h"
#elif defined(SHRUTI_VECTORS)
#include <immintrin.h>

namespace shruti {

// Four floats.
using Four = __m128;

inline Four fill_four(float x) { return _mm_set1_ps(x); }
inline void store_four(float * p, Four x) { _mm_storeu_ps(p, x); }
inline Four max(Four a, Four b) { return _mm_max_ps(a, b); }
inline float max_of(Four x) {
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

#ifdef SHRUTI_AVX512

using Vec = __m512;
constexpr int kLanes = 16;

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec fill(float x) { return _mm512_set1_ps(x); }
inline Vec load(const float * p) { return _mm512_loadu_ps(p); }
inline void store(float * p, Vec x) { _mm512_storeu_ps(p, x); }
inline Vec load_half(const uint16_t * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
inline Vec load_bytes(const int8_t * p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p))); }
inline Vec fill_half(uint16_t x) { return _mm512_cvtph_ps(_mm256_set1_epi16((short) x)); }
inline void store_half(uint16_t * p, Vec x) {
    _mm256_storeu_si256((__m256i *) p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vec rounded_to_halves(Vec x) { return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec abs_of(Vec x) { return _mm512_abs_ps(x); }
inline float sum_of(Vec x) { return _mm512_reduce_add_ps(x); }
inline float max_of(Vec x) { return _mm512_reduce_max_ps(x); }
inline float first_of(Vec x) { return _mm512_cvtss_f32(x); }
inline Vec round(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// x · 2^n for whole n, 0 below the range of floats.
inline Vec scale_by_power(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
// The largest numbers of each of four vectors.
inline Four maxima_of(const Vec * x) {
    const __m512d a = _mm512_castps_pd(max(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1])));
    const __m512d b = _mm512_castps_pd(max(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3])));
    const Vec     quads = max(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    const Vec     pairs = max(quads, _mm512_shuffle_f32x4(quads, quads, 0x4E));
    return _mm512_castps512_ps128(max(pairs, _mm512_shuffle_f32x4(pairs, pairs, 0xB1)));
}
// The sums of each of four vectors: halves are added, then their halves, and so on, as _mm512_reduce_add_ps does.
inline Four totals_of(const Vec * x) {
    const Vec a = add(_mm512_shuffle_f32x4(x[0], x[1], 0x44), _mm512_shuffle_f32x4(x[0], x[1], 0xEE));
    const Vec b = add(_mm512_shuffle_f32x4(x[2], x[3], 0x44), _mm512_shuffle_f32x4(x[2], x[3], 0xEE));
    const Vec quads = add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    const Vec pairs = add(quads, _mm512_permute_ps(quads, 0x4E));
    const Vec all = add(pairs, _mm512_permute_ps(pairs, 0xB1));
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), all));
}
// The sum of a vector, in the order of totals_of.
inline float total_of(Vec x) { return sum_of(x); }
// The sums of each of 16 vectors, in one.
inline Vec sums_of(const Vec * x) {
    Vec quads[4];
    for (int i = 0; i < 4; i++) {
        const Vec * v = x + 4 * i;
        const Vec   a = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
        const Vec   b = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
        quads[i] = add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
    }
    const Vec low = add(_mm512_shuffle_f32x4(quads[0], quads[1], 0x44), _mm512_shuffle_f32x4(quads[0], quads[1], 0xEE));
    const Vec high = add(_mm512_shuffle_f32x4(quads[2], quads[3], 0x44), _mm512_shuffle_f32x4(quads[2], quads[3], 0xEE));
    return add(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xDD));
}

#else

using Vec = __m256;
constexpr int kLanes = 8;

inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec fill(float x) { return _mm256_set1_ps(x); }
inline Vec load(const float * p) { return _mm256_loadu_ps(p); }
inline void store(float * p, Vec x) { _mm256_storeu_ps(p, x); }
inline Vec load_half(const uint16_t * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
inline Vec load_bytes(const int8_t * p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p))); }
inline Vec fill_half(uint16_t x) { return _mm256_cvtph_ps(_mm_set1_epi16((short) x)); }
inline void store_half(uint16_t * p, Vec x) {
    _mm_storeu_si128((__m128i *) p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vec rounded_to_halves(Vec x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec abs_of(Vec x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
inline float sum_of(Vec x) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float max_of(Vec x) {
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}
inline float first_of(Vec x) { return _mm256_cvtss_f32(x); }
inline Vec round(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// x · 2^n for whole n, 0 below the range of floats.
inline Vec scale_by_power(Vec x, Vec n) {
    const Vec     least = _mm256_set1_ps(-126.0f);
    const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(max(n, least)), _mm256_set1_epi32(127)), 23);
    return _mm256_and_ps(mul(x, _mm256_castsi256_ps(exponent)), _mm256_cmp_ps(n, least, _CMP_NLT_UQ));
}
// The largest numbers of each of four vectors.
inline Four maxima_of(const Vec * x) {
    const __m256d a = _mm256_castps_pd(max(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1])));
    const __m256d b = _mm256_castps_pd(max(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3])));
    const Vec     quads = max(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    return _mm_max_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1));
}
// The sums of each of four vectors, in the order of ggml's.
inline Four totals_of(const Vec * x) {
    __m128 halves[4];
    SHRUTI_UNROLL
    for (int i = 0; i < 4; i++) halves[i] = _mm_add_ps(_mm256_castps256_ps128(x[i]), _mm256_extractf128_ps(x[i], 1));
    return _mm_hadd_ps(_mm_hadd_ps(halves[0], halves[1]), _mm_hadd_ps(halves[2], halves[3]));
}
// The sum of a vector, in the order of totals_of.
inline float total_of(Vec x) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 pairs = _mm_hadd_ps(half, half);
    return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
}
// The sums of each of 8 vectors, in one.
inline Vec sums_of(const Vec * x) {
    Vec quads[2];
    for (int i = 0; i < 2; i++) {
        const Vec * v = x + 4 * i;
        const Vec   a = add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
        const Vec   b = add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
        quads[i] = add(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
    }
    return add(_mm256_permute2f128_ps(quads[0], quads[1], 0x20), _mm256_permute2f128_ps(quads[0], quads[1], 0x31));
}

#endif

}  // namespace shruti
#endif

#ifdef SHRUTI_VECTORS
namespace shruti {

// 2^x for x up to 127, within 3 units of the last place; NaN for NaN: max() returns its second operand when one of them is
// NaN. Less than -126 counts as -126: smaller powers are below the range of normal floats, and a vector with one of them takes
// 30 times as long on processors of Intel.
inline Vec exp2_of(Vec x) {
    const Vec clamped = max(fill(-126.0f), x);
    const Vec whole = round(clamped);
    const Vec rest = sub(clamped, whole);
    Vec       p = fill(1.5403530e-4f);
    p = fma(p, rest, fill(1.3333558e-3f));
    p = fma(p, rest, fill(9.6181291e-3f));
    p = fma(p, rest, fill(5.5504109e-2f));
    p = fma(p, rest, fill(2.4022651e-1f));
    p = fma(p, rest, fill(6.9314718e-1f));
    p = fma(p, rest, fill(1.0f));
    return scale_by_power(p, whole);
}

// The same, but 0 for what counts as -126: weights that are multiplied by other small numbers.
inline Vec exp2_or_zero(Vec x) { return sub(exp2_of(x), fill(0x1p-126f)); }

// 2^x for x from -126 to 127 with a relative error of 0.0001, for what is rounded to 8 bits.
inline Vec rough_exp2_of(Vec x) {
    const Vec whole = round(x), rest = sub(x, whole);
    Vec       p = fill(5.51715030e-02f);
    p = fma(p, rest, fill(2.42611178e-01f));
    p = fma(p, rest, fill(6.93261022e-01f));
    p = fma(p, rest, fill(9.99928071e-01f));
    return scale_by_power(p, whole);
}

constexpr float kLog2E = 1.44269504f;

}  // namespace shruti
#endif

#endif
