// The shape of an attention of a whole window to itself, or of a prompt to a window.
#ifndef SHRUTI_ATTENTION_SHAPE_H
#define SHRUTI_ATTENTION_SHAPE_H

#include "cached-rows.h"

#ifdef SHRUTI_VECTORS

#include <cstring>

namespace shruti {

struct AttentionShape {
    int64_t width, queries, rows, heads, windows;
};

inline bool read_shape(const ggml_tensor * dst, AttentionShape & shape) {
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

inline const char * row_at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

// The factor of the scores, whose exponentials are powers of 2 here.
inline float scale_of(const ggml_tensor * dst) {
    float scale;
    memcpy(&scale, dst->op_params, sizeof scale);
    return scale * kLog2E;
}

// Floats from the scores of a query to those of the next. An odd number of cache lines: with the even one of a window, all
// queries' scores of a key would have to share two places of the first cache.
inline int64_t score_stride(const AttentionShape & shape) { return (shape.rows / kLanes | 1) * kLanes; }

// The place of a query's result.
inline float * result_at(ggml_tensor * dst, const AttentionShape & shape, int64_t query, int64_t head, int64_t window) {
    return (float *) ((char *) dst->data + ((window * shape.queries + query) * shape.heads + head) * dst->nb[1]);
}

}  // namespace shruti

#endif
#endif
