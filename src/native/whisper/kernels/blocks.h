// Products of blocks that stay in registers: kRows rows of the left matrix times kColumns columns of the right one.
// Both are packed in words of 32 bits: a float, or a pair of bf16 numbers where the processor multiplies those.
//
//   left, a block of kRows rows:          [words / kChunk][kRows][kChunk]
//   right, a panel of kColumns columns:   [words][kColumns]
#ifndef SHRUTI_BLOCKS_H
#define SHRUTI_BLOCKS_H

#include "settings.h"
#include "whole-vectors.h"

#ifdef SHRUTI_VECTORS

#include <cstddef>
#include <cstring>

#if defined(SHRUTI_AVX512) && defined(__AVX512BF16__)
#define SHRUTI_BF16 1
#endif
#if defined(SHRUTI_BF16) && defined(__AMX_TILE__) && defined(__x86_64__)
#define SHRUTI_AMX 1
#endif

namespace shruti {

#ifdef SHRUTI_BF16
constexpr int kPerWord = 2;
#else
constexpr int kPerWord = 1;
#endif

#if defined(SHRUTI_AMX)
constexpr int kRows = 32, kColumns = 32, kChunk = 16;
#elif defined(SHRUTI_AVX512)
constexpr int kRows = 12, kColumns = 32, kChunk = 4;
#else
constexpr int kRows = 6, kColumns = 16, kChunk = 4;
#endif
// Values that a chunk of a row holds.
constexpr int kPerChunk = kChunk * kPerWord;

// What happens to a block of results.
struct Finish {
    const float * add = nullptr;   // a block that is added; may be where the results go
    size_t        add_stride = 0;  // floats from a row of it to the next
    const float * bias = nullptr;  // kColumns numbers, added to each row
    float         factor = 1;      // of the results, before anything is added to them
    Activation    activation = Activation::kNone;  // of the sum
};

// x times the probability of a normal number below it, by the tanh approximation that ggml uses.
inline Vec gelu_of(Vec x) {
    const Vec inner = mul(mul(fill(-2 * 0.79788456f * kLog2E), x), fma(mul(fill(0.044715f), x), x, fill(1.0f)));
    return div(x, add(fill(1.0f), exp2_of(min(inner, fill(126.0f)))));
}

// A number divided by 1 + e^-x.
inline Vec over_logistic(Vec number, Vec x) { return div(number, add(fill(1.0f), exp2_of(min(mul(fill(-kLog2E), x), fill(126.0f))))); }

inline Vec activated(Vec x, Activation activation) {
    switch (activation) {
        case Activation::kGelu: return gelu_of(x);
        case Activation::kSilu: return over_logistic(x, x);
        case Activation::kSigmoid: return over_logistic(fill(1.0f), x);
        case Activation::kRelu: return max(x, zero());
        case Activation::kNone: break;
    }
    return x;
}

inline void finish_row(float * out, Vec x, int row, int column, const Finish & finish) {
    if (finish.factor != 1) x = mul(x, fill(finish.factor));
    if (finish.add) x = add(x, load(finish.add + row * finish.add_stride + column));
    if (finish.bias) x = add(x, load(finish.bias + column));
    x = activated(x, finish.activation);
    store(out, x);
}

#ifdef SHRUTI_AMX

// Configures the tiles of this thread: all of 16 rows of 64 bytes. Others may have configured them otherwise.
inline void begin_blocks() {
    alignas(64) static const unsigned char config[64] = {
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                  // palette
        64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0,  // bytes of a row
        0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16};                         // rows
    struct Config { unsigned char bytes[64]; };
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const Config *) config));
}

inline void end_blocks() { __asm__ volatile("tilerelease" ::: "memory"); }

