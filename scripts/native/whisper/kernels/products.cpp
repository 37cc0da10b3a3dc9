// Products of matrices with many rows on both sides: the linear layers and convolutions of the encoder, and the keys
// and values of cross-attention. Weights of any type stay as they are in memory. A group of their rows is packed when it
// is used; a window has 1500 rows to multiply it by, so this costs little.
#include "byte-blocks.h"
#include "settings.h"
#include "side-by-side.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kLeastRows = 32;
// Blocks of rows that each panel is multiplied by in turn: they stay in the second cache.
constexpr int64_t kBlocks = 16;
constexpr int64_t kMostGroup = 128;  // columns that are packed at once

struct Shape {
    int64_t depth, columns, rows;
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

template <typename T> T * aligned(T * p) { return (T *) (((uintptr_t) p + 63) & ~(uintptr_t) 63); }

// Products of floats or of bf16 numbers, for weights of all types.
struct Floats {
    static constexpr int64_t kRows = shruti::kRows, kColumns = shruti::kColumns;
    // Values of a row that are packed at once. A panel of them stays in the first cache, and blocks of all types fit.
    static constexpr int64_t kDepth = 256 * kPerWord;

    static int64_t padded(int64_t depth) { return (depth + kPerVector - 1) / kPerVector * kPerVector; }
    // Bytes of values of a block of rows, of a panel, and of work memory for packing a panel.
    static size_t left_bytes(int64_t depth) { return kRows * padded(depth) / kPerWord * 4; }
    static size_t panel_bytes(int64_t depth) { return kColumns * padded(depth) / kPerWord * 4; }
    static size_t wide_bytes() { return kLanes * kDepth * 4; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) {
        uint32_t *        out = (uint32_t *) to;
        alignas(64) float last[kPerVector];
        for (int64_t r = 0; r < kRows; r++) {
            const int64_t row = block * kRows + r;
            const char *  from = (const char *) x->data + row * x->nb[1];
            for (int64_t k = 0; k < padded(shape.depth); k += kPerVector) {
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

    // A panel of kColumns rows of the weights; rows after the last one are zeros.
    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * memory, char * to) {
        float *    wide = (float *) memory;
        uint32_t * out = (uint32_t *) to;
        for (int c = 0; c < kColumns; c += kLanes) {
            for (int i = 0; i < kLanes; i++) {
                float * row = wide + i * kDepth;
                if (column + c + i < shape.columns)
                    widen(w, column + c + i, from, count, row);
                else
                    std::fill(row, row + padded(count), 0.0f);
            }
            for (int64_t k = 0; k < padded(count); k += kPerVector) {
                Words words[kLanes];
                for (int i = 0; i < kLanes; i++) words[i] = to_words(wide + i * kDepth + k);
                transpose(words, out + k / kPerWord * kColumns + c, kColumns);
            }
        }
    }

    // Multiplies values `from` to `from + count` of a block of rows by a panel of them.
    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        multiply_block((const uint32_t *) left + from / kPerWord * kRows, (const uint32_t *) panel, padded(count) / kPerChunk, out, stride,
                       finish);
    }

   private:
    // Widens values `from` to `from + count` of a row of the weights, then zeros up to a whole vector.
    static void widen(const ggml_tensor * w, int64_t row, int64_t from, int64_t count, float * out) {
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
};

#ifdef SHRUTI_BYTES

// Products of bytes. Inputs are rounded to 8 bits in blocks of 32, as ggml does.
template <Factors kFactors> struct ByteProducts {
    using Blocks = ByteBlocks<32, Signed::kLeft, kFactors>;
    using Left = typename Blocks::Left;
    static constexpr int64_t kRows = Blocks::kRows, kColumns = Blocks::kColumns, kBlock = Blocks::kBlock;
    static constexpr int64_t kDepth = 512;

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static bool   takes(const Shape & shape, const ggml_tensor * x) { return shape.depth % (2 * kBlock) == 0 && x->type == GGML_TYPE_F32; }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) {
        for (int64_t r = 0; r < kRows; r++) {
            // Rows after the last one: numbers that are not used.
            const int64_t row = std::min(block * kRows + r, shape.rows - 1);
            const float * from = (const float *) ((const char *) x->data + row * x->nb[1]);
            for (int64_t i = 0; i < shape.depth / kBlock; i++) {
                const RoundedBlock rounded = rounded_block(from + i * kBlock);
                Left &             left = ((Left *) to)[i];
                _mm256_storeu_si256((__m256i *) left.values[r], rounded.values);
                left.factors[r] = rounded.factor;
                left.corrections[r] = -128 * sum_of_bytes(rounded.values);
            }
        }
    }

    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        Blocks::multiply((const Left *) left + from / kBlock, count / kBlock, panel, (const float *) (panel + kColumns * count), out, stride,
                         finish);
    }
};

// The weights' row for a column. Columns after the last one have numbers that are not used.
const char * weights_of(const ggml_tensor * w, const Shape & shape, int64_t column) {
    return (const char *) w->data + std::min(column, shape.columns - 1) * w->nb[1];
}

// For weights of 8 bits: their numbers and their factors of 32 stay as they are.
struct Bytes : ByteProducts<Factors::kOfBlocks> {
    static size_t panel_bytes(int64_t depth) { return kColumns * (depth + depth / kBlock * sizeof(float)); }
    static size_t wide_bytes() { return 0; }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char *, char * to) {
        uint32_t * values = (uint32_t *) to;
        float *    factors = (float *) (to + kColumns * count);
        for (int64_t c = 0; c < kColumns; c += kLanes) {
            const block_q8_0 * rows[kLanes];
            for (int64_t i = 0; i < kLanes; i++) rows[i] = (const block_q8_0 *) weights_of(w, shape, column + c + i) + from / kBlock;
            for (int64_t b = 0; b < count / kBlock; b += kBlocksOfWords) {
                Words words[kLanes];
                for (int64_t i = 0; i < kLanes; i++) {
                    words[i] = words_of(rows[i] + b);
                    for (int64_t j = b; j < b + kBlocksOfWords; j++) factors[j * kColumns + c + i] = single(rows[i][j].d);
                }
                transpose(words, values + b * (kBlock / 4) * kColumns + c, kColumns);
            }
        }
    }

