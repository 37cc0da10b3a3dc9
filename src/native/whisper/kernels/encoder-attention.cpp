// Attention of a whole window to itself, or of a prompt to a window: keys and values are packed, then threads take some
// queries of a head in turn.
#include "settings.h"
#include "whole-attention.h"
#include "word-attention.h"

#include "ggml-cpu-impl.h"

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

// Work memory: packed keys and values of all heads, then what each thread needs.
template <typename Kind> struct Layout {
    size_t keys, values, of_thread;
    explicit Layout(const AttentionShape & s)
        : keys(s.windows * s.heads * Kind::key_bytes(s)), values(s.windows * s.heads * Kind::value_bytes(s)), of_thread(Kind::thread_bytes(s)) {}
};

template <typename Kind> size_t work_size(int threads, const AttentionShape & shape) {
    const Layout<Kind> layout(shape);
    return layout.keys + layout.values + threads * layout.of_thread + 128;
}

template <typename Kind> bool compute(const ggml_compute_params * params, const AttentionShape & shape, ggml_tensor * dst) {
    const Layout<Kind> layout(shape);
    char *             memory = (char *) (((uintptr_t) params->wdata + 63) & ~(uintptr_t) 63);
    if (memory + layout.keys + layout.values + params->nth * layout.of_thread > (char *) params->wdata + params->wsize) return false;
    char *        keys = memory;
    char *        values = memory + layout.keys;
    char *        own = memory + layout.keys + layout.values + params->ith * layout.of_thread;
    const int64_t heads = shape.heads * shape.windows, tasks_of_head = (shape.queries + Kind::kQueries - 1) / Kind::kQueries;
    const size_t  key_bytes = Kind::key_bytes(shape), value_bytes = Kind::value_bytes(shape);
    for (int64_t i = params->ith; i < 2 * heads; i += params->nth) {
        const int64_t h = i / 2, head = h % shape.heads, window = h / shape.heads;
        if (i % 2 == 0)
            Kind::pack_keys(dst->src[1], shape, head, window, keys + h * key_bytes);
        else
            Kind::pack_values(dst->src[2], shape, head, window, values + h * value_bytes);
    }
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, 0);
    ggml_barrier(params->threadpool);
    begin_blocks();
    for (;;) {
        const int64_t task = ggml_threadpool_chunk_add(params->threadpool, 1);
        if (task >= heads * tasks_of_head) break;
        const int64_t h = task / tasks_of_head;
        Kind::attend(dst, shape, task % tasks_of_head * Kind::kQueries, h % shape.heads, h / shape.heads, keys + h * key_bytes,
                     values + h * value_bytes, own);
    }
    end_blocks();
    return true;
}

struct Functions {
    size_t (*work_size)(int threads, const AttentionShape & shape);
    bool (*compute)(const ggml_compute_params * params, const AttentionShape & shape, ggml_tensor * dst);
};

template <typename Kind> constexpr Functions kFunctions = {work_size<Kind>, compute<Kind>};

const Functions & functions_for(const AttentionShape & shape, const ggml_tensor * dst) {
#ifdef SHRUTI_BYTES
    if (WholeAttention<ByteNumbers>::takes(shape, dst)) return kFunctions<WholeAttention<ByteNumbers>>;
#endif
#ifdef SHRUTI_SHORTS
    if (WholeAttention<ShortNumbers>::takes(shape, dst)) return kFunctions<WholeAttention<ShortNumbers>>;
#endif
    return dst->src[1]->type == GGML_TYPE_Q8_0 ? kFunctions<WordAttention<RowOfBytes>> : kFunctions<WordAttention<RowOfHalves>>;
}

}  // namespace

size_t encoder_attention_work_size(int threads, const ggml_tensor * node) {
    AttentionShape shape;
    return read_shape(node, shape) ? functions_for(shape, node).work_size(threads, shape) : 0;
}

bool encoder_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    AttentionShape shape;
    return read_shape(dst, shape) && functions_for(shape, dst).compute(params, shape, dst);
}

}  // namespace shruti

#endif
