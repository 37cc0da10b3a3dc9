// Products with 1 to 31 tokens: steps of one chunk or of several, beams, and short prompts. Weights are read from memory
// once for all tokens. Inputs are rounded as ggml does for its own product with one token, and each sum is made in the same
// order for any number of tokens and rows. So the results of a token do not depend, in any bit, on how many others are
// computed with it. With f16 weights, and with q8_0 where it is multiplied row by row, the order is ggml's, and the results
// are those of whisper.cpp, bit by bit. Other quantized weights have an order of their own.
#include "settings.h"
#include "super-blocks.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <utility>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kMostTokens = 31;
// Bytes of weights that some tokens are multiplied by before the next ones: they stay in the first two caches.
constexpr int64_t kTileBytes = 16 << 10;
// Weights are fetched this many bytes ahead.
constexpr size_t kAhead = 8 << 10;

struct Product {
    const char * weights;
    size_t       row_bytes;
    int64_t      depth;
    const char * tokens;  // packed by the functions of the type of weights
    int64_t      count;   // of tokens
    float *      out;     // a row for each token
    size_t       out_stride;
};

// Some tokens and rows of a product.
struct Part {
    int64_t first_row, last_row;
    int64_t token, count;
};

inline void fetch_ahead(const char * from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + kAhead + i);
}

// Weights of f16. Inputs are rounded to f16; each sum has four parts.
struct Halves {
    static constexpr int     kParts = 4;
    static constexpr int64_t kStep = kParts * kLanes;
    static constexpr int64_t kTokens = 4;
    // Rows that are multiplied at once by several tokens.
    static constexpr int64_t kRows = kLanes == 16 ? 4 : 2;

    static bool   takes(int64_t depth) { return depth % kStep == 0; }
    static size_t packed_bytes(int64_t depth, int64_t count) { return depth * count * sizeof(float); }

    static void pack(const float * from, int64_t token, int64_t depth, int64_t, char * to) {
        float * out = (float *) to + token * depth;
        for (int64_t i = 0; i < depth; i += kLanes) store(out + i, rounded_to_halves(load(from + i)));
    }

    static void multiply(const Product & product, const Part & part) {
        int64_t row = part.first_row;
        // With AVX-512 the first tokens wait for memory, which is fastest in its own order, row by row.
        if (part.count > 1 && (kLanes == 8 || part.token > 0))
            for (; row + kRows <= part.last_row; row += kRows) multiply_rows(product, row, part);
        for (; row < part.last_row; row++) {
            switch (part.count) {
                case 1: multiply_row<1>(product, row, part.token); break;
                case 2: multiply_row<2>(product, row, part.token); break;
                case 3: multiply_row<3>(product, row, part.token); break;
                case 4: multiply_row<4>(product, row, part.token); break;
            }
        }
    }

   private:
    template <int N> static void multiply_row(const Product & product, int64_t row, int64_t token) {
        Vec sums[N][kParts];
        SHRUTI_UNROLL
        for (int n = 0; n < N; n++) {
            SHRUTI_UNROLL
            for (int j = 0; j < kParts; j++) sums[n][j] = zero();
        }
        const uint16_t * weights = (const uint16_t *) (product.weights + row * product.row_bytes);
        const float *    tokens = (const float *) product.tokens + token * product.depth;
        for (int64_t i = 0; i < product.depth; i += kStep) {
            fetch_ahead((const char *) (weights + i), kStep * sizeof(uint16_t));
            SHRUTI_UNROLL
            for (int j = 0; j < kParts; j++) {
                const Vec wide = load_half(weights + i + j * kLanes);
                SHRUTI_UNROLL
                for (int n = 0; n < N; n++)
                    sums[n][j] = fma(wide, load(tokens + n * product.depth + i + j * kLanes), sums[n][j]);
            }
        }
        SHRUTI_UNROLL
        for (int n = 0; n < N; n++) {
            const Vec sum = add(add(sums[n][0], sums[n][2]), add(sums[n][1], sums[n][3]));
            product.out[(token + n) * product.out_stride + row] = total_of(sum);
        }
    }

