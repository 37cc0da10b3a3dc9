// Chooses the kernel for a node.
#include "shruti-kernels.h"
#include "conformer-functions.h"
#include "conformer.h"
#include "settings.h"
#include "shruti-functions.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>

bool shruti::is_fast = true;

extern "C" {

static const shruti_functions * functions() { return shruti::functions(); }

#ifdef SHRUTI_VECTORS

static const shruti_conformer_functions kConformer = {shruti::relative_attention,      shruti::relative_attention_bytes,
                                                      shruti::gated_convolution,       shruti::takes_gated_convolution,
                                                      shruti::halving_convolutions,    shruti::halving_bytes};

static const shruti_conformer_functions * conformer_functions() { return shruti::is_fast ? &kConformer : nullptr; }

#else

static const shruti_conformer_functions * conformer_functions() { return nullptr; }

#endif

static void set_fast(bool is_fast) { shruti::is_fast = is_fast; }

#ifdef SHRUTI_VECTORS

bool shruti_flash_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    return shruti::is_fast && !params->use_ref && 
           (shruti::cross_attention(params, dst) || shruti::encoder_attention(params, dst));
}

bool shruti_product(const ggml_compute_params * params, ggml_tensor * dst) {
    return shruti::is_fast && !params->use_ref && (shruti::product(params, dst, dst, {}) || shruti::token_product(params, dst));
}

bool shruti_gelu(const ggml_compute_params * params, ggml_tensor * dst) {
    return shruti::is_fast && !params->use_ref && shruti::gelu(params, dst);
}

int shruti_fuse(const ggml_compute_params * params, const ggml_cgraph * graph, int node) {
    if (!shruti::is_fast || params->use_ref) return 0;
    ggml_tensor * const * nodes = graph->nodes + node;
    switch (nodes[0]->op) {
        case GGML_OP_MUL_MAT: return shruti::fused_product(params, graph, node);
        case GGML_OP_NORM: return shruti::fused_normalization(params, graph, node);
        // With the node that follows, for which nothing is computed.
        case GGML_OP_IM2COL:
            return node + 1 < graph->n_nodes && nodes[1]->op == GGML_OP_RESHAPE && shruti::convolution_inputs(params, nodes[0]) ? 1 : 0;
        default: return 0;
    }
}

size_t shruti_work_size(int threads, const ggml_tensor * node) {
    if (!shruti::is_fast) return 0;
    if (node->op == GGML_OP_FLASH_ATTN_EXT) 
        return std::max(shruti::cross_attention_work_size(threads, node), shruti::encoder_attention_work_size(threads, node));
    if (node->op == GGML_OP_MUL_MAT) 
        return std::max(shruti::product_work_size(threads, node), shruti::token_product_work_size(threads, node));
    return 0;
}

#else

bool   shruti_flash_attention(const ggml_compute_params *, ggml_tensor *) { return false; }
bool   shruti_product(const ggml_compute_params *, ggml_tensor *) { return false; }
bool   shruti_gelu(const ggml_compute_params *, ggml_tensor *) { return false; }
int    shruti_fuse(const ggml_compute_params *, const ggml_cgraph *, int) { return 0; }
size_t shruti_work_size(int, const ggml_tensor *) { return 0; }

#endif

void * shruti_proc_address(const char * name) {
    if (strcmp(name, "shruti_set_fast") == 0) return (void *) set_fast;
    if (strcmp(name, "shruti_functions") == 0) return (void *) functions;
    if (strcmp(name, "shruti_conformer_functions") == 0) return (void *) conformer_functions;
    return nullptr;
}
}
