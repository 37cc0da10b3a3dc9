// Attention of a whole window to itself, or of a prompt to a window. Scores of a few blocks of queries are kept whole,
// so that each is exponentiated once; both products are those of blocks.h.
#include "blocks.h"
#include "cached-rows.h"
#include "settings.h"

#include "ggml-cpu-impl.h"

#include <algorithm>
#include <cmath>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

// Blocks of queries that read keys and values together.
constexpr int64_t kBlocks = kRows >= 32 ? 2 : 4;
constexpr int64_t kQueries = kBlocks * kRows;
// Rows of the values that are added at once: they stay in the first cache.
constexpr int64_t kDepth = 256;

struct Shape {
    int64_t width, queries, rows, heads, windows;
    int64_t tasks_of_head() const { return (queries + kQueries - 1) / kQueries; }
    int64_t key_words() const { return rows * width / kPerWord; }
    int64_t value_panels() const { return (width + kColumns - 1) / kColumns; }
    int64_t value_words() const { return value_panels() * kColumns * rows / kPerWord; }
};

bool read_shape(const ggml_tensor * dst, Shape & shape) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    float options[3];
    memcpy(options, dst->op_params, sizeof options);
    shape = {q->ne[0], q->ne[1], k->ne[1], q->ne[2], q->ne[3]};
    return dst->src[3] == nullptr && dst->src[4] == nullptr && options[1] == 0 && options[2] == 0 &&
           (shape.width == 64 || shape.width == 32) && v->ne[0] == shape.width && shape.queries > 16 && shape.rows % 64 == 0 &&
           k->ne[2] == shape.heads && v->ne[2] == shape.heads && k->ne[3] == shape.windows && v->ne[3] == shape.windows &&
           q->type == GGML_TYPE_F32 && q->nb[0] == 4 && are_cached_rows(k, v);
}

// Work memory: packed keys and values of all heads, then for each thread queries, scores and weights.
struct Layout {
    size_t keys, values, queries, scores, weights;
    explicit Layout(const Shape & s)
        : keys(s.windows * s.heads * s.key_words() * 4),
          values(s.windows * s.heads * s.value_words() * 4),
          queries(kQueries * s.width * 4),
          scores(kQueries * s.rows * 4),
          weights(kQueries * s.rows / kPerWord * 4) {}
    size_t of_thread() const { return queries + scores + weights; }
};

const char * at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

// kPerVector numbers of a row as words.
template <typename Row> Words words_at(const char * row, int64_t d) {
#ifdef SHRUTI_BF16
    return (__m512i) _mm512_cvtne2ps_pbh(Row::load_at(row, d + kLanes), Row::load_at(row, d));
#elif defined(SHRUTI_AVX512)
    return _mm512_castps_si512(Row::load_at(row, d));
#else
    return _mm256_castps_si256(Row::load_at(row, d));
#endif
}

// Keys as columns: [rows / kColumns][width / kPerWord][kColumns].
template <typename Row>
void pack_keys(const ggml_tensor * k, const Shape & shape, int64_t head, int64_t window, uint32_t * out) {
    for (int64_t row = 0; row < shape.rows; row += kLanes) {
        uint32_t * panel = out + row / kColumns * kColumns * (shape.width / kPerWord) + row % kColumns;
        for (int64_t d = 0; d < shape.width; d += kPerVector) {
            Words words[kLanes];
            for (int i = 0; i < kLanes; i++) words[i] = words_at<Row>(at(k, row + i, head, window), d);
            transpose(words, panel + d / kPerWord * kColumns, kColumns);
        }
    }
}

