// Products of matrices with many rows on both sides: the linear layers and convolutions of the encoder, and the keys
// and values of cross-attention. Weights of any type stay as they are in memory. A group of their rows is widened and
// packed when it is used; a window has 1500 rows to multiply it by, so this costs little.
#include "blocks.h"
#include "settings.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kLeastRows = 32;
// Values of a row that are packed at once. A panel of them stays in the first cache, and blocks of all types fit.
constexpr int64_t kDepth = 256 * kPerWord;
// Blocks of rows that each panel is multiplied by in turn: they stay in the second cache.
constexpr int64_t kBlocks = 16;
constexpr int64_t kMostGroup = 128;  // columns that are packed at once

struct Shape {
    int64_t depth, columns, rows;
    int64_t padded() const { return (depth + kPerVector - 1) / kPerVector * kPerVector; }
    int64_t blocks() const { return (rows + kRows - 1) / kRows; }
};

bool read_shape(const ggml_tensor * dst, Shape & shape) {
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    shape = {w->ne[0], w->ne[1], x->ne[1]};
    const bool is_weight_known =
        w->type == GGML_TYPE_F32 || w->type == GGML_TYPE_F16 || (ggml_is_quantized(w->type) && ggml_get_type_traits(w->type)->to_float);
    return dst->op == GGML_OP_MUL_MAT && is_weight_known && w->nb[0] == ggml_type_size(w->type) &&
           (x->type == GGML_TYPE_F32 || x->type == GGML_TYPE_F16) && x->nb[0] == ggml_type_size(x->type) &&
           w->ne[2] == 1 && w->ne[3] == 1 && x->ne[2] == 1 && x->ne[3] == 1 && dst->type == GGML_TYPE_F32 &&
           dst->nb[0] == sizeof(float) && shape.rows >= kLeastRows && shape.columns >= kLeastRows && shape.depth >= 16;
}

// Work memory: the packed left matrix, then for each thread a packed group and rows being widened.
struct Layout {
    size_t left, group, wide;
    explicit Layout(const Shape & shape)
        : left(shape.blocks() * kRows * shape.padded() / kPerWord * 4),
          group(kMostGroup * kDepth / kPerWord * 4),
          wide(kLanes * kDepth * 4) {}
    size_t of_thread() const { return group + wide; }
};

template <typename T> T * aligned(T * p) { return (T *) (((uintptr_t) p + 63) & ~(uintptr_t) 63); }

void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, uint32_t * out) {
    alignas(64) float last[kPerVector];
    for (int64_t r = 0; r < kRows; r++) {
        const int64_t row = block * kRows + r;
        const char *  from = (const char *) x->data + row * x->nb[1];
        for (int64_t k = 0; k < shape.padded(); k += kPerVector) {
            Words words;
            if (row < shape.rows && k + kPerVector <= shape.depth) {
                words = x->type == GGML_TYPE_F32 ? to_words((const float *) from + k) : halves_to_words((const uint16_t *) from + k);
            } else {
                for (int64_t i = 0; i < kPerVector; i++) {
                    last[i] = 0;
                    if (row >= shape.rows || k + i >= shape.depth) continue;
                    last[i] = x->type == GGML_TYPE_F32 ? ((const float *) from)[k + i] : GGML_FP16_TO_FP32(((const ggml_fp16_t *) from)[k + i]);
                }
                words = to_words(last);
            }
            store_left(out, r, k / kPerWord, words);
        }
    }
}

// Widens values `from` to `from + count` of a row of the weights, then zeros up to a whole vector.
void widen(const ggml_tensor * w, int64_t row, int64_t from, int64_t count, float * out) {
    const char * data = (const char *) w->data + row * w->nb[1] + ggml_row_size(w->type, from);
    if (w->type == GGML_TYPE_F32) {
        memcpy(out, data, count * sizeof(float));
    } else if (w->type == GGML_TYPE_F16) {
        int64_t i = 0;
        for (; i + kLanes <= count; i += kLanes) store(out + i, load_half((const uint16_t *) data + i));
        for (; i < count; i++) out[i] = GGML_FP16_TO_FP32(((const ggml_fp16_t *) data)[i]);
    } else {
        ggml_get_type_traits(w->type)->to_float(data, out, count);
    }
    for (int64_t i = count; i % kPerVector != 0; i++) out[i] = 0;
}

