// Products with few tokens: beams, second attempts and short prompts. Weights are read once for all
// tokens, and widened to floats as they are read.
#include "settings.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <algorithm>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

// A single token is faster by ggml's products, which read one row after the other.
constexpr int64_t kLeastTokens = 2, kMostTokens = 31;
// Values that are widened at once: a block of the quantized types.
constexpr int64_t kBlock = 32;
constexpr int     kParts = kBlock / kLanes;
// Tokens that are multiplied at once, with sums in registers.
constexpr int kTokens = 8;
// Weights are fetched this many groups of rows ahead: the processor itself does not see several rows as one sequence.
constexpr int kAhead = 4;

// Each type's `widen` writes `kParts` vectors: block `i` of a row.

struct OfFloats {
    static constexpr size_t kBytes = kBlock * sizeof(float);
    static void widen(const char * row, int64_t i, Vec * out) {
        for (int j = 0; j < kParts; j++) out[j] = load((const float *) row + i * kBlock + j * kLanes);
    }
};

struct OfHalves {
    static constexpr size_t kBytes = kBlock * sizeof(uint16_t);
    static void widen(const char * row, int64_t i, Vec * out) {
        for (int j = 0; j < kParts; j++) out[j] = load_half((const uint16_t *) row + i * kBlock + j * kLanes);
    }
};

inline float single(uint16_t half) { return _cvtsh_ss(half); }

// 32 signed bytes times a factor, plus a number.
inline void scaled(__m256i bytes, float factor, Vec plus, Vec * out) {
    const Vec f = fill(factor);
#ifdef SHRUTI_AVX512
    out[0] = fma(f, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes))), plus);
    out[1] = fma(f, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1))), plus);
#else
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    out[0] = fma(f, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)), plus);
    out[1] = fma(f, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8))), plus);
    out[2] = fma(f, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)), plus);
    out[3] = fma(f, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8))), plus);
#endif
}

// 32 numbers of 4 bits as bytes: the low halves of 16 bytes, then the high ones.
inline __m256i nibbles(const uint8_t * from) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) from);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

// `to` in each byte whose bit is clear, 0 in the others.
inline __m256i where_clear(const uint8_t * bits, int8_t to) {
    uint32_t all;
    memcpy(&all, bits, sizeof all);
    const __m256i places = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i each = _mm256_set1_epi64x((long long) 0x8040201008040201);
    const __m256i found = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int) all), places), each);
    return _mm256_and_si256(_mm256_cmpeq_epi8(found, _mm256_setzero_si256()), _mm256_set1_epi8(to));
}

struct OfQ8_0 {
    static constexpr size_t kBytes = sizeof(block_q8_0);
    static void widen(const char * row, int64_t i, Vec * out) {
        const block_q8_0 & b = ((const block_q8_0 *) row)[i];
        scaled(_mm256_loadu_si256((const __m256i *) b.qs), single(b.d), zero(), out);
    }
};

struct OfQ5_0 {
    static constexpr size_t kBytes = sizeof(block_q5_0);
    static void widen(const char * row, int64_t i, Vec * out) {
        const block_q5_0 & b = ((const block_q5_0 *) row)[i];
        scaled(_mm256_sub_epi8(nibbles(b.qs), where_clear(b.qh, 16)), single(b.d), zero(), out);
    }
};

struct OfQ5_1 {
    static constexpr size_t kBytes = sizeof(block_q5_1);
    static void widen(const char * row, int64_t i, Vec * out) {
        const block_q5_1 & b = ((const block_q5_1 *) row)[i];
        const float        d = single(b.d);
        scaled(_mm256_sub_epi8(nibbles(b.qs), where_clear(b.qh, 16)), d, fill(single(b.m) + 16 * d), out);
    }
};

struct OfQ4_0 {
    static constexpr size_t kBytes = sizeof(block_q4_0);
    static void widen(const char * row, int64_t i, Vec * out) {
        const block_q4_0 & b = ((const block_q4_0 *) row)[i];
        scaled(_mm256_sub_epi8(nibbles(b.qs), _mm256_set1_epi8(8)), single(b.d), zero(), out);
    }
};

struct OfQ4_1 {
    static constexpr size_t kBytes = sizeof(block_q4_1);
    static void widen(const char * row, int64_t i, Vec * out) {
        const block_q4_1 & b = ((const block_q4_1 *) row)[i];
        scaled(nibbles(b.qs), single(b.d), fill(single(b.m)), out);
    }
};

// Where a product's numbers lie: rows of weights, packed tokens, and a row of results for each token.
struct Place {
    const char *  weights;
    size_t        weight_bytes;
    const float * tokens;
    int64_t       blocks;
    float *       out;
    size_t        out_stride;
};