// Values as they are: [width / kColumns][rows / kPerWord][kColumns].
template <typename Row>
void pack_values(const ggml_tensor * v, const Shape & shape, int64_t head, int64_t window, uint32_t * out) {
    for (int64_t row = 0; row < shape.rows; row += kPerWord) {
        for (int64_t d = 0; d < shape.width; d += kLanes) {
            uint32_t * to = out + (d / kColumns * (shape.rows / kPerWord) + row / kPerWord) * kColumns + d % kColumns;
            const Vec  first = Row::load_at(at(v, row, head, window), d);
#ifdef SHRUTI_BF16
            const Vec     second = Row::load_at(at(v, row + 1, head, window), d);
            const __m512i low = _mm512_cvtepu16_epi32((__m256i) _mm512_cvtneps_pbh(first));
            const __m512i high = _mm512_cvtepu16_epi32((__m256i) _mm512_cvtneps_pbh(second));
            store_words(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#else
            store((float *) to, first);
#endif
        }
    }
}

void pack_queries(const ggml_tensor * dst, const Shape & shape, int64_t first, int64_t head, int64_t window, uint32_t * out) {
    const ggml_tensor * q = dst->src[0];
    float               scale;
    memcpy(&scale, dst->op_params, sizeof scale);
    scale *= kLog2E;
    alignas(64) float scaled[64];
    for (int64_t i = 0; i < kQueries; i++) {
        const float * from = (const float *) at(q, std::min(first + i, shape.queries - 1), head, window);
        for (int64_t d = 0; d < shape.width; d++) scaled[d] = from[d] * scale;
        uint32_t * block = out + i / kRows * kRows * (shape.width / kPerWord);
        for (int64_t d = 0; d < shape.width; d += kPerVector) store_left(block, i % kRows, d / kPerWord, to_words(scaled + d));
    }
}

// Exponentiates the scores of a query and packs them as a row of a block. Returns their sum.
float weigh(const float * scores, const Shape & shape, int64_t row, uint32_t * block) {
    Vec largest[4], sum[2] = {zero(), zero()};
    for (int i = 0; i < 4; i++) largest[i] = load(scores + i * kLanes);
    for (int64_t k = 4 * kLanes; k < shape.rows; k += 4 * kLanes)
        for (int i = 0; i < 4; i++) largest[i] = max(largest[i], load(scores + k + i * kLanes));
    const Vec most = fill(max_of(max(max(largest[0], largest[1]), max(largest[2], largest[3]))));
    for (int64_t k = 0; k < shape.rows; k += kPerVector) {
        alignas(64) float weights[kPerVector];
        for (int i = 0; i < kPerWord; i++) {
            const Vec x = exp2_of(sub(load(scores + k + i * kLanes), most));
            sum[i] = add(sum[i], x);
            store(weights + i * kLanes, x);
        }
        store_left(block, row, k / kPerWord, to_words(weights));
    }
    return sum_of(add(sum[0], sum[1]));
}

void attend(ggml_tensor * dst, const Shape & shape, int64_t first, int64_t head, int64_t window, const uint32_t * keys,
            const uint32_t * values, char * memory) {
    const Layout layout(shape);
    uint32_t *   queries = (uint32_t *) memory;
    float *      scores = (float *) (memory + layout.queries);
    uint32_t *   weights = (uint32_t *) (memory + layout.queries + layout.scores);
    const int64_t query_words = kRows * (shape.width / kPerWord), weight_words = kRows * (shape.rows / kPerWord);
    const int64_t blocks = std::min(kBlocks, (shape.queries - first + kRows - 1) / kRows);

    pack_queries(dst, shape, first, head, window, queries);
    for (int64_t row = 0; row < shape.rows; row += kColumns)
        for (int64_t b = 0; b < blocks; b++)
            multiply_block(queries + b * query_words, keys + row * (shape.width / kPerWord), shape.width / kPerChunk,
                           scores + b * kRows * shape.rows + row, shape.rows, {});
    float sums[kQueries];
    for (int64_t i = 0; i < blocks * kRows; i++)
        sums[i] = weigh(scores + i * shape.rows, shape, i % kRows, weights + i / kRows * weight_words);

    alignas(64) float out[kQueries * 2 * kColumns > kQueries * 64 ? kQueries * 2 * kColumns : kQueries * 64];
    const int64_t     stride = shape.value_panels() * kColumns;
    for (int64_t from = 0; from < shape.rows; from += kDepth) {
        const int64_t count = std::min(kDepth, shape.rows - from);
        for (int64_t panel = 0; panel < shape.value_panels(); panel++)
            for (int64_t b = 0; b < blocks; b++) {
                float * to = out + b * kRows * stride + panel * kColumns;
                Finish  finish;
                if (from > 0) finish.add = to;
                finish.add_stride = stride;
                multiply_block(weights + b * weight_words + from / kPerWord * kRows,
                               values + (panel * shape.rows + from) / kPerWord * kColumns, count / kPerChunk, to, stride, finish);
            }
    }
    for (int64_t i = 0; i < std::min(kQueries, shape.queries - first); i++) {
        float * to = (float *) ((char *) dst->data + ((window * shape.queries + first + i) * shape.heads + head) * dst->nb[1]);
        const Vec share = fill(1 / sums[i]);
        for (int64_t d = 0; d < shape.width; d += kLanes) store(to + d, mul(share, load(out + i * stride + d)));
    }
}

}  // namespace

size_t encoder_attention_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    if (!read_shape(node, shape)) return 0;
    const Layout layout(shape);
    return layout.keys + layout.values + threads * layout.of_thread() + 128;
}

bool encoder_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    Shape shape;
    if (!read_shape(dst, shape)) return false;
    const Layout layout(shape);
    char *       memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + layout.keys + layout.values + params->nth * layout.of_thread() > (char *) params->wdata + params->wsize) return false;
    uint32_t *    keys = (uint32_t *) memory;
    uint32_t *    values = (uint32_t *) (memory + layout.keys);
    char *        own = memory + layout.keys + layout.values + params->ith * layout.of_thread();
    const int64_t heads = shape.heads * shape.windows;
    const bool    has_bytes = dst->src[1]->type == GGML_TYPE_Q8_0;
    const auto    pack_keys_with = has_bytes ? pack_keys<RowOfBytes> : pack_keys<RowOfHalves>;
    const auto    pack_values_with = has_bytes ? pack_values<RowOfBytes> : pack_values<RowOfHalves>;
    for (int64_t i = params->ith; i < 2 * heads; i += params->nth) {
        const int64_t h = i / 2, head = h % shape.heads, window = h / shape.heads;
        if (i % 2 == 0)
            pack_keys_with(dst->src[1], shape, head, window, keys + h * shape.key_words());
        else
            pack_values_with(dst->src[2], shape, head, window, values + h * shape.value_words());
    }
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, 0);
    ggml_barrier(params->threadpool);
    begin_blocks();
    for (;;) {
        const int64_t task = ggml_threadpool_chunk_add(params->threadpool, 1);
        if (task >= heads * shape.tasks_of_head()) break;
        const int64_t h = task / shape.tasks_of_head();
        attend(dst, shape, task % shape.tasks_of_head() * kQueries, h % shape.heads, h / shape.heads, keys + h * shape.key_words(),
               values + h * shape.value_words(), own);
    }
    end_blocks();
    return true;
}

}  // namespace shruti

#endif
