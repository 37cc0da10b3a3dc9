// Attention with relative positions, of FastConformers, with whole numbers of 16 bits. A score is a query's product with a key and
// with the distance between them. A block of queries needs products with a stretch of the distances only; each row of these is
// shifted by one against the one before, and is added to the product with the keys at once.
#include "conformer.h"
#include "short-blocks.h"

#ifdef SHRUTI_SHORT_PRODUCTS

#include "ggml.h"

#include <algorithm>
#include <cmath>

namespace shruti {
namespace {

constexpr int64_t kBlock = 64, kMostDepth = 256;
using KeyBlocks = ShortBlocks<kBlock, Factors::kOfColumns>;
using ValueBlocks = ShortBlocks<kBlock>;
constexpr int64_t kRows = KeyBlocks::kRows, kColumns = KeyBlocks::kColumns;
// Blocks of queries that read keys, positions and values together.
constexpr int64_t kBlocks = 4, kQueries = kBlocks * kRows;
// Before the first position of a row: queries after the last one of a sound begin there, and are not used.
constexpr int64_t kBefore = 16;
// Scores of keys that are not there.
constexpr float kLeast = -1e30f;

int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

// Floats from a row to the next: an odd number of cache lines (attention-shape.h).
int64_t stride_of(int64_t floats) { return ((floats + kLanes - 1) / kLanes | 1) * kLanes; }

struct Shape {
    int64_t depth, heads, frames, sounds;
    // With zeros up to whole blocks of values, and to whole columns.
    int64_t wide() const { return whole(depth, kBlock); }
    int64_t columns() const { return whole(depth, kColumns); }
    int64_t distances() const { return 2 * frames - 1; }
};

// Rows that others are multiplied by: panels of kColumns, and a factor for each of them.
struct Panels {
    char *  values;
    float * factors;
    int64_t wide;
    char *  at(int64_t panel) const { return values + panel * kColumns * wide * 2; }
};

// Gives out parts of the work memory, whole cache lines. From address 0 on it counts bytes.
struct Memory {
    uintptr_t next;
    template <typename T> T * take(int64_t count) {
        T * part = (T *) next;
        next += (count * sizeof(T) + 63) / 64 * 64;
        return part;
    }
    Panels panels(int64_t rows, int64_t wide) {
        char * values = take<char>(rows * wide * 2);
        return {values, take<float>(rows), wide};
    }
};

struct Work {
    Panels              keys, positions;
    char *              values;
    float *             value_factors;
    KeyBlocks::Left *   by_content;
    KeyBlocks::Left *   by_position;
    ValueBlocks::Left * weights;
    float *             of_positions;
    float *             scores;
    float *             out;
    int64_t             position_stride, score_stride;