// Multiplies R rows of weights by N tokens.
template <typename Type, int R, int N> void multiply_rows(const Place & place, int64_t row, int64_t token) {
    constexpr int kSums = (R * N + kLanes - 1) / kLanes * kLanes;
    Vec           sums[kSums];
    for (int i = 0; i < kSums; i++) sums[i] = zero();
    const char *  weights = place.weights + row * place.weight_bytes;
    const float * tokens = place.tokens + token * place.blocks * kBlock;
    for (int64_t i = 0; i < place.blocks; i++, tokens += N * kBlock) {
        Vec wide[R][kParts];
        for (int r = 0; r < R; r++) {
            Type::widen(weights + r * place.weight_bytes, i, wide[r]);
            _mm_prefetch(weights + (r + kAhead * R) * place.weight_bytes + i * Type::kBytes, _MM_HINT_T0);
        }
        for (int j = 0; j < kParts; j++) {
            for (int n = 0; n < N; n++) {
                const Vec x = load(tokens + n * kBlock + j * kLanes);
                for (int r = 0; r < R; r++) sums[n * R + r] = fma(wide[r][j], x, sums[n * R + r]);
            }
        }
    }
    alignas(64) float results[kSums];
    for (int i = 0; i < kSums; i += kLanes) store(results + i, sums_of(sums + i));
    for (int n = 0; n < N; n++)
        memcpy(place.out + (token + n) * place.out_stride + row, results + n * R, R * sizeof(float));
}

template <typename Type, int R> void multiply_tokens(const Place & place, int64_t row, int64_t count) {
    int64_t token = 0;
    for (; token + kTokens <= count; token += kTokens) multiply_rows<Type, R, kTokens>(place, row, token);
    switch (count - token) {
        case 1: return multiply_rows<Type, R, 1>(place, row, token);
        case 2: return multiply_rows<Type, R, 2>(place, row, token);
        case 3: return multiply_rows<Type, R, 3>(place, row, token);
        case 4: return multiply_rows<Type, R, 4>(place, row, token);
        case 5: return multiply_rows<Type, R, 5>(place, row, token);
        case 6: return multiply_rows<Type, R, 6>(place, row, token);
        case 7: return multiply_rows<Type, R, 7>(place, row, token);
    }
}

template <typename Type> void multiply(const Place & place, int64_t first, int64_t last, int64_t count) {
    constexpr int kMany = kLanes == 16 ? 2 : 1;
    int64_t       row = first;
    if (count <= 4)
        for (; row + 2 * kMany <= last; row += 2 * kMany) multiply_tokens<Type, 2 * kMany>(place, row, count);
    for (; row + kMany <= last; row += kMany) multiply_tokens<Type, kMany>(place, row, count);
    for (; row < last; row++) multiply_tokens<Type, 1>(place, row, count);
}

using Multiply = void (*)(const Place & place, int64_t first, int64_t last, int64_t count);

Multiply multiply_for(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return multiply<OfFloats>;
        case GGML_TYPE_F16: return multiply<OfHalves>;
        case GGML_TYPE_Q8_0: return multiply<OfQ8_0>;
        case GGML_TYPE_Q5_0: return multiply<OfQ5_0>;
        case GGML_TYPE_Q5_1: return multiply<OfQ5_1>;
        case GGML_TYPE_Q4_0: return multiply<OfQ4_0>;
        case GGML_TYPE_Q4_1: return multiply<OfQ4_1>;
        default: return nullptr;
    }
}

bool is_taken(const ggml_tensor * dst) {
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    return multiply_for(w->type) && w->ne[0] % kBlock == 0 && w->nb[0] == ggml_type_size(w->type) && x->type == GGML_TYPE_F32 &&
           x->nb[0] == sizeof(float) && x->ne[1] >= kLeastTokens && x->ne[1] <= kMostTokens && dst->nb[0] == sizeof(float) &&
           w->ne[2] == 1 && w->ne[3] == 1 && x->ne[2] == 1 && x->ne[3] == 1;
}

size_t packed_bytes(const ggml_tensor * x) { return (x->ne[0] * x->ne[1] * sizeof(float) + 63) / 64 * 64; }

// Packs tokens in the order in which they are read, `kTokens` together: [blocks][tokens][kBlock].
void pack_tokens(const ggml_tensor * x, float * out) {
    for (int64_t first = 0; first < x->ne[1]; first += kTokens) {
        const int64_t last = std::min<int64_t>(first + kTokens, x->ne[1]);
        for (int64_t i = 0; i < x->ne[0]; i += kBlock) {
            for (int64_t n = first; n < last; n++, out += kBlock)
                memcpy(out, (const float *) ((const char *) x->data + n * x->nb[1]) + i, kBlock * sizeof(float));
        }
    }
}

}  // namespace

size_t token_product_work_size(int threads, const ggml_tensor * node) {
    return is_taken(node) ? threads * packed_bytes(node->src[1]) + 64 : 0;
}

bool token_product(const ggml_compute_params * params, ggml_tensor * dst) {
    if (!is_taken(dst)) return false;
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    char *              memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + params->nth * packed_bytes(x) > (char *) params->wdata + params->wsize) return false;
    // Each thread packs all tokens for itself: they are few, and waiting for others takes longer.
    float * tokens = (float *) (memory + params->ith * packed_bytes(x));
    pack_tokens(x, tokens);
    // Threads write to lines of their own.
    const int64_t part = ((w->ne[1] + params->nth - 1) / params->nth + 15) / 16 * 16;
    const int64_t first = std::min(w->ne[1], part * params->ith), last = std::min(w->ne[1], first + part);
    const Place   place = {(const char *) w->data, w->nb[1], tokens, w->ne[0] / kBlock, (float *) dst->data, dst->nb[1] / sizeof(float)};
    multiply_for(w->type)(place, first, last, x->ne[1]);
    return true;
}

}  // namespace shruti

#endif
