// Operations of FastConformers: what conformer-functions.h describes.
#ifndef SHRUTI_CONFORMER_H
#define SHRUTI_CONFORMER_H

#include <cstddef>
#include <cstdint>

struct ggml_tensor;

namespace shruti {

size_t relative_attention_bytes(int64_t depth, int64_t frames);
void   relative_attention(ggml_tensor * dst, int ith, int nth, void * unused);

bool takes_gated_convolution(int64_t width, int64_t taps);
void gated_convolution(ggml_tensor * dst, int ith, int nth, void * unused);

size_t halving_bytes(int64_t bands, int64_t channels);
void   halving_convolutions(ggml_tensor * dst, int ith, int nth, void * unused);

}  // namespace shruti

#endif