// A panel of kColumns rows of the weights; rows after the last one are zeros.
void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, float * wide, uint32_t * out) {
    const int64_t padded = (count + kPerVector - 1) / kPerVector * kPerVector;
    for (int c = 0; c < kColumns; c += kLanes) {
        for (int i = 0; i < kLanes; i++) {
            float * row = wide + i * kDepth;
            if (column + c + i < shape.columns)
                widen(w, column + c + i, from, count, row);
            else
                std::fill(row, row + padded, 0.0f);
        }
        for (int64_t k = 0; k < padded; k += kPerVector) {
            Words words[kLanes];
            for (int i = 0; i < kLanes; i++) words[i] = to_words(wide + i * kDepth + k);
            transpose(words, out + k / kPerWord * kColumns + c, kColumns);
        }
    }
}

struct Task {
    int64_t first_block, last_block;
    int64_t first_column, last_column;
};

// Multiplies a block; at the edges of the result by way of a block of its own.
void multiply(const Shape & shape, const uint32_t * left, const uint32_t * right, int64_t chunks, ggml_tensor * dst,
              int64_t row, int64_t column, const Finish & finish) {
    const size_t stride = dst->nb[1] / sizeof(float);
    float *      out = (float *) dst->data + row * stride + column;
    const int64_t rows = std::min<int64_t>(kRows, shape.rows - row), columns = std::min<int64_t>(kColumns, shape.columns - column);
    if (rows == kRows && columns == kColumns) {
        multiply_block(left, right, chunks, out, stride, finish);
        return;
    }
    alignas(64) float edge[kRows * kColumns], bias[kColumns] = {};
    Finish            inner = finish;
    if (finish.bias) {
        std::copy(finish.bias, finish.bias + columns, bias);
        inner.bias = bias;
    }
    std::fill(edge, edge + kRows * kColumns, 0.0f);
    if (finish.add) {
        inner.add = edge;
        inner.add_stride = kColumns;
        for (int64_t r = 0; r < rows; r++)
            std::copy(finish.add + r * finish.add_stride, finish.add + r * finish.add_stride + columns, edge + r * kColumns);
    }
    multiply_block(left, right, chunks, edge, kColumns, inner);
    for (int64_t r = 0; r < rows; r++) std::copy(edge + r * kColumns, edge + r * kColumns + columns, out + r * stride);
}

// What is added to a block of results: what earlier values of the rows gave, or a matrix, and at last the bias.
Finish finish_of(const Shape & shape, int64_t from, int64_t count, int64_t row, int64_t column, const ggml_tensor * dst,
                 const Epilogue & epilogue) {
    Finish              finish;
    const ggml_tensor * added = from > 0 ? dst : epilogue.add;
    if (added) {
        finish.add_stride = added->nb[1] / sizeof(float);
        finish.add = (const float *) added->data + row * finish.add_stride + column;
    }
    if (from + count == shape.depth) {
        finish.bias = epilogue.bias ? epilogue.bias + column : nullptr;
        finish.gelu = epilogue.gelu;
    }
    return finish;
}

void run(const Task & task, const Shape & shape, const ggml_tensor * w, const uint32_t * left, uint32_t * group, float * wide,
         ggml_tensor * dst, const Epilogue & epilogue) {
    const int64_t block_words = kRows * shape.padded() / kPerWord;
    for (int64_t from = 0; from < shape.depth; from += kDepth) {
        const int64_t count = std::min(kDepth, shape.depth - from);
        const int64_t words = (count + kPerVector - 1) / kPerVector * kLanes;
        for (int64_t c = task.first_column; c < task.last_column; c += kColumns)
            pack_panel(w, shape, c, from, count, wide, group + (c - task.first_column) * words);
        for (int64_t first = task.first_block; first < task.last_block; first += kBlocks) {
            const int64_t last = std::min(first + kBlocks, task.last_block);
            for (int64_t c = task.first_column; c < task.last_column; c += kColumns) {
                const uint32_t * panel = group + (c - task.first_column) * words;
                for (int64_t block = first; block < last; block++) {
                    const uint32_t * rows = left + block * block_words + from / kPerWord * kRows;
                    const Finish     finish = finish_of(shape, from, count, block * kRows, c, dst, epilogue);
                    multiply(shape, rows, panel, words / kChunk, dst, block * kRows, c, finish);
                }
            }
        }
    }
}

}  // namespace

size_t product_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    if (!read_shape(node, shape)) return 0;
    const Layout layout(shape);
    return layout.left + threads * layout.of_thread() + 128;
}

