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
// Parts of a window's rows, which threads share. There are as many with any number of threads, so that the order of sums,
// and with it each result, does not depend on it.
constexpr int64_t kParts = 8;

// What a part of the rows adds to one query: largest score (times log2 e), sum of weights, weighted sum of the values.
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
        for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i);
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

// Replaces the scores of a query by their exponentials.
void exponentiate(Partial & known, float * scores, int64_t rows) {
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

// A part of the rows of a window, for all heads and tokens. `scores`: a row for each query of the window.
template <typename Row, int W>
void attend(const ggml_tensor * dst, const Shape & shape, int64_t window, int64_t part, const float * queries, float * scores,
            Partial * partials) {
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    const int64_t       groups = shape.rows / kLanes;
    const int64_t       first = groups * part / kParts * kLanes, rows = groups * (part + 1) / kParts * kLanes - first;

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

void scale_queries(const ggml_tensor * dst, const Shape & shape, int64_t window, float * queries) {
    float scale;
    memcpy(&scale, dst->op_params, sizeof scale);
    for (int64_t token = 0; token < shape.tokens; token++)
        for (int64_t head = 0; head < shape.heads; head++)
            for (int64_t d = 0; d < shape.width; d++)
                queries[(token * shape.heads + head) * shape.width + d] =
                    at<float>(dst->src[0], token, head, window)[d] * (scale * kLog2E);
}

void combine(ggml_tensor * dst, const Shape & shape, const Partial * partials, int64_t query) {
    float largest = -INFINITY, sum = 0;
    for (int64_t p = 0; p < kParts; p++) largest = std::max(largest, partials[p * shape.queries() + query].largest);
    float * out = (float *) ((char *) dst->data + query * dst->nb[1]);
    std::fill(out, out + shape.width, 0.0f);
    for (int64_t p = 0; p < kParts; p++) {
        const Partial & part = partials[p * shape.queries() + query];
        const float     share = exp2f(part.largest - largest);
        sum += share * part.sum;
        for (int64_t d = 0; d < shape.width; d++) out[d] += share * part.values[d];
    }
    for (int64_t d = 0; d < shape.width; d++) out[d] /= sum;
}

// Work memory: what the parts add to all queries, and for each thread queries and scores of a part of one window.
struct Layout {
    size_t partials, queries, scores;
    explicit Layout(const Shape & s)
        : partials(kParts * sizeof(Partial) * s.queries()),
          queries(s.tokens * s.heads * s.width * sizeof(float)),
          scores(s.tokens * s.heads * (s.rows / kParts + kLanes) * sizeof(float)) {}
    size_t of_thread() const { return (queries + scores + 63) / 64 * 64; }
    size_t of_all(int threads) const { return partials + of_thread() * threads; }
};

}  // namespace

size_t cross_attention_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    return read_shape(node, shape) ? Layout(shape).of_all(threads) + 64 : 0;
}

bool cross_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    Shape shape;
    if (!read_shape(dst, shape)) return false;
    const Layout layout(shape);
    char *       memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + layout.of_all(params->nth) > (char *) params->wdata + params->wsize) return false;
    Partial *  partials = (Partial *) memory;
    float *    queries = (float *) (memory + layout.partials + params->ith * layout.of_thread());
    float *    scores = queries + layout.queries / sizeof(float);
    const bool is_wide = shape.width == 64, has_bytes = dst->src[1]->type == GGML_TYPE_Q8_0;
    const auto attend_with = has_bytes ? (is_wide ? attend<RowOfBytes, 64> : attend<RowOfBytes, 32>)
                                       : (is_wide ? attend<RowOfHalves, 64> : attend<RowOfHalves, 32>);
    for (int64_t window = 0; window < shape.windows; window++) {
        scale_queries(dst, shape, window, queries);
        for (int64_t part = params->ith; part < kParts; part += params->nth) {
            Partial * of_part = partials + part * shape.queries() + window * shape.tokens * shape.heads;
            attend_with(dst, shape, window, part, queries, scores, of_part);
        }
    }
    ggml_barrier(params->threadpool);
    for (int64_t i = params->ith; i < shape.queries(); i += params->nth) combine(dst, shape, partials, i);
    return true;
}

}  // namespace shruti

#endif