   private:
    static constexpr int64_t kBlocksOfWords = 4 * kLanes / kBlock;

#ifdef SHRUTI_AVX512
    static Words words_of(const block_q8_0 * blocks) {
        return _mm512_inserti64x4(_mm512_castsi256_si512(OfQ8_0::bytes(blocks[0])), OfQ8_0::bytes(blocks[1]), 1);
    }
#else
    static Words words_of(const block_q8_0 * blocks) { return OfQ8_0::bytes(blocks[0]); }
#endif
};

// For weights of fewer bits: they are rounded again, to 8 bits with a factor for all numbers of a row that are packed at once.
// This rounds far less than their own type did, and saves a product of factors for each block.
struct RoundedBytes : ByteProducts<Factors::kOfColumns> {
    static size_t panel_bytes(int64_t depth) { return kColumns * (depth + sizeof(float)); }
    static size_t wide_bytes() { return kLanes * kDepth * sizeof(float); }

    static void pack_panel(const ggml_tensor * w, const Shape & shape, int64_t column, int64_t from, int64_t count, char * wide, char * to) {
        uint32_t * values = (uint32_t *) to;
        float *    factors = (float *) (to + kColumns * count);
        for (int64_t c = 0; c < kColumns; c += kLanes) {
            Vec multipliers[kLanes];
            for (int64_t i = 0; i < kLanes; i++) {
                float * row = (float *) wide + i * kDepth;
                widen(w->type, weights_of(w, shape, column + c + i) + ggml_row_size(w->type, from), count, row);
                const ByteScale scale(largest_of(row, count));
                multipliers[i] = fill(scale.multiplier);
                factors[c + i] = scale.factor;
            }
            for (int64_t k = 0; k < count; k += 4 * kLanes) {
                Words words[kLanes];
                for (int64_t i = 0; i < kLanes; i++) {
                    const float * row = (const float *) wide + i * kDepth + k;
                    const Vec     x[] = {load(row), load(row + kLanes), load(row + 2 * kLanes), load(row + 3 * kLanes)};
                    words[i] = without_sign(rounded_bytes(x, multipliers[i]));
                }
                transpose(words, values + k / 4 * kColumns + c, kColumns);
            }
        }
    }

