// Attention of a few tokens to a whole window while decoding: keys and values are read once, in the order of memory.
#include "shruti-kernels.h"
#include "cached-rows.h"
#include "settings.h"

#include "ggml-cpu-impl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

// More tokens at once are a prompt.
constexpr int64_t kMostTokens = 16;
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
           k->ne[3] == shape.windows && v->ne[3] == shape.windows && q->type == GGML_TYPE_F32 && q->nb[0] == 4 &&
           are_cached_rows(k, v);
}

template <typename T> const T * at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const T *) ((const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

// kLanes rows of all heads lie behind each other in memory. While one of the heads is computed, a part of the next rows is
// fetched: the fetches are in the order of memory, and far enough ahead of it.
struct Ahead {
    const char * next;
    size_t       bytes;
    Ahead(const char * rows, size_t stride, int64_t heads) : next(rows + kLanes * stride), bytes(kLanes * stride / heads) {}
    void fetch() {
        for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(next + i, _MM_HINT_T0);
        next += bytes;
    }
};

// Scores of kLanes rows for one query, whose scale has log2 e in it.
template <typename Row, int W> Vec score_rows(const float * query, const char * keys, size_t stride) {
    Vec products[kLanes];
    SHRUTI_UNROLL
    for (int r = 0; r < kLanes; r++) products[r] = Row::template multiply<W>(query, keys + r * stride);
    return sums_of(products);
}

// Adds kLanes rows of values, weighted.
template <typename Row, int W> void add_rows(float * out, const float * weights, const char * values, size_t stride) {
    Vec even[W / kLanes], odd[W / kLanes];
    SHRUTI_UNROLL
    for (int d = 0; d < W / kLanes; d++) {
        even[d] = load(out + d * kLanes);
        odd[d] = zero();
    }
    SHRUTI_UNROLL
    for (int r = 0; r < kLanes; r += 2) {
        Row::template add<W>(fill(weights[r]), values + r * stride, even);
        Row::template add<W>(fill(weights[r + 1]), values + (r + 1) * stride, odd);
    }
    SHRUTI_UNROLL
    for (int d = 0; d < W / kLanes; d++) store(out + d * kLanes, add(even[d], odd[d]));
}

// Replaces the scores of a query by their exponentials. A thread may have no rows.
void exponentiate(Partial & known, float * scores, int64_t rows) {
    known.largest = -INFINITY;
    known.sum = 0;
    if (rows == 0) return;
    Vec largest = load(scores), sum = zero();
    for (int64_t i = kLanes; i < rows; i += kLanes) largest = max(largest, load(scores + i));
    known.largest = max_of(largest);
    for (int64_t i = 0; i < rows; i += kLanes) {
        const Vec weights = exp2_or_zero(sub(load(scores + i), fill(known.largest)));
        sum = add(sum, weights);
        store(scores + i, weights);
    }
    known.sum = sum_of(sum);
}

// The thread's share of the rows of a window, for all heads and tokens. `scores`: a row for each query of the window.
template <typename Row, int W>
void attend(const ggml_tensor * dst, const Shape & shape, int64_t window, int64_t first, int64_t last, float * queries,
            float * scores, Partial * partials) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    const int64_t       rows = last - first;
    float               scale;
    memcpy(&scale, dst->op_params, sizeof scale);
    for (int64_t token = 0; token < shape.tokens; token++)
        for (int64_t head = 0; head < shape.heads; head++)
            for (int64_t d = 0; d < W; d++)
                queries[(token * shape.heads + head) * W + d] = at<float>(q, token, head, window)[d] * (scale * kLog2E);

    for (int64_t row = 0; row < rows; row += kLanes) {
        Ahead ahead(at<char>(k, first + row, 0, window), k->nb[1], shape.heads);
        for (int64_t head = 0; head < shape.heads; head++) {
            ahead.fetch();
            for (int64_t i = head; i < shape.tokens * shape.heads; i += shape.heads)
                store(scores + i * rows + row, score_rows<Row, W>(queries + i * W, at<char>(k, first + row, head, window), k->nb[1]));
        }
    }
    for (int64_t i = 0; i < shape.tokens * shape.heads; i++) {
        std::fill(partials[i].values, partials[i].values + W, 0.0f);
        exponentiate(partials[i], scores + i * rows, rows);
    }
    for (int64_t row = 0; row < rows; row += kLanes) {
        Ahead ahead(at<char>(v, first + row, 0, window), v->nb[1], shape.heads);
        for (int64_t head = 0; head < shape.heads; head++) {
            ahead.fetch();
            for (int64_t i = head; i < shape.tokens * shape.heads; i += shape.heads)
                add_rows<Row, W>(partials[i].values, scores + i * rows + row, at<char>(v, first + row, head, window), v->nb[1]);
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

// Work memory: for each thread what it knows of all queries, and queries and scores of one window.
struct Layout {
    size_t partials, queries, scores;
    Layout(const Shape & s, int threads)
        : partials(sizeof(Partial) * s.queries()),
          queries(s.tokens * s.heads * s.width * sizeof(float)),
          scores(s.tokens * s.heads * (s.rows / threads + kLanes) * sizeof(float)) {}
    size_t of_thread() const { return (partials + queries + scores + 63) / 64 * 64; }
};

}  // namespace

size_t cross_attention_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    return read_shape(node, shape) ? Layout(shape, threads).of_thread() * threads + 64 : 0;
}

bool cross_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    Shape shape;
    if (!read_shape(dst, shape)) return false;
    const Layout  layout(shape, params->nth);
    char *        memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + layout.of_thread() * params->nth > (char *) params->wdata + params->wsize) return false;
    // Partials of all threads come first.
    Partial *     partials = (Partial *) memory;
    Partial *     own = partials + params->ith * shape.queries();
    float *       queries = (float *) (memory + layout.partials * params->nth + params->ith * (layout.queries + layout.scores));
    float *       scores = queries + layout.queries / sizeof(float);
    const int64_t groups = shape.rows / kLanes;
    const int64_t first = groups * params->ith / params->nth * kLanes;
    const int64_t last = groups * (params->ith + 1) / params->nth * kLanes;
    const bool    is_wide = shape.width == 64, has_bytes = dst->src[1]->type == GGML_TYPE_Q8_0;
    const auto    attend_with = has_bytes ? (is_wide ? attend<RowOfBytes, 64> : attend<RowOfBytes, 32>)
                                          : (is_wide ? attend<RowOfHalves, 64> : attend<RowOfHalves, 32>);
    for (int64_t window = 0; window < shape.windows; window++) {
        Partial * of_window = own + window * shape.tokens * shape.heads;
        attend_with(dst, shape, window, first, last, queries, scores, of_window);
    }
    ggml_barrier(params->threadpool);
    for (int64_t i = params->ith; i < shape.queries(); i += params->nth) combine(dst, shape, partials, params->nth, i);
    return true;
}

}  // namespace shruti

#endif
