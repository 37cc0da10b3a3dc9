// Kernels of our own for whisper's shapes, compiled into each of ggml's libraries for a family of processors.
// ggml calls them where `SHRUTI_KERNELS` is defined (patches/nodejs-whisper@0.3.1.patch); each returns false for what
// it does not take, which ggml's own code then computes. patches/README.md describes what each brings.
#ifndef SHRUTI_KERNELS_H
#define SHRUTI_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_compute_params;
struct ggml_cgraph;

// Computes a node, called by all threads of the pool. Returns the same on all of them.
bool shruti_flash_attention(const struct ggml_compute_params * params, struct ggml_tensor * dst);

bool shruti_product(const struct ggml_compute_params * params, struct ggml_tensor * dst);

bool shruti_gelu(const struct ggml_compute_params * params, struct ggml_tensor * dst);

// Computes a node of a graph together with those that follow it. Returns the number of those; 0 when nothing is done.
int shruti_fuse(const struct ggml_compute_params * params, const struct ggml_cgraph * graph, int node);

// Returns the bytes of work memory that a node needs, 0 for one that no kernel takes.
size_t shruti_work_size(int threads, const struct ggml_tensor * node);

// Returns a function that the binding or whisper.cpp asks for by name; NULL for other names. See functions.h.
void * shruti_proc_address(const char * name);

#ifdef __cplusplus
}
#endif

#endif
