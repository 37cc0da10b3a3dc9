// Products of matrices with many rows on both sides: the linear layers and convolutions of the encoder, and the keys
// and values of cross-attention. Weights of any type stay as they are in memory. A group of their rows is packed when it
// is used; a window has 1500 rows to multiply it by, so this costs little.
#include "byte-products.h"
#include "float-products.h"
#include "settings.h"
#include "short-products.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kLeastRows = 32;
constexpr int64_t kLeastDepth = 32;
// Blocks of rows that each panel is multiplied by in turn: they stay in the second cache.
constexpr int64_t kBlocks = 16;
constexpr int64_t kMostGroup = 128;  // columns that are packed at once

bool read_shape(const ggml_tensor * dst, Shape & shape) {
    const ggml_tensor * w = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    shape = {w->ne[0], w->ne[1], x->ne[1]};
    const bool is_weight_known =
        w->type == GGML_TYPE_F32 || w->type == GGML_TYPE_F16 || (ggml_is_quantized(w->type) && ggml_get_type_traits(w->type)->to_float);
    return dst->op == GGML_OP_MUL_MAT && is_weight_known && w->nb[0] == ggml_type_size(w->type) &&
           (x->type == GGML_TYPE_F32 || x->type == GGML_TYPE_F16) && x->nb[0] == ggml_type_size(x->type) &&
           w->ne[2] == 1 && w->ne[3] == 1 && x->ne[2] == 1 && x->ne[3] == 1 && dst->type == GGML_TYPE_F32 &&
           dst->nb[0] == sizeof(float) && shape.rows >= kLeastRows && shape.columns >= kLeastRows && shape.depth >= kLeastDepth;
}

template <typename T> T * aligned(T * p) { return (T *) (((uintptr_t) p + 63) & ~(uintptr_t) 63); }

template <typename Kind> int64_t blocks_of(const Shape & shape) { return (shape.rows + Kind::kRows - 1) / Kind::kRows; }

// The results of a product, packed as the left matrix of the product that follows, and a place for those of a few blocks.
template <typename Kind> struct Follower {
    char *  left = nullptr;
    float * results = nullptr;  // kBlocks blocks of rows, kMostGroup columns
    bool    is_there() const { return left != nullptr; }
};

// Whether the results of a product may be packed for another one: those of the first layer of a feed-forward network are four
// times as many as its input, and are needed for the second layer only.
bool may_be_followed(const Shape & shape) { return shape.columns == 4 * shape.depth && shape.columns % kMostGroup == 0; }

// Work memory: the packed left matrix and that of a product that follows; then for each thread a packed group, rows being
// widened, and results that will be packed.
template <typename Kind> struct Layout {
    size_t left, following, group, wide, results;
    Layout(const Shape & shape, bool is_followed)
        : left(whole_lines(blocks_of<Kind>(shape) * Kind::left_bytes(shape.depth))),
          following(is_followed ? whole_lines(blocks_of<Kind>(shape) * Kind::left_bytes(shape.columns)) : 0),
          group(kMostGroup / Kind::kColumns * Kind::panel_bytes(Kind::kDepth)),
          wide(Kind::wide_bytes()),
          results(is_followed ? kBlocks * Kind::kRows * kMostGroup * sizeof(float) : 0) {}
    size_t of_thread() const { return group + wide + results; }
    size_t of_all(int threads) const { return left + following + threads * of_thread(); }

   private:
    static size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
};

struct Task {
    int64_t first_block, last_block;
    int64_t first_column, last_column;
};

// Values of all rows and columns from `from` on.
struct Stretch {
    int64_t from, count;
};