   private:
    static void widen(ggml_type type, const char * from, int64_t count, float * to) {
        if (type != GGML_TYPE_Q5_0) return ggml_get_type_traits(type)->to_float(from, to, count);
        const block_q5_0 * blocks = (const block_q5_0 *) from;
        for (int64_t b = 0; b < count / kBlock; b++, to += kBlock) {
            const Vec          factor = fill(single(blocks[b].d)), least = mul(factor, fill(-OfQ5_0::kOffset));
            alignas(32) int8_t numbers[kBlock];
            _mm256_store_si256((__m256i *) numbers, OfQ5_0::bytes(blocks[b]));
            for (int64_t i = 0; i < kBlock; i += kLanes) store(to + i, fma(factor, load_bytes(numbers + i), least));
        }
    }

    static float largest_of(const float * row, int64_t count) {
        Vec largest = zero();
        for (int64_t k = 0; k < count; k += kLanes) largest = max(largest, abs_of(load(row + k)));
        return max_of(largest);
    }
};

#elif !defined(SHRUTI_VNNI)

// Products of bytes for weights of 4 and 5 bits where no instruction adds up four products: the sum of eight of them has 16
// bits. Weights are unpacked side by side, a column in each lane, and keep their numbers and factors.
template <typename Type> struct FewBits {
    using Block = typename Type::Block;
    static constexpr int64_t kRows = 4, kColumns = kLanes, kBlock = 32;
    static constexpr int64_t kDepth = 512;

    // `start`: the products of the offset of the weights, taken away. `weighted`: factor times the sum of all values.
    struct Left {
        int32_t values[kRows][8];  // four bytes each
        int32_t start[kRows];
        float   factors[kRows], weighted[kRows];
    };

    static size_t left_bytes(int64_t depth) { return depth / kBlock * sizeof(Left); }
    static size_t panel_bytes(int64_t depth) { return depth / kBlock * sizeof(Blocks); }
    static size_t wide_bytes() { return 0; }
    static bool   takes(const Shape & shape, const ggml_tensor * x) {
        return shape.depth % kBlock == 0 && shape.columns % kColumns == 0 && x->type == GGML_TYPE_F32;
    }

    static void pack_left(const ggml_tensor * x, const Shape & shape, int64_t block, char * to) {
        for (int64_t r = 0; r < kRows; r++) {
            // Rows after the last one: numbers that are not used.
            const int64_t row = std::min(block * kRows + r, shape.rows - 1);
            const float * from = (const float *) ((const char *) x->data + row * x->nb[1]);
            for (int64_t i = 0; i < shape.depth / kBlock; i++) {
                const RoundedBlock rounded = rounded_block(from + i * kBlock);
                const int32_t      sum = sum_of_bytes(rounded.values);
                Left &             left = ((Left *) to)[i];
                _mm256_storeu_si256((__m256i *) left.values[r], rounded.values);
                left.start[r] = -Type::kOffset * sum;
                left.factors[r] = rounded.factor;
                left.weighted[r] = rounded.factor * sum;
            }
        }
    }

    static void pack_panel(const ggml_tensor * w, const Shape &, int64_t column, int64_t from, int64_t count, char *, char * to) {
        const Block * first = (const Block *) ((const char *) w->data + column * w->nb[1]) + from / kBlock;
        for (int64_t b = 0; b < count / kBlock; b++) unpack_rows(first + b, w->nb[1], ((Blocks *) to)[b]);
    }

    static void multiply(const char * left, int64_t from, int64_t count, const char * panel, float * out, size_t stride, const Finish & finish) {
        const Left *   rows = (const Left *) left + from / kBlock;
        const Blocks * blocks = (const Blocks *) panel;
        Vec            sums[kRows];
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) sums[r] = zero();
        for (int64_t b = 0; b < count / kBlock; b++, rows++, blocks++) {
            SHRUTI_UNROLL
            for (int r = 0; r < kRows; r++) {
                const Vec whole = to_floats(add_products(fill_ints(Type::kOffset ? rows->start[r] : 0), blocks->numbers, rows->values[r]));
                sums[r] = fma(mul(blocks->scales, fill(rows->factors[r])), whole, sums[r]);
                if constexpr (Type::kHasLeast) sums[r] = fma(blocks->least, fill(rows->weighted[r]), sums[r]);
            }
        }
        SHRUTI_UNROLL
        for (int r = 0; r < kRows; r++) finish_row(out + r * stride, sums[r], r, 0, finish);
    }
};