bool product(const ggml_compute_params * params, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue) {
    Shape shape;
    if (!read_shape(node, shape)) return false;
    const Layout layout(shape);
    char *       memory = aligned((char *) params->wdata);
    if (memory + layout.left + params->nth * layout.of_thread() > (char *) params->wdata + params->wsize) return false;
    uint32_t * left = (uint32_t *) memory;
    char *     own = memory + layout.left + params->ith * layout.of_thread();

    for (int64_t block = params->ith; block < shape.blocks(); block += params->nth)
        pack_left(node->src[1], shape, block, left + block * (kRows * shape.padded() / kPerWord));
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, 0);
    ggml_barrier(params->threadpool);

    // Wide groups read the left matrix less often; at least two tasks for each thread divide the work evenly.
    int64_t width = kMostGroup;
    while (width > kColumns && (shape.columns + width - 1) / width < 2 * params->nth) width /= 2;
    const int64_t groups = (shape.columns + width - 1) / width;
    const int64_t parts = params->nth == 1 ? 1 : std::max<int64_t>(1, std::min<int64_t>(shape.blocks(), 2 * params->nth / groups));
    begin_blocks();
    for (;;) {
        const int64_t task = ggml_threadpool_chunk_add(params->threadpool, 1);
        if (task >= groups * parts) break;
        const int64_t part = task % parts, group = task / parts;
        run({shape.blocks() * part / parts, shape.blocks() * (part + 1) / parts, group * width,
             std::min((group + 1) * width, shape.columns)},
            shape, node->src[0], left, (uint32_t *) own, (float *) (own + layout.group), dst, epilogue);
    }
    end_blocks();
    return true;
}

namespace {

bool is_plain(const ggml_tensor * t) { return t->type == GGML_TYPE_F32 && ggml_is_contiguous(t); }

bool is_gelu(const ggml_tensor * t) { return t->op == GGML_OP_UNARY && ggml_get_unary_op(t) == GGML_UNARY_OP_GELU; }

}  // namespace

int fused_product(const ggml_compute_params * params, const ggml_cgraph * graph, int first) {
    static const ggml_op with_add[] = {GGML_OP_MUL_MAT, GGML_OP_ADD, GGML_OP_ADD};
    static const ggml_op with_gelu[] = {GGML_OP_MUL_MAT, GGML_OP_ADD, GGML_OP_UNARY};
    if (!ggml_can_fuse(graph, first, with_add, 2)) return 0;
    ggml_tensor * const * nodes = graph->nodes + first;
    const ggml_tensor *   bias = nodes[1]->src[1];
    if (nodes[1]->src[0] != nodes[0] || !is_plain(bias) || bias->ne[0] != nodes[0]->ne[0] || ggml_nelements(bias) != bias->ne[0] ||
        !is_plain(nodes[1]))
        return 0;
    Epilogue epilogue;
    epilogue.bias = (const float *) bias->data;
    if (ggml_can_fuse(graph, first, with_add, 3) && nodes[2]->src[0] == nodes[1] && is_plain(nodes[2]->src[1]) &&
        ggml_are_same_shape(nodes[2]->src[1], nodes[0]) && is_plain(nodes[2])) {
        epilogue.add = nodes[2]->src[1];
        return product(params, nodes[0], nodes[2], epilogue) ? 2 : 0;
    }
    if (ggml_can_fuse(graph, first, with_gelu, 3) && is_gelu(nodes[2]) && is_plain(nodes[2])) {
        epilogue.gelu = true;
        return product(params, nodes[0], nodes[2], epilogue) ? 2 : 0;
    }
    return product(params, nodes[0], nodes[1], epilogue) ? 1 : 0;
}

bool gelu(const ggml_compute_params * params, ggml_tensor * dst) {
    const ggml_tensor * x = dst->src[0];
    if (!is_gelu(dst) || !is_plain(x) || !is_plain(dst)) return false;
    const int64_t count = ggml_nelements(x), part = ((count + params->nth - 1) / params->nth + kLanes - 1) / kLanes * kLanes;
    const int64_t last = std::min(count, part * (params->ith + 1));
    const float * from = (const float *) x->data;
    float *       to = (float *) dst->data;
    int64_t       i = part * params->ith;
    for (; i + kLanes <= last; i += kLanes) store(to + i, gelu_of(load(from + i)));
    if (i < last) {
        float rest[kLanes] = {};
        std::copy(from + i, from + last, rest);
        store(rest, gelu_of(load(rest)));
        std::copy(rest, rest + (last - i), to + i);
    }
    return true;
}

}  // namespace shruti

#endif