    Work(const Shape & shape, Memory & memory) {
        const int64_t rows = whole(shape.frames, kBlock), wide = shape.wide();
        position_stride = stride_of(kBefore + shape.frames + kQueries + 3 * kColumns);
        score_stride = stride_of(rows);
        keys = memory.panels(rows, wide);
        positions = memory.panels(whole(shape.distances(), kColumns), wide);
        values = memory.take<char>(rows * shape.columns() * 2);
        value_factors = memory.take<float>(rows / kBlock * shape.columns());
        by_content = memory.take<KeyBlocks::Left>(kBlocks * wide / kBlock);
        by_position = memory.take<KeyBlocks::Left>(kBlocks * wide / kBlock);
        weights = memory.take<ValueBlocks::Left>(kBlocks * rows / kBlock);
        of_positions = memory.take<float>(kQueries * position_stride);
        scores = memory.take<float>(kQueries * score_stride);
        out = memory.take<float>(kQueries * shape.columns());
    }
};

const float * row_of(const ggml_tensor * t, int64_t row, int64_t column) {
    return (const float *) ((const char *) t->data + row * t->nb[1]) + column;
}

// Packs `count` rows of `depth` numbers each, and rows of zeros up to whole panels.
void pack(const ggml_tensor * t, int64_t first, int64_t count, int64_t column, int64_t depth, const Panels & to) {
    alignas(64) float rows[kLanes][kMostDepth] = {};
    for (int64_t at = 0; at < whole(count, kColumns); at += kLanes) {
        Vec multipliers[kLanes];
        for (int64_t i = 0; i < kLanes; i++) {
            if (at + i < count)
                std::copy_n(row_of(t, first + at + i, column), depth, rows[i]);
            else
                std::fill_n(rows[i], depth, 0.0f);
            const ShortScale scale(largest_of(rows[i], to.wide));
            multipliers[i] = fill(scale.multiplier);
            to.factors[at + i] = scale.factor;
        }
        uint32_t * words = (uint32_t *) to.at(at / kColumns) + at % kColumns;
        for (int64_t k = 0; k < to.wide; k += 2 * kLanes) {
            Words of_rows[kLanes];
            for (int64_t i = 0; i < kLanes; i++) {
                const Vec x[] = {load(rows[i] + k), load(rows[i] + k + kLanes)};
                of_rows[i] = rounded_shorts(x, multipliers[i]);
            }
            transpose(of_rows, words + k / 2 * kColumns, kColumns);
        }
    }
}

// Packs a panel of columns of the values, with a factor for each column of kBlock rows.
void pack_values(const ggml_tensor * v, const Shape & shape, int64_t first, int64_t count, int64_t column, const Work & work) {
    const int64_t     rows = whole(count, kBlock);
    alignas(64) float block[kBlock][kColumns];
    for (int64_t c = 0; c < shape.columns(); c += kColumns)
        for (int64_t row = 0; row < rows; row += kBlock) {
            const int64_t known = std::min(kColumns, shape.depth - c);
            for (int64_t i = 0; i < kBlock; i++) {
                std::fill_n(block[i], kColumns, 0.0f);
                if (row + i < count) std::copy_n(row_of(v, first + row + i, column + c), known, block[i]);
            }
            uint32_t * words = (uint32_t *) (work.values + (c * rows + row * kColumns) * 2);
            float *    factors = work.value_factors + (c * rows + row * kColumns) / kBlock;
            for (int64_t lane = 0; lane < kColumns; lane += kLanes) {
                Vec largest = zero();
                for (int64_t i = 0; i < kBlock; i++) largest = max(largest, abs_of(load(block[i] + lane)));
                const Vec scale = div(fill(kMostShort), max(largest, fill(kLeastRounded)));
                store(factors + lane, mul(largest, fill(1.0f / kMostShort)));
                for (int64_t i = 0; i < kBlock; i += 2) {
                    const Ints low = rounded(mul(load(block[i] + lane), scale)), high = rounded(mul(load(block[i + 1] + lane), scale));
                    store_ints(words + i / 2 * kColumns + lane, bits_or(shifted_left<16>(high), bits_and(low, fill_ints(0xFFFF))));
                }
            }
        }
}

// Rounds queries and what is added to them. `left`: blocks of rows, in each blocks of values.
void pack_queries(const ggml_tensor * q, const ggml_tensor * added, const Shape & shape, int64_t first, int64_t count, int64_t head,
                  KeyBlocks::Left * left) {
    const float       scale = kLog2E / std::sqrt((float) shape.depth);
    const float *     bias = (const float *) ((const char *) added->data + head * added->nb[1]);
    alignas(64) float x[kMostDepth] = {};
    for (int64_t i = 0; i < kQueries; i++) {
        const float * query = row_of(q, first + std::min(i, count - 1), head * shape.depth);
        for (int64_t d = 0; d < shape.depth; d++) x[d] = (query[d] + bias[d]) * scale;
        KeyBlocks::Left * blocks = left + i / kRows * (shape.wide() / kBlock);
        for (int64_t k = 0; k < shape.wide(); k += kBlock) {
            KeyBlocks::Left & to = blocks[k / kBlock];
            const ShortScale  of_block(largest_of(x + k, kBlock));
            to.factors[i % kRows] = of_block.factor;
            for (int64_t j = 0; j < kBlock; j += 2 * kLanes) {
                const Vec both[] = {load(x + k + j), load(x + k + j + kLanes)};
                store_ints(to.values[i % kRows] + j, rounded_shorts(both, fill(of_block.multiplier)));
            }
        }
    }
}

// Multiplies blocks of queries by panels.
template <typename FinishOf>
void multiply(const KeyBlocks::Left * left, int64_t blocks, const Panels & panels, int64_t first, int64_t last, float * out, int64_t stride,
              const FinishOf & finish_of) {
    for (int64_t panel = first; panel < last; panel++)
        for (int64_t b = 0; b < blocks; b++)
            KeyBlocks::multiply(left + b * (panels.wide / kBlock), panels.wide / kBlock, panels.at(panel), panels.factors + panel * kColumns,
                                out + b * kRows * stride + (panel - first) * kColumns, stride, finish_of(b, panel));
}

// Exponentiates the scores of a query and packs them as row `row` of blocks, each in proportion to its largest one. Returns their sum.
float weigh(float * scores, int64_t count, int64_t row, ValueBlocks::Left * out) {
    const int64_t rows = whole(count, kBlock);
    std::fill(scores + count, scores + rows, kLeast);
    Vec largest = load(scores);
    for (int64_t i = kLanes; i < rows; i += kLanes) largest = max(largest, load(scores + i));
    const Vec most = fill(max_of(largest));
    Vec       sum = zero();
    for (int64_t at = 0; at < rows; at += kBlock) {
        Vec of_block = zero();
        for (int64_t i = at; i < at + kBlock; i += kLanes) {
            const Vec weight = exp2_of(sub(load(scores + i), most));
            store(scores + i, weight);
            of_block = max(of_block, weight);
            sum = add(sum, weight);
        }
        const ShortScale scale(max_of(of_block));
        ValueBlocks::Left & left = out[at / kBlock];
        left.factors[row] = scale.factor;
        for (int64_t i = 0; i < kBlock; i += 2 * kLanes) {
            const Vec x[] = {load(scores + at + i), load(scores + at + i + kLanes)};
            store_ints(left.values[row] + i, rounded_shorts(x, fill(scale.multiplier)));
        }
    }
    return sum_of(sum);
}

// A head of a sound: `count` frames, of which the first is row `first`.
struct Head {
    int64_t number, first, count;
};

// Computes kQueries queries from `query` on.
void attend(ggml_tensor * dst, const Shape & shape, const Head & head, int64_t query, const Work & work) {
    const int64_t here = std::min(kQueries, head.count - query), blocks = (here + kRows - 1) / kRows;
    const int64_t rows = whole(head.count, kBlock);
    pack_queries(dst->src[0], dst->src[4], shape, head.first + query, here, head.number, work.by_content);
    pack_queries(dst->src[0], dst->src[5], shape, head.first + query, here, head.number, work.by_position);

    // The distance of the first query to the first key; each further query is one farther before.
    const int64_t distance = shape.frames - 1 - query;
    const int64_t first_panel = std::max<int64_t>(0, distance - (blocks * kRows - 1)) / kColumns;
    const int64_t last_panel = (distance + head.count - 1) / kColumns + 1;
    float *       of_positions = work.of_positions + kBefore;
    multiply(work.by_position, blocks, work.positions, first_panel, last_panel, of_positions, work.position_stride,
             [](int64_t, int64_t) { return Finish(); });
    multiply(work.by_content, blocks, work.keys, 0, whole(head.count, kColumns) / kColumns, work.scores, work.score_stride,
             [&](int64_t b, int64_t panel) {
                 Finish finish;
                 finish.add = of_positions + b * kRows * (work.position_stride - 1) + distance + (panel - first_panel) * kColumns;
                 finish.add_stride = work.position_stride - 1;
                 return finish;
             });

    float sums[kQueries];
    for (int64_t i = 0; i < blocks * kRows; i++)
        sums[i] = weigh(work.scores + i * work.score_stride, head.count, i % kRows, work.weights + i / kRows * (rows / kBlock));
    for (int64_t c = 0; c < shape.columns(); c += kColumns)
        for (int64_t b = 0; b < blocks; b++)
            ValueBlocks::multiply(work.weights + b * (rows / kBlock), rows / kBlock, work.values + c * rows * 2, work.value_factors + c * rows / kBlock,
                                  work.out + b * kRows * shape.columns() + c, shape.columns(), {});
    for (int64_t i = 0; i < here; i++) {
        float * to = (float *) ((char *) dst->data + (head.first + query + i) * dst->nb[1]) + head.number * shape.depth;
        const float share = 1 / sums[i];
        for (int64_t d = 0; d < shape.depth; d++) to[d] = work.out[i * shape.columns() + d] * share;
    }
}

// Frames after the last one of a sound.
void clear(ggml_tensor * dst, const Shape & shape, const Head & head) {
    for (int64_t row = head.first + head.count; row < head.first + shape.frames; row++)
        std::fill_n((float *) ((char *) dst->data + row * dst->nb[1]) + head.number * shape.depth, shape.depth, 0.0f);
}

size_t bytes_of(const Shape & shape) {
    Memory counted = {0};
    Work   work(shape, counted);
    (void) work;
    return counted.next + 64;
}

}  // namespace

size_t relative_attention_bytes(int64_t depth, int64_t frames) { return depth > kMostDepth ? 0 : bytes_of({depth, 1, frames, 1}); }

void relative_attention(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * bias = dst->src[4];
    const int64_t       sounds = dst->src[6]->ne[0];
    const Shape         shape = {bias->ne[0], bias->ne[1], dst->ne[1] / sounds, sounds};
    const int32_t *     counts = (const int32_t *) dst->src[6]->data;
    const size_t        bytes = bytes_of(shape);
    Memory              memory = {((uintptr_t) dst->src[7]->data + ith * bytes + 63) & ~(uintptr_t) 63};
    const Work          work(shape, memory);
    // Where there are more threads than heads, some compute parts of a head, and each packs its keys.
    const int64_t heads = shape.heads * sounds, parts = (nth + heads - 1) / heads;
    for (int64_t task = ith; task < heads * parts; task += nth) {
        const int64_t sound = task / parts / shape.heads, part = task % parts;
        const Head    head = {task / parts % shape.heads, sound * shape.frames, counts[sound]};
        const int64_t groups = (head.count + kQueries - 1) / kQueries, column = head.number * shape.depth;
        pack(dst->src[1], head.first, head.count, column, shape.depth, work.keys);
        pack(dst->src[3], 0, shape.distances(), column, shape.depth, work.positions);
        pack_values(dst->src[2], shape, head.first, head.count, column, work);
        for (int64_t group = groups * part / parts; group < groups * (part + 1) / parts; group++)
            attend(dst, shape, head, group * kQueries, work);
        if (part == 0) clear(dst, shape, head);
    }
}

}  // namespace shruti

#else

namespace shruti {

size_t relative_attention_bytes(int64_t, int64_t) { return 0; }
void   relative_attention(ggml_tensor *, int, int, void *) {}

}  // namespace shruti

#endif