    static void multiply_rows(const Product & product, int64_t row, const Part & part) {
        switch (part.count) {
            case 2: return multiply_rows<2>(product, row, part.token);
            case 3: return multiply_rows<3>(product, row, part.token);
            case 4: return multiply_rows<4>(product, row, part.token);
        }
    }

    // The sums of a part of the rows' numbers are made before those of the next part, so that those of several rows fit into
    // the registers. The rows stay in the first cache meanwhile.
    template <int N> static void multiply_rows(const Product & product, int64_t row, int64_t token) {
        Vec              parts[kParts][N][kRows];
        const uint16_t * weights = (const uint16_t *) (product.weights + row * product.row_bytes);
        const size_t     stride = product.row_bytes / sizeof(uint16_t);
        const float *    tokens = (const float *) product.tokens + token * product.depth;
        const char *     next = (const char *) weights;
        SHRUTI_UNROLL
        for (int part = 0; part < kParts; part++) {
            Vec sums[N][kRows];
            SHRUTI_UNROLL
            for (int n = 0; n < N; n++) {
                SHRUTI_UNROLL
                for (int r = 0; r < kRows; r++) sums[n][r] = zero();
            }
            for (int64_t i = part * kLanes; i < product.depth; i += kStep) {
                fetch_ahead(next, kRows * kLanes * sizeof(uint16_t));
                next += kRows * kLanes * sizeof(uint16_t);
                Vec wide[kRows];
                SHRUTI_UNROLL
                for (int r = 0; r < kRows; r++) wide[r] = load_half(weights + r * stride + i);
                SHRUTI_UNROLL
                for (int n = 0; n < N; n++) {
                    const Vec values = load(tokens + n * product.depth + i);
                    SHRUTI_UNROLL
                    for (int r = 0; r < kRows; r++) sums[n][r] = fma(wide[r], values, sums[n][r]);
                }
            }
            SHRUTI_UNROLL
            for (int n = 0; n < N; n++) {
                SHRUTI_UNROLL
                for (int r = 0; r < kRows; r++) parts[part][n][r] = sums[n][r];
            }
        }
        SHRUTI_UNROLL
        for (int n = 0; n < N; n++) {
            Vec sums[4];
            SHRUTI_UNROLL
            for (int r = 0; r < 4; r++)
                sums[r] = r < kRows ? add(add(parts[0][n][r % kRows], parts[2][n][r % kRows]), add(parts[1][n][r % kRows], parts[3][n][r % kRows]))
                                    : zero();
            alignas(16) float totals[4];
            store_four(totals, totals_of(sums));
            memcpy(product.out + (token + n) * product.out_stride + row, totals, kRows * sizeof(float));
        }
    }
};

