// What the files of the kernels share.
#ifndef SHRUTI_SETTINGS_H
#define SHRUTI_SETTINGS_H

#include "ggml.h"

struct ggml_compute_params;
struct shruti_functions;

namespace shruti {

// False: ggml's own code computes everything. Set before a model is loaded.
extern bool is_fast;

size_t cross_attention_work_size(int threads, const ggml_tensor * node);
bool   cross_attention(const ggml_compute_params * params, ggml_tensor * dst);

// NULL unless fast.
const shruti_functions * functions();

}  // namespace shruti

#endif
