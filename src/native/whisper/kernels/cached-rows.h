// A head's part of a row of cached keys or values: numbers of f16, or of 8 bits in blocks of 32 as ggml's q8_0 has them.
#ifndef SHRUTI_CACHED_ROWS_H
#define SHRUTI_CACHED_ROWS_H

#include "quantized.h"

#ifdef SHRUTI_VECTORS

#include "ggml.h"

namespace shruti {

// Both have one of the types below.
inline bool are_cached_rows(const ggml_tensor * k, const ggml_tensor * v) {
    return (k->type == GGML_TYPE_F16 || k->type == GGML_TYPE_Q8_0) && v->type == k->type && k->nb[0] == ggml_type_size(k->type) &&
           v->nb[0] == k->nb[0];
}

// For each type: `multiply`, the products of a row with `query`, whose lanes have to be added up; `add`, which adds a row
// times `weight` to `sums`; `load_at`, numbers from place `d` on.

struct RowOfHalves {
    static Vec load_at(const char * row, int64_t d) { return load_half((const uint16_t *) row + d); }

    template <int W> static Vec multiply(const float * query, const char * row) {
        Vec x = mul(load(query), load_at(row, 0));
        SHRUTI_UNROLL
        for (int d = kLanes; d < W; d += kLanes) x = fma(load(query + d), load_at(row, d), x);
        return x;
    }

    template <int W> static void add(Vec weight, const char * row, Vec * sums) {
        SHRUTI_UNROLL
        for (int d = 0; d < W; d += kLanes) sums[d / kLanes] = fma(weight, load_at(row, d), sums[d / kLanes]);
    }
};

struct RowOfBytes {
    static constexpr int kBlock = QK8_0;

    static Vec load_at(const char * row, int64_t d) {
        const block_q8_0 & block = ((const block_q8_0 *) row)[d / kBlock];
        return mul(fill_half(block.d), load_bytes(block.qs + d % kBlock));
    }

    template <int W> static Vec multiply(const float * query, const char * row) {
        Vec sum = zero();
        SHRUTI_UNROLL
        for (int b = 0; b < W / kBlock; b++, query += kBlock) {
            const block_q8_0 & block = ((const block_q8_0 *) row)[b];
            Vec                x = mul(load(query), load_bytes(block.qs));
            SHRUTI_UNROLL
            for (int d = kLanes; d < kBlock; d += kLanes) x = fma(load(query + d), load_bytes(block.qs + d), x);
            sum = fma(fill_half(block.d), x, sum);
        }
        return sum;
    }

    template <int W> static void add(Vec weight, const char * row, Vec * sums) {
        SHRUTI_UNROLL
        for (int b = 0; b < W / kBlock; b++, sums += kBlock / kLanes) {
            const block_q8_0 & block = ((const block_q8_0 *) row)[b];
            const Vec          factor = mul(weight, fill_half(block.d));
            SHRUTI_UNROLL
            for (int d = 0; d < kBlock; d += kLanes) sums[d / kLanes] = fma(factor, load_bytes(block.qs + d), sums[d / kLanes]);
        }
    }
};

}  // namespace shruti

#endif
#endif