// Multiplies a block; at the edges of the result by way of a block of its own.
template <typename Kind>
void multiply(const Shape & shape, const char * left, const Stretch & stretch, const char * panel, float * out, size_t stride, int64_t row,
              int64_t column, const Finish & finish) {
    constexpr int64_t kRows = Kind::kRows, kColumns = Kind::kColumns;
    const int64_t     rows = std::min(kRows, shape.rows - row), columns = std::min(kColumns, shape.columns - column);
    if (rows == kRows && columns == kColumns) {
        Kind::multiply(left, stretch.from, stretch.count, panel, out, stride, finish);
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
    Kind::multiply(left, stretch.from, stretch.count, panel, edge, kColumns, inner);
    for (int64_t r = 0; r < rows; r++) std::copy(edge + r * kColumns, edge + r * kColumns + columns, out + r * stride);
}

// A product, and what is added to it. `dst`: where its results go, or those of earlier values of its rows.
struct Product {
    Shape               shape;
    const ggml_tensor * weights;
    ggml_tensor *       dst;
    Epilogue            epilogue;
};

// What is added to a block of results: what earlier values of the rows gave, or a matrix, and at last the bias.
Finish finish_of(const Product & product, const Stretch & stretch, int64_t row, int64_t column) {
    const Epilogue &    epilogue = product.epilogue;
    Finish              finish;
    finish.factor = epilogue.factor;
    const ggml_tensor * added = stretch.from > 0 ? product.dst : epilogue.add;
    if (added) {
        finish.add_stride = added->nb[1] / sizeof(float);
        finish.add = (const float *) added->data + row * finish.add_stride + column;
    }
    if (stretch.from + stretch.count == product.shape.depth) {
        finish.bias = epilogue.bias ? epilogue.bias + column : nullptr;
        finish.activation = epilogue.activation;
    }
    return finish;
}

// Packs the results of some blocks and of a group of columns as a part of the next left matrix.
template <typename Kind> void pack_results(const Shape & shape, const Task & task, const Follower<Kind> & follower) {
    for (int64_t block = task.first_block; block < task.last_block; block++) {
        const float * rows[Kind::kRows];
        for (int64_t r = 0; r < Kind::kRows; r++) {
            // Rows after the last one: numbers that are not used.
            const int64_t row = std::min(block * Kind::kRows + r, shape.rows - 1) - task.first_block * Kind::kRows;
            rows[r] = follower.results + row * kMostGroup;
        }
        Kind::pack_rows(rows, task.first_column, task.last_column - task.first_column, follower.left + block * Kind::left_bytes(shape.columns));
    }
}

// Rows of weights that are packed next. They come into the cache while others are multiplied, a row with each block.
struct Ahead {
    const char * at;
    size_t       row_bytes, stride;
    int64_t      rows;

    void fetch_row() {
        if (rows <= 0) return;
        for (size_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
        at += stride;
        rows--;
    }
};

// What follows a stretch: the next one of the same columns, or the first one of the next columns.
template <typename Kind> Ahead weights_ahead(const Product & product, const Task & task, const Stretch & stretch) {
    const ggml_tensor * w = product.weights;
    const int64_t       behind = stretch.from + stretch.count, width = task.last_column - task.first_column;
    const bool          is_last = behind == product.shape.depth;
    const int64_t       column = is_last ? task.last_column : task.first_column, from = is_last ? 0 : behind;
    return {(const char *) w->data + column * w->nb[1] + ggml_row_size(w->type, from),
            ggml_row_size(w->type, std::min(Kind::kDepth, product.shape.depth - from)), w->nb[1], std::min(width, product.shape.columns - column)};
}

template <typename Kind> void run(const Task & task, const Product & product, const char * left, char * group, char * wide, const Follower<Kind> & follower) {
    const Shape & shape = product.shape;
    for (int64_t from = 0; from < shape.depth; from += Kind::kDepth) {
        const Stretch stretch = {from, std::min(Kind::kDepth, shape.depth - from)};
        const size_t  panel_bytes = Kind::panel_bytes(stretch.count);
        const bool    is_packed = follower.is_there() && from + stretch.count == shape.depth;
        const size_t  stride = is_packed ? kMostGroup : product.dst->nb[1] / sizeof(float);
        for (int64_t c = task.first_column; c < task.last_column; c += Kind::kColumns)
            Kind::pack_panel(product.weights, shape, c, from, stretch.count, wide, group + (c - task.first_column) / Kind::kColumns * panel_bytes);
        Ahead weights = weights_ahead<Kind>(product, task, stretch);
        for (int64_t first = task.first_block; first < task.last_block; first += kBlocks) {
            const int64_t last = std::min(first + kBlocks, task.last_block);
            for (int64_t c = task.first_column; c < task.last_column; c += Kind::kColumns) {
                const char * panel = group + (c - task.first_column) / Kind::kColumns * panel_bytes;
                for (int64_t block = first; block < last; block++) {
                    const int64_t row = block * Kind::kRows;
                    weights.fetch_row();
                    float * out = is_packed ? follower.results + (row - first * Kind::kRows) * stride + (c - task.first_column)
                                            : (float *) product.dst->data + row * stride + c;
                    multiply<Kind>(shape, left + block * Kind::left_bytes(shape.depth), stretch, panel, out, stride, row, c,
                                   finish_of(product, stretch, row, c));
                }
            }
            if (is_packed) pack_results<Kind>(shape, {first, last, task.first_column, task.last_column}, follower);
        }
    }
}

// Multiplies a packed left matrix. Called by all threads, after it is packed.
template <typename Kind>
void run_all(const ggml_compute_params * params, const Product & product, const char * left, char * own, const Follower<Kind> & follower) {
    const Shape &      shape = product.shape;
    const Layout<Kind> layout(shape, follower.is_there());
    const int64_t      blocks = blocks_of<Kind>(shape);
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, 0);
    ggml_barrier(params->threadpool);

    // Wide groups read the left matrix less often; at least two tasks for each thread divide the work evenly. Results are packed in
    // whole blocks.
    const int64_t least = std::max<int64_t>(follower.is_there() ? Kind::kLeastPacked : 32, Kind::kColumns);
    int64_t       width = kMostGroup;
    while (width > least && (shape.columns + width - 1) / width < 2 * params->nth) width /= 2;
    const int64_t groups = (shape.columns + width - 1) / width;
    const int64_t parts = params->nth == 1 ? 1 : std::max<int64_t>(1, std::min<int64_t>(blocks, 2 * params->nth / groups));
    begin_blocks();
    for (;;) {
        const int64_t task = ggml_threadpool_chunk_add(params->threadpool, 1);
        if (task >= groups * parts) break;
        const int64_t part = task % parts, group = task / parts;
        run<Kind>({blocks * part / parts, blocks * (part + 1) / parts, group * width, std::min((group + 1) * width, shape.columns)}, product, left,
                  own, own + layout.group, follower);
    }
    end_blocks();
}

template <typename Kind> void pack_left(const ggml_compute_params * params, const ggml_tensor * x, const Shape & shape, char * left) {
    for (int64_t block = params->ith; block < blocks_of<Kind>(shape); block += params->nth)
        Kind::pack_left(x, shape, block, left + block * Kind::left_bytes(shape.depth));
}

template <typename Kind> size_t work_size(int threads, const Shape & shape) {
    return Layout<Kind>(shape, may_be_followed(shape)).of_all(threads) + 128;
}

// Computes a product of `x`, and one of its results where `next` is given; then `product.dst` is not complete.
template <typename Kind> bool compute(const ggml_compute_params * params, const ggml_tensor * x, const Product & product, const Product * next) {
    const Layout<Kind> layout(product.shape, next != nullptr);
    char *             left = aligned((char *) params->wdata);
    if (left + layout.of_all(params->nth) > (char *) params->wdata + params->wsize) return false;
    char *         own = left + layout.left + layout.following + params->ith * layout.of_thread();
    Follower<Kind> follower;
    if (next) {
        follower.left = left + layout.left;
        follower.results = (float *) (own + layout.group + layout.wide);
    }
    pack_left<Kind>(params, x, product.shape, left);
    run_all<Kind>(params, product, left, own, follower);
    if (next) {
        // All tasks have been taken, and all results are packed.
        ggml_barrier(params->threadpool);
        run_all<Kind>(params, *next, follower.left, own, {});
    }
    return true;
}

struct Functions {
    size_t (*work_size)(int threads, const Shape & shape);
    bool (*compute)(const ggml_compute_params * params, const ggml_tensor * x, const Product & product, const Product * next);
};

template <typename Kind> constexpr Functions kFunctions = {work_size<Kind>, compute<Kind>};

// The products of floats. NULL: ggml's own code is better.
const Functions * functions_for_floats(const Shape & shape, bool is_precise) {
#ifdef SHRUTI_SHORTS
    if (Shorts::takes(shape)) return &kFunctions<Shorts>;
#elif defined(SHRUTI_BF16)
    // Whole numbers of 16 bits are ten times as exact as bf16 numbers, which take a tenth less time.
    if (is_precise) return Shorts::takes(shape) ? &kFunctions<Shorts> : nullptr;
#endif
    return &kFunctions<Floats>;
}

const Functions * functions_for(const Shape & shape, const ggml_tensor * node) {
    const ggml_tensor * weights = node->src[0];
    const ggml_tensor * x = node->src[1];
#ifdef SHRUTI_BYTES
    if (Bytes::takes(shape, x) && ggml_is_quantized(weights->type)) return &kFunctions<Bytes>;
#elif !defined(SHRUTI_VNNI)
    if (FewBits<OfQ5_0>::takes(shape, x)) {
        switch (weights->type) {
            case GGML_TYPE_Q5_0: return &kFunctions<FewBits<OfQ5_0>>;
            case GGML_TYPE_Q5_1: return &kFunctions<FewBits<OfQ5_1>>;
            case GGML_TYPE_Q4_0: return &kFunctions<FewBits<OfQ4_0>>;
            case GGML_TYPE_Q4_1: return &kFunctions<FewBits<OfQ4_1>>;
            case GGML_TYPE_Q4_K: return &kFunctions<FewBits<OfQ4_K>>;
            case GGML_TYPE_Q5_K: return &kFunctions<FewBits<OfQ5_K>>;
            default: break;
        }
    }
#endif
#ifdef SHRUTI_AMX
    // Tiles of bf16 numbers are many times as fast.
    return functions_for_floats(shape, false);
#else
    return functions_for_floats(shape, ggml_get_op_params_i32(node, 0) == GGML_PREC_F32);
#endif
}

// One pair of matrices of a product with several, such as the heads of attention, as a product of its own.
struct Pair {
    ggml_tensor weights, x, dst;
    Pair(const ggml_tensor * node, int64_t i2, int64_t i3) : weights(*node->src[0]), x(*node->src[1]), dst(*node) {
        const int64_t shared2 = x.ne[2] / weights.ne[2], shared3 = x.ne[3] / weights.ne[3];
        take(weights, i2 / shared2, i3 / shared3);
        take(x, i2, i3);
        take(dst, i2, i3);
        dst.src[0] = &weights;
        dst.src[1] = &x;
    }
    Pair(const Pair &) = delete;

   private:
    static void take(ggml_tensor & t, int64_t i2, int64_t i3) {
        t.data = (char *) t.data + i2 * t.nb[2] + i3 * t.nb[3];
        t.ne[2] = t.ne[3] = 1;
    }
};

// Several pairs of floats: scores of attention, which are exponentiated and need more bits than bf16 numbers have.
bool has_pairs(const ggml_tensor * node) {
    const ggml_tensor * x = node->src[1];
    return node->op == GGML_OP_MUL_MAT && node->src[0]->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && x->ne[2] * x->ne[3] > 1 &&
           node->src[0]->ne[2] > 0 && node->src[0]->ne[3] > 0;
}

bool products_of_pairs(const ggml_compute_params * params, const ggml_tensor * node) {
    for (int64_t i3 = 0; i3 < node->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < node->ne[2]; i2++) {
            Pair  pair(node, i2, i3);
            Shape shape;
            // The first pair decides for all of them, on all threads.
            const Functions * functions = read_shape(&pair.dst, shape) ? functions_for_floats(shape, true) : nullptr;
            if (!functions || !functions->compute(params, &pair.x, {shape, &pair.weights, &pair.dst, {}}, nullptr)) return false;
            // The next one uses the same memory.
            ggml_barrier(params->threadpool);
        }
    return true;
}

}  // namespace

