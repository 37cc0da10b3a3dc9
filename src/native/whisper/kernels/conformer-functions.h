// Operations of FastConformers that the addon puts into its graphs (src/native/tdt), by `shruti_conformer_functions`. Each gets its
// inputs as `dst->src`, and is called by all threads.
#ifndef SHRUTI_CONFORMER_FUNCTIONS_H
#define SHRUTI_CONFORMER_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_tensor;

// As ggml_custom_op_t.
typedef void (*shruti_operation)(struct ggml_tensor * dst, int ith, int nth, void * unused);

struct shruti_conformer_functions {
    // Attention with relative positions: heads × depth, frames × sounds. Frames after the last one of a sound become 0.
    //   0, 1, 2: queries, keys and values, heads × depth, frames × sounds
    //   3: positions, heads × depth, 2 × frames − 1 distances, the farthest frame before first
    //   4, 5: what is added to queries for the product with keys, and with positions: depth × heads
    //   6: frames of each sound, 32 bits
    //   7: work memory, attention_bytes() for each thread
    shruti_operation attention;
    // Returns the work memory of a thread; 0: such heads are not taken.
    size_t (*attention_bytes)(int64_t depth, int64_t frames);
    // The first half of each row times the sigmoid of the second one, a convolution of each channel with its own taps, a bias and
    // SiLU: width, frames × sounds.
    //   0: 2 × width, frames × sounds
    //   1: taps × width, whose number is odd
    //   2: bias, width
    //   3: frames of each sound, 32 bits; those that follow count as 0
    shruti_operation gated_convolution;
    bool (*takes_gated_convolution)(int64_t width, int64_t taps);
    // Two convolutions that halve bands and frames: the first makes channels, whose negative values become 0, and the second has
    // a kernel for each channel: channels × bands × frames × sounds.
    //   0: features, bands × frames × 1 × sounds
    //   1, 2: kernels 3 × 3 × 1 × channels, and bias of the first
    //   3, 4: those of the second
    //   5: frames of each sound after the first, 32 bits; those that follow count as 0
    //   6: work memory, halving_bytes() for each thread
    shruti_operation halving_convolutions;
    // Returns the work memory of a thread; 0: such a model is not taken.
    size_t (*halving_bytes)(int64_t bands, int64_t channels);
};

// NULL where ggml's own operations shall compute everything.
typedef const struct shruti_conformer_functions * (*shruti_conformer_functions_t)(void);

#ifdef __cplusplus
}
#endif

#endif