// Quantized weights, several rows side by side. Inputs are rounded to 8 bits. Weights are unpacked once for all tokens of a part.
template <typename Type> struct Quantized {
    static constexpr int     kParts = Type::kParts;
    static constexpr int64_t kBlock = 32;
    static constexpr int64_t kTokens = 12;
    static constexpr int64_t kRows = kLanes;
    // Where many blocks of 32 share a factor, ggml keeps it as a float; otherwise in f16.
    static constexpr bool kInHalves = Type::kRounded == kBlock;

    // Of each part: `start`, the products of the offset of the weights, taken away; `weighted`, the factor times the sum of all
    // values.
    struct TokenBlock {
        int32_t values[8];  // four bytes each
        int32_t start[kParts];
        float   factor, weighted[kParts];
    };

    static bool   takes(int64_t depth) { return depth % Type::kRounded == 0; }
    static size_t packed_bytes(int64_t depth, int64_t count) { return depth / kBlock * count * sizeof(TokenBlock); }

    // The blocks of all tokens side by side.
    static void pack(const float * from, int64_t token, int64_t depth, int64_t count, char * to) {
        TokenBlock * out = (TokenBlock *) to + token;
        for (int64_t i = 0; i < depth; i += Type::kRounded) {
            const ByteScale scale(largest_of(from + i, Type::kRounded));
            for (int64_t j = 0; j < Type::kRounded; j += kBlock, out += count) pack_block(rounded_block(from + i + j, scale), *out);
        }
    }

    static void multiply(const Product & product, const Part & part) {
        const Function multiply_rows = function_for(part.count, std::make_index_sequence<kTokens>());
        int64_t        row = part.first_row;
        for (; row + kRows <= part.last_row; row += kRows) multiply_rows(product, row, product.row_bytes, part.token);
        // The last rows one by one: each in all lanes.
        for (; row < part.last_row; row++) multiply_rows(product, row, 0, part.token);
    }

   private:
    using Function = void (*)(const Product & product, int64_t row, size_t row_bytes, int64_t token);

    static void pack_block(const RoundedBlock & block, TokenBlock & out) {
        int sums[kParts];
        if constexpr (kParts == 1) {
            sums[0] = sum_of_bytes(block.values);
        } else {
            sums_of_halves(block.values, sums);
        }
        store_bytes(out.values, block.values);
        // ggml keeps these numbers in f16.
        out.factor = kInHalves ? rounded_to_half(block.factor) : block.factor;
        for (int p = 0; p < kParts; p++) {
            const float weighted = block.factor * (float) sums[p];
            out.start[p] = -Type::kOffset * sums[p];
            out.weighted[p] = kInHalves ? rounded_to_half(weighted) : weighted;
        }
    }

    template <size_t... I> static Function function_for(int64_t tokens, std::index_sequence<I...>) {
        static constexpr Function functions[] = {multiply_rows<I + 1>...};
        return functions[tokens - 1];
    }

    // Multiplies N tokens by as many rows as there are lanes, `row_bytes` apart, or by a single one if that is 0.
    template <int N> static void multiply_rows(const Product & product, int64_t row, size_t row_bytes, int64_t token) {
        const char *       weights = product.weights + row * product.row_bytes;
        const char *       ahead = weights + kRows * product.row_bytes;  // the next rows are fetched meanwhile
        const size_t       block_bytes = kRows * sizeof(typename Type::Block) * kBlock / Type::kRounded;
        const TokenBlock * tokens = (const TokenBlock *) product.tokens + token;
        SideBySide<Type>   rows(weights, row_bytes);
        Vec                sums[N];
        SHRUTI_UNROLL_MANY
        for (int n = 0; n < N; n++) sums[n] = zero();
        for (int64_t i = 0; i < product.depth / kBlock; i++, tokens += product.count) {
            fetch_ahead(ahead + i * block_bytes, block_bytes);
            Blocks<kParts> blocks;
            rows.next(blocks);
            SHRUTI_UNROLL_MANY
            for (int n = 0; n < N; n++) {
                SHRUTI_UNROLL_MANY
                for (int p = 0; p < kParts; p++) sums[n] = add_part(sums[n], blocks, tokens[n], p);
            }
        }
        SHRUTI_UNROLL_MANY
        for (int n = 0; n < N; n++) {
            float * out = product.out + (token + n) * product.out_stride + row;
            if (row_bytes != 0)
                store(out, sums[n]);
            else
                *out = first_of(sums[n]);
        }
    }

    static SHRUTI_INLINE Vec add_part(Vec sum, const Blocks<kParts> & blocks, const TokenBlock & token, int part) {
        constexpr int kCount = 8 / kParts;
        const Ints    start = fill_ints(Type::kOffset ? token.start[part] : 0);
        const Ints    whole = add_products<kCount, Type::kMost>(start, blocks.numbers + kCount * part, token.values + kCount * part);
        sum = fma(mul(blocks.scales[part], fill(token.factor)), to_floats(whole), sum);
        if constexpr (Type::kHasLeast) sum = fma(blocks.least[part], fill(token.weighted[part]), sum);
        return sum;
    }
};

#ifndef SHRUTI_VNNI

// Weights of q8_0 where no instruction multiplies bytes of such size: row by row. Inputs are rounded as those of Quantized.
// Sums are made in the order of ggml's.
struct RowByRow {
    static constexpr int64_t kBlock = 32;
    static constexpr int64_t kTokens = 4;
    // Rows that are multiplied at once.
    static constexpr int64_t kRows = kLanes == 16 ? 4 : 2;