// Assembly: GCC's functions do not declare what memory they read, and no register is lost for want of declarations,
// as nothing else in these libraries keeps tiles over a call.
#define SHRUTI_TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define SHRUTI_TILE_LOAD(t, p, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((ptrdiff_t) (stride)) : "memory")
#define SHRUTI_TILE_STORE(t, p, stride) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(p), "r"((ptrdiff_t) (stride)) : "memory")
#define SHRUTI_TILE_PRODUCT(t, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #t ::: "memory")

inline void multiply_block(const uint32_t * left, const uint32_t * right, int64_t chunks, float * out, size_t stride,
                           const Finish & finish) {
    alignas(64) float sums[kRows * kColumns];
    SHRUTI_TILE_ZERO(0);
    SHRUTI_TILE_ZERO(1);
    SHRUTI_TILE_ZERO(2);
    SHRUTI_TILE_ZERO(3);
    for (int64_t i = 0; i < chunks; i++, left += kRows * kChunk, right += kChunk * kColumns) {
        SHRUTI_TILE_LOAD(4, left, 64);
        SHRUTI_TILE_LOAD(6, right, 4 * kColumns);
        SHRUTI_TILE_LOAD(7, right + 16, 4 * kColumns);
        SHRUTI_TILE_PRODUCT(0, 4, 6);
        SHRUTI_TILE_LOAD(5, left + 16 * kChunk, 64);
        SHRUTI_TILE_PRODUCT(1, 4, 7);
        SHRUTI_TILE_PRODUCT(2, 5, 6);
        SHRUTI_TILE_PRODUCT(3, 5, 7);
    }
    if (!finish.add && !finish.bias && finish.factor == 1 && finish.activation == Activation::kNone) {
        SHRUTI_TILE_STORE(0, out, stride * 4);
        SHRUTI_TILE_STORE(1, out + 16, stride * 4);
        SHRUTI_TILE_STORE(2, out + 16 * stride, stride * 4);
        SHRUTI_TILE_STORE(3, out + 16 * stride + 16, stride * 4);
        return;
    }
    SHRUTI_TILE_STORE(0, sums, 4 * kColumns);
    SHRUTI_TILE_STORE(1, sums + 16, 4 * kColumns);
    SHRUTI_TILE_STORE(2, sums + 16 * kColumns, 4 * kColumns);
    SHRUTI_TILE_STORE(3, sums + 16 * kColumns + 16, 4 * kColumns);
    for (int r = 0; r < kRows; r++)
        for (int c = 0; c < kColumns; c += kLanes)
            finish_row(out + r * stride + c, load(sums + r * kColumns + c), r, c, finish);
}

#else

inline void begin_blocks() {}
inline void end_blocks() {}

// sums + left · right, where `left` is in all lanes.
inline Vec multiply_add(const uint32_t * left, Vec right, Vec sums) {
#ifdef SHRUTI_BF16
    const __m512i all = _mm512_set1_epi32((int) *left);
    return _mm512_dpbf16_ps(sums, (__m512bh) all, (__m512bh) _mm512_castps_si512(right));
#else
    float x;
    memcpy(&x, left, sizeof x);
    return fma(fill(x), right, sums);
#endif
}

#ifdef SHRUTI_NEON

// Adds the products of one number of each row.
template <int kPlace> SHRUTI_INLINE void multiply_numbers(const float32x4_t * rows, const float * right, float32x4_t (*sums)[4]) {
    SHRUTI_UNROLL
    for (int c = 0; c < 4; c++) {
        const float32x4_t column = vld1q_f32(right + kPlace * kColumns + 4 * c);
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) add_product_of<kPlace>(sums[r][c], column, rows[r]);
    }
}

inline void multiply_block(const uint32_t * left, const uint32_t * right, int64_t chunks, float * out, size_t stride,
                           const Finish & finish) {
    float32x4_t sums[kRows][4];
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = vdupq_n_f32(0);
    for (int64_t i = 0; i < chunks; i++, left += kRows * kChunk, right += kChunk * kColumns) {
        float32x4_t rows[kRows];
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) rows[r] = vld1q_f32((const float *) left + r * kChunk);
        multiply_numbers<0>(rows, (const float *) right, sums);
        multiply_numbers<1>(rows, (const float *) right, sums);
        multiply_numbers<2>(rows, (const float *) right, sums);
        multiply_numbers<3>(rows, (const float *) right, sums);
    }
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) {
        finish_row(out + r * stride, {sums[r][0], sums[r][1]}, r, 0, finish);
        finish_row(out + r * stride + kLanes, {sums[r][2], sums[r][3]}, r, kLanes, finish);
    }
}