size_t product_work_size(int threads, const ggml_tensor * node) {
    Shape             shape;
    const Functions * functions = nullptr;
    if (has_pairs(node)) {
        const Pair first(node, 0, 0);
        if (read_shape(&first.dst, shape)) functions = functions_for_floats(shape, true);
    } else if (read_shape(node, shape)) {
        functions = functions_for(shape, node);
    }
    return functions ? functions->work_size(threads, shape) : 0;
}

bool product(const ggml_compute_params * params, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue) {
    if (has_pairs(node)) return products_of_pairs(params, node);
    Shape             shape;
    const Functions * functions = read_shape(node, shape) ? functions_for(shape, node) : nullptr;
    return functions && functions->compute(params, node->src[1], {shape, node->src[0], dst, epilogue}, nullptr);
}

namespace {

bool is_plain(const ggml_tensor * t) { return t->type == GGML_TYPE_F32 && ggml_is_contiguous(t); }

Activation activation_of(const ggml_tensor * t) {
    if (t->op != GGML_OP_UNARY || !is_plain(t)) return Activation::kNone;
    switch (ggml_get_unary_op(t)) {
        case GGML_UNARY_OP_GELU: return Activation::kGelu;
        case GGML_UNARY_OP_SILU: return Activation::kSilu;
        case GGML_UNARY_OP_SIGMOID: return Activation::kSigmoid;
        case GGML_UNARY_OP_RELU: return Activation::kRelu;
        default: return Activation::kNone;
    }
}

// A product with what follows it: a factor, a bias, and an activation or a matrix that is added.
struct Chain {
    ggml_tensor * node = nullptr;
    ggml_tensor * dst = nullptr;
    Epilogue      epilogue;
    int           length = 0;  // nodes; 0: there is no product
};

constexpr int kLongestChain = 4;

// Returns the node after those of a chain, where it is of an operation, computes with their result, and nothing else does.
ggml_tensor * next_of(const ggml_cgraph * graph, int first, const Chain & chain, ggml_op op) {
    ggml_op ops[kLongestChain];
    if (chain.length == kLongestChain || first + chain.length >= graph->n_nodes) return nullptr;
    for (int i = 0; i < chain.length; i++) ops[i] = graph->nodes[first + i]->op;
    ops[chain.length] = op;
    ggml_tensor * next = graph->nodes[first + chain.length];
    return ggml_can_fuse(graph, first, ops, chain.length + 1) && next->src[0] == chain.dst && is_plain(next) ? next : nullptr;
}

void follow(Chain & chain, ggml_tensor * next) {
    chain.dst = next;
    chain.length++;
}

void follow_bias(const ggml_cgraph * graph, int first, Chain & chain) {
    ggml_tensor * next = next_of(graph, first, chain, GGML_OP_ADD);
    if (!next || !is_plain(next->src[1]) || next->src[1]->ne[0] != next->ne[0] || ggml_nelements(next->src[1]) != next->ne[0]) return;
    chain.epilogue.bias = (const float *) next->src[1]->data;
    follow(chain, next);
}

void follow_factor(const ggml_cgraph * graph, int first, Chain & chain) {
    ggml_tensor * next = next_of(graph, first, chain, GGML_OP_SCALE);
    float         factor_and_more[2];  // and what is added to all numbers
    if (!next) return;
    memcpy(factor_and_more, next->op_params, sizeof factor_and_more);
    if (factor_and_more[1] != 0) return;
    chain.epilogue.factor = factor_and_more[0];
    follow(chain, next);
}

bool follow_matrix(const ggml_cgraph * graph, int first, Chain & chain) {
    ggml_tensor * next = next_of(graph, first, chain, GGML_OP_ADD);
    if (!next || !is_plain(next->src[1]) || !ggml_are_same_shape(next->src[1], chain.node)) return false;
    chain.epilogue.add = next->src[1];
    follow(chain, next);
    return true;
}

void follow_activation(const ggml_cgraph * graph, int first, Chain & chain) {
    ggml_tensor *    next = next_of(graph, first, chain, GGML_OP_UNARY);
    const Activation activation = next ? activation_of(next) : Activation::kNone;
    if (activation == Activation::kNone) return;
    chain.epilogue.activation = activation;
    follow(chain, next);
}

Chain chain_at(const ggml_cgraph * graph, int first) {
    if (first >= graph->n_nodes || graph->nodes[first]->op != GGML_OP_MUL_MAT) return {};
    Chain chain = {graph->nodes[first], graph->nodes[first], {}, 1};
    follow_factor(graph, first, chain);
    follow_bias(graph, first, chain);
    if (!follow_matrix(graph, first, chain)) follow_activation(graph, first, chain);
    return chain;
}

// The two layers of a feed-forward network: what is between them is packed at once, and never written to memory as floats.
bool both_layers(const ggml_compute_params * params, const Chain & first, const Chain & second) {
    Shape shape, next;
    if (!read_shape(first.node, shape) || !read_shape(second.node, next) || !may_be_followed(shape)) return false;
    const Functions * functions = functions_for(shape, first.node);
    if (!functions || functions != functions_for(next, second.node)) return false;
    const Product following = {next, second.node->src[0], second.dst, second.epilogue};
    return functions->compute(params, first.node->src[1], {shape, first.node->src[0], first.dst, first.epilogue}, &following);
}

}  // namespace

int fused_product(const ggml_compute_params * params, const ggml_cgraph * graph, int first) {
    const Chain chain = chain_at(graph, first);
    if (chain.length < 2 || has_pairs(chain.node)) return 0;
    const int last = first + chain.length - 1;
    if (chain.epilogue.activation != Activation::kNone && ggml_node_has_n_uses(graph, last, 1)) {
        const Chain second = chain_at(graph, last + 1);
        if (second.length > 0 && second.node->src[1] == chain.dst && both_layers(params, chain, second)) return chain.length + second.length - 1;
    }
    return product(params, chain.node, chain.dst, chain.epilogue) ? chain.length - 1 : 0;
}

bool gelu(const ggml_compute_params * params, ggml_tensor * dst) {
    const ggml_tensor * x = dst->src[0];
    if (activation_of(dst) != Activation::kGelu || !is_plain(x)) return false;
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
