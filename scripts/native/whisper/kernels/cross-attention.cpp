// Attention of a few tokens to a whole window while decoding: keys and values are read once, in the order of memory.
#include "shruti-kernels.h"
#include "settings.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

// More tokens at once are a prompt.
constexpr int64_t kMostTokens = 16;
constexpr int64_t kBlockRows = 64;
constexpr int64_t kMostWidth = 64;

// What a thread knows of one query: largest score (times log2 e), sum of weights, weighted sum of the values.
struct Partial {
    float largest;
    float sum;
    float padding[14];
    float values[kMostWidth];
};

struct Shape {
    int64_t width, tokens, rows, heads, windows;
    int64_t queries() const { return tokens * heads * windows; }
};

bool read_shape(const ggml_tensor * dst, Shape & shape) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    float options[3];
    memcpy(options, dst->op_params, sizeof options);
    const float max_bias = options[1], soft_cap = options[2];
    shape = {q->ne[0], q->ne[1], k->ne[1], q->ne[2], q->ne[3]};
    return dst->src[3] == nullptr && dst->src[4] == nullptr && max_bias == 0 && soft_cap == 0 &&
           (shape.width == 64 || shape.width == 32) && v->ne[0] == shape.width && shape.tokens <= kMostTokens &&
           shape.rows % kLanes == 0 && shape.rows >= 512 && k->ne[2] == shape.heads && v->ne[2] == shape.heads &&
           k->ne[3] == shape.windows && v->ne[3] == shape.windows && q->type == GGML_TYPE_F32 &&
           k->type == GGML_TYPE_F16 && v->type == GGML_TYPE_F16 && q->nb[0] == 4 && k->nb[0] == 2 && v->nb[0] == 2;
}

template <typename T> const T * at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const T *) ((const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

inline void prefetch(const void * p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *) p + i, _MM_HINT_T0);
}

// Scores of a block of rows for one query, whose scale has log2 e in it. Returns the largest.
template <int W> float score_rows(const float * query, const char * keys, size_t stride, int64_t rows, float * scores) {
    Vec q[W / kLanes];
    for (int d = 0; d < W / kLanes; d++) q[d] = load(query + d * kLanes);
    Vec largest = fill(-INFINITY);
    for (int64_t i = 0; i < rows; i += kLanes) {
        Vec products[kLanes];
        for (int r = 0; r < kLanes; r++) {
            const uint16_t * key = (const uint16_t *) (keys + (i + r) * stride);
            prefetch((const char *) key + kLanes * stride, W * 2);
            Vec x = mul(q[0], load_half(key));
            for (int d = 1; d < W / kLanes; d++) x = fma(q[d], load_half(key + d * kLanes), x);
            products[r] = x;
        }
        const Vec s = sums_of(products);
        store(scores + i, s);
        largest = max(largest, s);
    }
    return max_of(largest);
}

// Adds a block of values, weighted, to what is known of one query.
template <int W>
void add_rows(Partial & known, float largest, float * scores, const char * values, size_t stride, int64_t rows) {
    Vec sums[W / kLanes], odd[W / kLanes];
    if (largest > known.largest) {
        const float shrink = exp2f(known.largest - largest);
        known.sum *= shrink;
        known.largest = largest;
        for (int d = 0; d < W / kLanes; d++) sums[d] = mul(fill(shrink), load(known.values + d * kLanes));
    } else {
        for (int d = 0; d < W / kLanes; d++) sums[d] = load(known.values + d * kLanes);
    }
    Vec total = zero();
    for (int64_t i = 0; i < rows; i += kLanes) {
        const Vec weights = exp2_of(sub(load(scores + i), fill(known.largest)));
        total = add(total, weights);
        store(scores + i, weights);
    }
    known.sum += sum_of(total);
    for (int d = 0; d < W / kLanes; d++) odd[d] = zero();
    for (int64_t i = 0; i < rows; i += 2) {
        const uint16_t * first = (const uint16_t *) (values + i * stride);
        const uint16_t * second = (const uint16_t *) (values + (i + 1) * stride);
        prefetch((const char *) first + 8 * stride, W * 2);
        prefetch((const char *) second + 8 * stride, W * 2);
        const Vec a = fill(scores[i]), b = fill(scores[i + 1]);
        for (int d = 0; d < W / kLanes; d++) {
            sums[d] = fma(a, load_half(first + d * kLanes), sums[d]);
            odd[d] = fma(b, load_half(second + d * kLanes), odd[d]);
        }
    }
    for (int d = 0; d < W / kLanes; d++) store(known.values + d * kLanes, add(sums[d], odd[d]));
}

// A thread's share of the rows, for all heads and tokens.
template <int W> void attend(const ggml_tensor * dst, const Shape & shape, int64_t first, int64_t last, Partial * partials) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    float scale;
    memcpy(&scale, dst->op_params, sizeof scale);
    scale *= kLog2E;
    float query[W], scores[kBlockRows];
    for (int64_t i = 0; i < shape.queries(); i++) {
        partials[i].largest = -INFINITY;
        partials[i].sum = 0;
        std::fill(partials[i].values, partials[i].values + W, 0.0f);
    }
    for (int64_t window = 0; window < shape.windows; window++) {
        for (int64_t row = first; row < last; row += kBlockRows) {
            const int64_t rows = std::min(kBlockRows, last - row);
            for (int64_t head = 0; head < shape.heads; head++) {
                const char * keys = at<char>(k, row, head, window);
                const char * values = at<char>(v, row, head, window);
                for (int64_t token = 0; token < shape.tokens; token++) {
                    const float * from = at<float>(q, token, head, window);
                    for (int d = 0; d < W; d++) query[d] = from[d] * scale;
                    Partial &   known = partials[(window * shape.tokens + token) * shape.heads + head];
                    const float largest = score_rows<W>(query, keys, k->nb[1], rows, scores);
                    add_rows<W>(known, largest, scores, values, v->nb[1], rows);
                }
            }
        }
    }
}

void combine(ggml_tensor * dst, const Shape & shape, const Partial * partials, int threads, int64_t query) {
    float largest = -INFINITY, sum = 0;
    for (int t = 0; t < threads; t++) largest = std::max(largest, partials[t * shape.queries() + query].largest);
    float * out = (float *) ((char *) dst->data + query * dst->nb[1]);
    std::fill(out, out + shape.width, 0.0f);
    for (int t = 0; t < threads; t++) {
        const Partial & part = partials[t * shape.queries() + query];
        if (part.sum == 0) continue;
        const float share = exp2f(part.largest - largest);
        sum += share * part.sum;
        for (int64_t d = 0; d < shape.width; d++) out[d] += share * part.values[d];
    }
    for (int64_t d = 0; d < shape.width; d++) out[d] /= sum;
}

}  // namespace

size_t cross_attention_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    return read_shape(node, shape) ? sizeof(Partial) * shape.queries() * threads + 64 : 0;
}

bool cross_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    Shape shape;
    if (!read_shape(dst, shape)) return false;
    Partial *     partials = (Partial *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    const int64_t groups = shape.rows / kLanes;
    const int64_t first = groups * params->ith / params->nth * kLanes;
    const int64_t last = groups * (params->ith + 1) / params->nth * kLanes;
    Partial *     own = partials + params->ith * shape.queries();
    if (shape.width == 64)
        attend<64>(dst, shape, first, last, own);
    else
        attend<32>(dst, shape, first, last, own);
    ggml_barrier(params->threadpool);
    for (int64_t i = params->ith; i < shape.queries(); i += params->nth) combine(dst, shape, partials, params->nth, i);
    return true;
}

}  // namespace shruti

#endif