#else

inline void multiply_block(const uint32_t * left, const uint32_t * right, int64_t chunks, float * out, size_t stride,
                           const Finish & finish) {
    Vec sums[kRows][2];
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) sums[r][0] = sums[r][1] = zero();
    for (int64_t i = 0; i < chunks; i++, left += kRows * kChunk) {
        SHRUTI_UNROLL
        for (int j = 0; j < kChunk; j++, right += kColumns) {
            const Vec first = load((const float *) right), second = load((const float *) right + kLanes);
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                sums[r][0] = multiply_add(left + r * kChunk + j, first, sums[r][0]);
                sums[r][1] = multiply_add(left + r * kChunk + j, second, sums[r][1]);
            }
        }
    }
    SHRUTI_UNROLL
    for (int r = 0; r < kRows; r++) {
        finish_row(out + r * stride, sums[r][0], r, 0, finish);
        finish_row(out + r * stride + kLanes, sums[r][1], r, kLanes, finish);
    }
}

#endif
#endif

using Words = Ints;
inline void store_words(uint32_t * p, Words x) { store_ints(p, x); }
#ifdef SHRUTI_AVX512
// Transposes 16 × 16 words.
inline void transpose(const Words * in, uint32_t * out, size_t stride) {
    Words a[16], b[16];
    for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm512_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        const Words low01 = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x44), high01 = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xEE);
        const Words low23 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x44), high23 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xEE);
        store_words(out + (0 + i) * stride, _mm512_shuffle_i32x4(low01, low23, 0x88));
        store_words(out + (4 + i) * stride, _mm512_shuffle_i32x4(low01, low23, 0xDD));
        store_words(out + (8 + i) * stride, _mm512_shuffle_i32x4(high01, high23, 0x88));
        store_words(out + (12 + i) * stride, _mm512_shuffle_i32x4(high01, high23, 0xDD));
    }
}
#else
// Transposes 8 × 8 words.
inline void transpose(const Words * in, uint32_t * out, size_t stride) {
    Words a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = low_pairs(in[2 * i], in[2 * i + 1]);
        a[2 * i + 1] = high_pairs(in[2 * i], in[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = low_fours(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = high_fours(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = low_fours(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = high_fours(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        store_words(out + i * stride, first_halves(b[i], b[4 + i]));
        store_words(out + (4 + i) * stride, second_halves(b[i], b[4 + i]));
    }
}
#endif

// kLanes · kPerWord floats as kLanes words.
inline Words to_words(const float * p) {
#ifdef SHRUTI_BF16
    return (__m512i) _mm512_cvtne2ps_pbh(load(p + 16), load(p));
#else
    return load_ints((const char *) p);
#endif
}
inline Words halves_to_words(const uint16_t * p) {
#ifdef SHRUTI_BF16
    return (__m512i) _mm512_cvtne2ps_pbh(load_half(p + 16), load_half(p));
#else
    return as_words(load_half(p));
#endif
}
constexpr int kPerVector = kLanes * kPerWord;

// Stores kLanes words of a row of the left matrix from column `word` on.
inline void store_left(uint32_t * block, int64_t row, int64_t word, Words x) {
    alignas(64) uint32_t words[kLanes];
    store_words(words, x);
    for (int i = 0; i < kLanes; i += kChunk)
        memcpy(block + (word + i) / kChunk * (kRows * kChunk) + row * kChunk, words + i, 4 * kChunk);
}

}  // namespace shruti

#endif
#endif
