// The inputs of the encoder's convolutions, a row for each output: three neighbouring numbers of each channel, as f16.
#include "settings.h"
#include "vectors.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kWidth = 3;
// Rows that are written together: a number of each channel goes to all of them while their lines stay in the first cache.
constexpr int64_t kTogether = 32;
constexpr int64_t kMostStep = 2;

struct Shape {
    int64_t step, length, channels, rows;
};

bool read_shape(const ggml_tensor * dst, Shape & shape) {
    const ggml_tensor * kernel = dst->src[0];
    const ggml_tensor * x = dst->src[1];
    // Steps, paddings and distances of both directions; whether there are two.
    int32_t options[7];
    memcpy(options, dst->op_params, sizeof options);
    shape = {options[0], x->ne[0], x->ne[1], dst->ne[1]};
    return options[6] == 0 && options[2] == 1 && options[4] == 1 && shape.step >= 1 && shape.step <= kMostStep && kernel->ne[0] == kWidth &&
           dst->type == GGML_TYPE_F16 && ggml_is_contiguous(dst) && dst->ne[0] == kWidth * shape.channels && dst->ne[2] == 1 &&
           dst->ne[3] == 1 && x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float) && x->ne[2] == 1 && x->ne[3] == 1;
}

// Numbers `first` to before `first + count` of a channel as f16; zeros where there are none.
void narrow(const float * channel, int64_t length, int64_t first, int64_t count, uint16_t * out) {
    int64_t i = 0;
    for (; i < count && first + i < 0; i++) out[i] = 0;
    const int64_t known = std::min(count, length - first);
    for (; i + kLanes <= known; i += kLanes) store_half(out + i, load(channel + first + i));
    for (; i < known; i++) out[i] = GGML_FP32_TO_FP16(channel[first + i]);
    for (; i < count; i++) out[i] = 0;
}

}  // namespace

bool convolution_inputs(const ggml_compute_params * params, ggml_tensor * dst) {
    Shape shape;
    if (!read_shape(dst, shape)) return false;
    const ggml_tensor * x = dst->src[1];
    const int64_t       row_length = kWidth * shape.channels;
    uint16_t            numbers[kMostStep * kTogether + kWidth];
    for (int64_t row = params->ith * kTogether; row < shape.rows; row += params->nth * kTogether) {
        const int64_t rows = std::min(kTogether, shape.rows - row);
        for (int64_t channel = 0; channel < shape.channels; channel++) {
            narrow((const float *) ((const char *) x->data + channel * x->nb[1]), shape.length, row * shape.step - 1,
                   (rows - 1) * shape.step + kWidth, numbers);
            uint16_t * out = (uint16_t *) dst->data + row * row_length + kWidth * channel;
            for (int64_t r = 0; r < rows; r++, out += row_length) memcpy(out, numbers + r * shape.step, kWidth * sizeof(uint16_t));
        }
    }
    return true;
}

}  // namespace shruti

#endif
