// Rows of weights of any type as floats.
#ifndef SHRUTI_WIDENED_ROWS_H
#define SHRUTI_WIDENED_ROWS_H

#include "quantized.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {

// Widens whole blocks of 4 or 5 bits. Each number is rounded once at most, as by ggml's function, whose numbers these are.
template <typename Type> void widen_blocks(const char * from, int64_t count, float * to) {
    const typename Type::Block * block = (const typename Type::Block *) from;
    for (int64_t at = 0; at < count; at += 32, block++) {
        const Vec factor = fill(single(block->d));
        Vec       least;
        if constexpr (Type::kHasLeast)
            least = fill(single(block->m));
        else
            least = mul(factor, fill(-Type::kOffset));
        alignas(32) int8_t numbers[32];
        store_bytes(numbers, Type::bytes(*block));
        SHRUTI_UNROLL
        for (int64_t i = 0; i < 32; i += kLanes) store(to + at + i, fma(factor, load_bytes(numbers + i), least));
    }
}

inline void widen_bytes(const char * from, int64_t count, float * to) {
    const block_q8_0 * block = (const block_q8_0 *) from;
    for (int64_t at = 0; at < count; at += 32, block++) {
        const Vec factor = fill(single(block->d));
        SHRUTI_UNROLL
        for (int64_t i = 0; i < 32; i += kLanes) store(to + at + i, mul(factor, load_bytes(block->qs + i)));
    }
}

inline void widen_halves(const char * from, int64_t count, float * to) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load_half((const uint16_t *) from + i));
    for (; i < count; i++) to[i] = GGML_FP16_TO_FP32(((const ggml_fp16_t *) from)[i]);
}

// Widens `count` numbers, whole blocks of their type.
inline void widen_numbers(ggml_type type, const char * from, int64_t count, float * to) {
    switch (type) {
        case GGML_TYPE_F32: memcpy(to, from, count * sizeof(float)); break;
        case GGML_TYPE_F16: widen_halves(from, count, to); break;
        case GGML_TYPE_Q8_0: widen_bytes(from, count, to); break;
        case GGML_TYPE_Q5_0: widen_blocks<OfQ5_0>(from, count, to); break;
        case GGML_TYPE_Q5_1: widen_blocks<OfQ5_1>(from, count, to); break;
        case GGML_TYPE_Q4_0: widen_blocks<OfQ4_0>(from, count, to); break;
        case GGML_TYPE_Q4_1: widen_blocks<OfQ4_1>(from, count, to); break;
        default: ggml_get_type_traits(type)->to_float(from, to, count);
    }
}

}  // namespace shruti

#endif
#endif