#endif

// Work memory: the packed left matrix, then for each thread a packed group and rows being widened.
template <typename Kind> struct Layout {
    size_t left, group, wide;
    explicit Layout(const Shape & shape)
        : left((blocks_of(shape) * Kind::left_bytes(shape.depth) + 63) / 64 * 64),
          group(kMostGroup / Kind::kColumns * Kind::panel_bytes(Kind::kDepth)),
          wide(Kind::wide_bytes()) {}
    size_t of_thread() const { return group + wide; }
    static int64_t blocks_of(const Shape & shape) { return (shape.rows + Kind::kRows - 1) / Kind::kRows; }
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
void multiply(const Shape & shape, const char * left, const Stretch & stretch, const char * panel, ggml_tensor * dst, int64_t row,
              int64_t column, const Finish & finish) {
    constexpr int64_t kRows = Kind::kRows, kColumns = Kind::kColumns;
    const size_t      stride = dst->nb[1] / sizeof(float);
    float *           out = (float *) dst->data + row * stride + column;
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

// What is added to a block of results: what earlier values of the rows gave, or a matrix, and at last the bias.
Finish finish_of(const Shape & shape, const Stretch & stretch, int64_t row, int64_t column, const ggml_tensor * dst, const Epilogue & epilogue) {
    Finish              finish;
    const ggml_tensor * added = stretch.from > 0 ? dst : epilogue.add;
    if (added) {
        finish.add_stride = added->nb[1] / sizeof(float);
        finish.add = (const float *) added->data + row * finish.add_stride + column;
    }
    if (stretch.from + stretch.count == shape.depth) {
        finish.bias = epilogue.bias ? epilogue.bias + column : nullptr;
        finish.gelu = epilogue.gelu;
    }
    return finish;
}

template <typename Kind>
void run(const Task & task, const Shape & shape, const ggml_tensor * w, const char * left, char * group, char * wide, ggml_tensor * dst,
         const Epilogue & epilogue) {
    for (int64_t from = 0; from < shape.depth; from += Kind::kDepth) {
        const Stretch stretch = {from, std::min(Kind::kDepth, shape.depth - from)};
        const size_t  panel_bytes = Kind::panel_bytes(stretch.count);
        for (int64_t c = task.first_column; c < task.last_column; c += Kind::kColumns)
            Kind::pack_panel(w, shape, c, from, stretch.count, wide, group + (c - task.first_column) / Kind::kColumns * panel_bytes);
        for (int64_t first = task.first_block; first < task.last_block; first += kBlocks) {
            const int64_t last = std::min(first + kBlocks, task.last_block);
            for (int64_t c = task.first_column; c < task.last_column; c += Kind::kColumns) {
                const char * panel = group + (c - task.first_column) / Kind::kColumns * panel_bytes;
                for (int64_t block = first; block < last; block++) {
                    const Finish finish = finish_of(shape, stretch, block * Kind::kRows, c, dst, epilogue);
                    multiply<Kind>(shape, left + block * Kind::left_bytes(shape.depth), stretch, panel, dst, block * Kind::kRows, c, finish);
                }
            }
        }
    }
}

template <typename Kind> size_t work_size(int threads, const Shape & shape) {
    const Layout<Kind> layout(shape);
    return layout.left + threads * layout.of_thread() + 128;
}

template <typename Kind>
bool compute(const ggml_compute_params * params, const Shape & shape, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue) {
    const Layout<Kind> layout(shape);
    char *             left = aligned((char *) params->wdata);
    if (left + layout.left + params->nth * layout.of_thread() > (char *) params->wdata + params->wsize) return false;
    char *        own = left + layout.left + params->ith * layout.of_thread();
    const int64_t blocks = layout.blocks_of(shape);

    for (int64_t block = params->ith; block < blocks; block += params->nth)
        Kind::pack_left(node->src[1], shape, block, left + block * Kind::left_bytes(shape.depth));
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, 0);
    ggml_barrier(params->threadpool);

    // Wide groups read the left matrix less often; at least two tasks for each thread divide the work evenly.
    int64_t width = kMostGroup;
    while (width > Kind::kColumns && (shape.columns + width - 1) / width < 2 * params->nth) width /= 2;
    const int64_t groups = (shape.columns + width - 1) / width;
    const int64_t parts = params->nth == 1 ? 1 : std::max<int64_t>(1, std::min<int64_t>(blocks, 2 * params->nth / groups));
    begin_blocks();
    for (;;) {
        const int64_t task = ggml_threadpool_chunk_add(params->threadpool, 1);
        if (task >= groups * parts) break;
        const int64_t part = task % parts, group = task / parts;
        run<Kind>({blocks * part / parts, blocks * (part + 1) / parts, group * width, std::min((group + 1) * width, shape.columns)}, shape,
                  node->src[0], left, own, own + layout.group, dst, epilogue);
    }
    end_blocks();
    return true;
}

struct Functions {
    size_t (*work_size)(int threads, const Shape & shape);
    bool (*compute)(const ggml_compute_params * params, const Shape & shape, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue);
};

template <typename Kind> constexpr Functions kFunctions = {work_size<Kind>, compute<Kind>};

const Functions & functions_for(const Shape & shape, const ggml_tensor * node) {
#ifdef SHRUTI_BYTES
    const ggml_type type = node->src[0]->type;
    if (Bytes::takes(shape, node->src[1]) && ggml_is_quantized(type))
        return type == GGML_TYPE_Q8_0 ? kFunctions<Bytes> : kFunctions<RoundedBytes>;
#elif !defined(SHRUTI_VNNI)
    const ggml_type type = node->src[0]->type;
    if (FewBits<OfQ5_0>::takes(shape, node->src[1])) {
        if (type == GGML_TYPE_Q5_0) return kFunctions<FewBits<OfQ5_0>>;
        if (type == GGML_TYPE_Q5_1) return kFunctions<FewBits<OfQ5_1>>;
        if (type == GGML_TYPE_Q4_1) return kFunctions<FewBits<OfQ4_1>>;
    }
#endif
    return kFunctions<Floats>;
}

}  // namespace

size_t product_work_size(int threads, const ggml_tensor * node) {
    Shape shape;
    return read_shape(node, shape) ? functions_for(shape, node).work_size(threads, shape) : 0;
}

bool product(const ggml_compute_params * params, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue) {
    Shape shape;
    return read_shape(node, shape) && functions_for(shape, node).compute(params, shape, node, dst, epilogue);
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
