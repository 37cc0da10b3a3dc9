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

// A function of each number of a result.
enum class Activation { kNone, kGelu, kSilu, kSigmoid, kRelu };

// What is done with a product before it is stored.
struct Epilogue {
    const float *       bias = nullptr;  // a number for each column
    float               factor = 1;      // of the product alone
    const ggml_tensor * add = nullptr;   // of the product's shape; may share its memory
    Activation          activation = Activation::kNone;
};

size_t product_work_size(int threads, const ggml_tensor * node);
// Writes the product that `node` is, and what follows it, into `dst`.
bool product(const ggml_compute_params * params, const ggml_tensor * node, ggml_tensor * dst, const Epilogue & epilogue);

// As shruti_fuse.
int  fused_product(const ggml_compute_params * params, const ggml_cgraph * graph, int first);
bool gelu(const ggml_compute_params * params, ggml_tensor * dst);

// As shruti_fuse.
int fused_normalization(const ggml_compute_params * params, const ggml_cgraph * graph, int first);

// Writes the rows that the product of a convolution multiplies.
bool convolution_inputs(const ggml_compute_params * params, ggml_tensor * dst);

// Takes products with 1 to 31 tokens.
size_t token_product_work_size(int threads, const ggml_tensor * node);
bool   token_product(const ggml_compute_params * params, ggml_tensor * dst);

size_t encoder_attention_work_size(int threads, const ggml_tensor * node);
bool   encoder_attention(const ggml_compute_params * params, ggml_tensor * dst);

// NULL unless fast.
const shruti_functions * functions();

}  // namespace shruti

#endif