    // Packed tokens, side by side: their blocks of 32, then the factors of these.
    struct Layout {
        int64_t blocks, count;
        int64_t   padded() const { return (count + kTokens - 1) / kTokens * kTokens; }
        size_t    bytes() const { return count * blocks * kBlock + blocks * padded() * sizeof(float); }
        __m256i * values(const char * packed) const { return (__m256i *) packed; }
        float *   factors(const char * packed) const { return (float *) (values(packed) + count * blocks); }
    };

    static bool   takes(int64_t depth) { return depth % kBlock == 0; }
    static size_t packed_bytes(int64_t depth, int64_t count) { return Layout{depth / kBlock, count}.bytes(); }

    static void pack(const float * from, int64_t token, int64_t depth, int64_t count, char * to) {
        const Layout layout = {depth / kBlock, count};
        for (int64_t i = 0; i < layout.blocks; i++, from += kBlock) {
            float *            factors = layout.factors(to) + i * layout.padded();
            const RoundedBlock block = rounded_block(from);
            layout.values(to)[i * count + token] = block.values;
            factors[token] = rounded_to_half(block.factor);
            // Numbers that are not used, so that none of them is one of the very small numbers that take long.
            for (int64_t n = count; n < layout.padded(); n++) factors[n] = 0;
        }
    }

    static void multiply(const Product & product, const Part & part) {
        int64_t row = part.first_row;
        for (; row + kRows <= part.last_row; row += kRows) multiply_rows<kRows>(product, row, part);
        for (; row < part.last_row; row++) multiply_rows<1>(product, row, part);
    }

   private:
    template <int R> static void multiply_rows(const Product & product, int64_t row, const Part & part) {
        switch (part.count) {
            case 1: return multiply_rows<R, 1>(product, row, part.token);
            case 2: return multiply_rows<R, 2>(product, row, part.token);
            case 3: return multiply_rows<R, 3>(product, row, part.token);
            case 4: return multiply_rows<R, 4>(product, row, part.token);
        }
    }

    template <int R, int N> static void multiply_rows(const Product & product, int64_t row, int64_t token) {
        const Layout    layout = {product.depth / kBlock, product.count};
        const __m256i * tokens = layout.values(product.tokens) + token;
        const float *   factors = layout.factors(product.tokens) + token;
        const char *    weights = product.weights + row * product.row_bytes;
        __m256          sums[R][N];
        SHRUTI_UNROLL
        for (int r = 0; r < R; r++) {
            SHRUTI_UNROLL
            for (int n = 0; n < N; n++) sums[r][n] = _mm256_setzero_ps();
        }
        for (int64_t i = 0; i < layout.blocks; i++, tokens += layout.count, factors += layout.padded()) {
            fetch_ahead(weights + i * R * sizeof(block_q8_0), R * sizeof(block_q8_0));
            __m256i           bytes[R];
            alignas(16) float scales[R][kTokens];
            SHRUTI_UNROLL
            for (int r = 0; r < R; r++) {
                const block_q8_0 & block = ((const block_q8_0 *) (weights + r * product.row_bytes))[i];
                bytes[r] = _mm256_loadu_si256((const __m256i *) block.qs);
                _mm_store_ps(scales[r], _mm_mul_ps(_mm_set1_ps(single(block.d)), _mm_loadu_ps(factors)));
            }
            SHRUTI_UNROLL
            for (int n = 0; n < N; n++) {
                const __m256i values = tokens[n];
                SHRUTI_UNROLL
                for (int r = 0; r < R; r++)
                    sums[r][n] = _mm256_fmadd_ps(_mm256_set1_ps(scales[r][n]), _mm256_cvtepi32_ps(sums_of_four(bytes[r], values)), sums[r][n]);
            }
        }
        SHRUTI_UNROLL
        for (int r = 0; r < R; r++) {
            SHRUTI_UNROLL
            for (int n = 0; n < N; n++) product.out[(token + n) * product.out_stride + row + r] = total(sums[r][n]);
        }
    }

    // Sums of four products each.
    static __m256i sums_of_four(__m256i a, __m256i b) {
        return _mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)));
    }

    static float total(__m256 x) {
        const __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
    }
};

#endif

struct Functions {
    bool (*takes)(int64_t depth);
    size_t (*packed_bytes)(int64_t depth, int64_t count);
    void (*pack)(const float * from, int64_t token, int64_t depth, int64_t count, char * to);
    void (*multiply)(const Product & product, const Part & part);
    int64_t tokens, rows;  // at once
};

