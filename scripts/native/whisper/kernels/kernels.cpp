// Chooses the kernel for a node.
#include "shruti-kernels.h"
#include "settings.h"
#include "shruti-functions.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"

#include <cstring>

bool shruti::is_fast = true;

extern "C" {

static const shruti_functions * functions() { return shruti::functions(); }

static void set_fast(bool is_fast) { shruti::is_fast = is_fast; }

#ifdef SHRUTI_VECTORS

bool shruti_flash_attention(const ggml_compute_params * params, ggml_tensor * dst) {
    return shruti::is_fast && !params->use_ref && shruti::cross_attention(params, dst);
}

size_t shruti_work_size(int threads, const ggml_tensor * node) {
    if (!shruti::is_fast) return 0;
    if (node->op == GGML_OP_FLASH_ATTN_EXT) return shruti::cross_attention_work_size(threads, node);
    return 0;
}

#else

bool   shruti_flash_attention(const ggml_compute_params *, ggml_tensor *) { return false; }
size_t shruti_work_size(int, const ggml_tensor *) { return 0; }

#endif

void * shruti_proc_address(const char * name) {
    if (strcmp(name, "shruti_set_fast") == 0) return (void *) set_fast;
    if (strcmp(name, "shruti_functions") == 0) return (void *) functions;
    return nullptr;
}
}
