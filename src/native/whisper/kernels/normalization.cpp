// Normalization of rows, with the factors and the numbers that are added to it: one pass over memory instead of three.
#include "settings.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int kSums = 4;
constexpr int64_t kStep = kSums * kLanes;

// A number for each place of a row of `width` floats.
bool is_for_each_place(const ggml_tensor * t, int64_t width) {
    return t->type == GGML_TYPE_F32 && ggml_is_contiguous(t) && t->ne[0] == width && ggml_nelements(t) == width;
}

bool has_plain_rows(const ggml_tensor * t) {
    return t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float) && t->ne[2] == 1 && t->ne[3] == 1;
}

float total(const Vec * sums) { return sum_of(add(add(sums[0], sums[2]), add(sums[1], sums[3]))); }

struct Norm {
    int64_t       width;
    float         least;  // added to the variance
    const float * factors;
    const float * added;

    // `from` and `to` may be the same row.
    void write(const float * from, float * to) const {
        Vec sums[kSums] = {zero(), zero(), zero(), zero()};
        for (int64_t i = 0; i < width; i += kStep)
            for (int j = 0; j < kSums; j++) sums[j] = add(sums[j], load(from + i + j * kLanes));
        const Vec mean = fill(total(sums) / width);
        for (Vec & sum : sums) sum = zero();
        for (int64_t i = 0; i < width; i += kStep)
            for (int j = 0; j < kSums; j++) {
                const Vec x = sub(load(from + i + j * kLanes), mean);
                sums[j] = fma(x, x, sums[j]);
            }
        const Vec scale = fill(1.0f / std::sqrt(total(sums) / width + least));
        for (int64_t i = 0; i < width; i += kLanes)
            store(to + i, fma(mul(sub(load(from + i), mean), scale), load(factors + i), load(added + i)));
    }
};

}  // namespace

int fused_normalization(const ggml_compute_params * params, const ggml_cgraph * graph, int first) {
    static const ggml_op ops[] = {GGML_OP_NORM, GGML_OP_MUL, GGML_OP_ADD};
    if (!ggml_can_fuse(graph, first, ops, 3)) return 0;
    ggml_tensor * const * nodes = graph->nodes + first;
    const ggml_tensor *   x = nodes[0]->src[0];
    const int64_t         width = x->ne[0];
    if (nodes[1]->src[0] != nodes[0] || nodes[2]->src[0] != nodes[1] || !is_for_each_place(nodes[1]->src[1], width) ||
        !is_for_each_place(nodes[2]->src[1], width) || !has_plain_rows(x) || !has_plain_rows(nodes[2]) || width % kStep != 0)
        return 0;
    Norm norm = {width, 0, (const float *) nodes[1]->src[1]->data, (const float *) nodes[2]->src[1]->data};
    memcpy(&norm.least, nodes[0]->op_params, sizeof norm.least);
    const int64_t rows = x->ne[1], begin = rows * params->ith / params->nth, end = rows * (params->ith + 1) / params->nth;
    for (int64_t row = begin; row < end; row++)
        norm.write((const float *) ((const char *) x->data + row * x->nb[1]), (float *) ((char *) nodes[2]->data + row * nodes[2]->nb[1]));
    return 2;
}

}  // namespace shruti

#endif