template <typename Kind> const Functions * functions_of() {
    static const Functions functions = {Kind::takes, Kind::packed_bytes, Kind::pack, Kind::multiply, Kind::kTokens, Kind::kRows};
    return &functions;
}

const Functions * functions_for(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: return functions_of<Halves>();
#ifdef SHRUTI_VNNI
        case GGML_TYPE_Q8_0: return functions_of<Quantized<OfQ8_0>>();
#else
        case GGML_TYPE_Q8_0: return functions_of<RowByRow>();
#endif
        case GGML_TYPE_Q5_0: return functions_of<Quantized<OfQ5_0>>();
        case GGML_TYPE_Q5_1: return functions_of<Quantized<OfQ5_1>>();
        case GGML_TYPE_Q4_0: return functions_of<Quantized<OfQ4_0>>();
        case GGML_TYPE_Q4_1: return functions_of<Quantized<OfQ4_1>>();
        case GGML_TYPE_Q2_K: return functions_of<Quantized<OfQ2_K>>();
        case GGML_TYPE_Q3_K: return functions_of<Quantized<OfQ3_K>>();
        case GGML_TYPE_Q4_K: return functions_of<Quantized<OfQ4_K>>();
        case GGML_TYPE_Q5_K: return functions_of<Quantized<OfQ5_K>>();
        case GGML_TYPE_Q6_K: return functions_of<Quantized<OfQ6_K>>();
        default: return nullptr;
    }
}

// The functions for a product, or nullptr for one that is left to ggml.
const Functions * functions_of(const ggml_tensor * dst) {
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    const Functions *   functions = functions_for(w->type);
    const bool          is_plain = w->nb[0] == ggml_type_size(w->type) && w->ne[2] == 1 && w->ne[3] == 1 &&
                          x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float) && x->ne[2] == 1 && x->ne[3] == 1 &&
                          dst->type == GGML_TYPE_F32 && dst->nb[0] == sizeof(float);
    return functions && is_plain && x->ne[1] >= 1 && x->ne[1] <= kMostTokens && functions->takes(w->ne[0]) ? functions : nullptr;
}

size_t packed_bytes(const Functions * functions, const ggml_tensor * x) {
    return (functions->packed_bytes(x->ne[0], x->ne[1]) + 63) / 64 * 64;
}

}  // namespace

size_t token_product_work_size(int threads, const ggml_tensor * node) {
    const Functions * functions = functions_of(node);
    return functions ? threads * packed_bytes(functions, node->src[1]) + 64 : 0;
}

bool token_product(const ggml_compute_params * params, ggml_tensor * dst) {
    const Functions * functions = functions_of(dst);
    if (!functions) return false;
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    const size_t        bytes = packed_bytes(functions, x);
    char *              memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + params->nth * bytes > (char *) params->wdata + params->wsize) return false;
    // Each thread packs all tokens for itself: they are few, and waiting for others takes longer.
    char *        tokens = memory + params->ith * bytes;
    const int64_t depth = w->ne[0], count = x->ne[1];
    for (int64_t token = 0; token < count; token++)
        functions->pack((const float *) ((const char *) x->data + token * x->nb[1]), token, depth, count, tokens);

    const Product product = {(const char *) w->data, w->nb[1], depth, tokens, count, (float *) dst->data, dst->nb[1] / sizeof(float)};
    // Threads write to lines of their own.
    const int64_t part = ((w->ne[1] + params->nth - 1) / params->nth + 15) / 16 * 16;
    const int64_t first = std::min(w->ne[1], part * params->ith), last = std::min(w->ne[1], first + part);
    const int64_t rows = std::max<int64_t>(4, functions->rows), tile = std::max<int64_t>(1, kTileBytes / w->nb[1] / rows) * rows;
    for (int64_t row = first; row < last; row += tile) {
        for (int64_t token = 0; token < count; token += functions->tokens)
            functions->multiply(product, {row, std::min(row + tile, last), token, std::min(functions->tokens, count - token)});
    }
    return true;
}

}  // namespace shruti

#endif
