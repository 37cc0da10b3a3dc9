#include "tdt-encoder.h"

#include <algorithm>
#include <cmath>

namespace {

/** More than 64 layers have. */
constexpr size_t kMostNodes = 8192;
constexpr float  kNormEpsilon = 1e-5f;
/** Kernels of the subsampling have three frames, and those that halve the frames begin one before the first. */
constexpr int kStride = 2;
constexpr int kPadding = 1;

int Halved(int frames) { return (frames - 1) / kStride + 1; }

/** Frames of each sound after each convolution that halves them, and of the longest one. */
struct Lengths {
    std::vector<int> each;
    int              longest = 0;
    explicit Lengths(std::vector<int> of) : each(std::move(of)), longest(*std::max_element(each.begin(), each.end())) {}
    bool IsEven() const {
        return std::all_of(each.begin(), each.end(), [this](int length) { return length == longest; });
    }
    Lengths Half() const {
        std::vector<int> halves;
        for (const int length : each) halves.push_back(Halved(length));
        return Lengths(halves);
    }
};

}  // namespace

struct TdtEncoder::Batch {
    /** Of the features, then after each convolution that halves them. */
    std::vector<Lengths> lengths;
    int64_t              sounds;
    /** Nothing needs a mask when all are equally long. */
    bool           is_masked;
    const Lengths& Encoded() const { return lengths.back(); }
    int64_t        Frames() const { return lengths.back().longest; }
};

TdtEncoder::TdtEncoder(const TdtWeights& weights, TdtComputer& computer)
    : weights(weights), computer(computer), graph(computer.backend) {}

std::vector<TdtEncoder::Encoded> TdtEncoder::Encode(const std::vector<std::vector<float>>& sounds,
                                                    ComputeScope&                          scope) {
    std::vector<int> frames;
    for (const auto& sound : sounds) frames.push_back(static_cast<int>(sound.size()) / weights.sizes.mels);
    Batch batch{{Lengths(frames)}, static_cast<int64_t>(sounds.size()), false};
    for (const auto& step : weights.subsampling)
        if (step.halves) batch.lengths.push_back(batch.lengths.back().Half());
    batch.is_masked = !batch.lengths.front().IsEven();
    graph.Begin(kMostNodes);
    Inputs       inputs;
    ggml_tensor* result = Build(batch, inputs);
    ggml_set_output(result);
    graph.Add(result);
    graph.Allocate();
    Fill(batch, inputs, sounds);
    computer.Compute(graph, scope);
    std::vector<Encoded> encoded;
    const size_t         row = static_cast<size_t>(result->ne[0]);
    const auto*          values = static_cast<const float*>(result->data);
    for (size_t n = 0; n < sounds.size(); n++) {
        const float* first = values + n * static_cast<size_t>(batch.Frames()) * row;
        const int    count = batch.Encoded().each[n];
        encoded.push_back({{first, first + static_cast<size_t>(count) * row}, count});
    }
    return encoded;
}

ggml_tensor* TdtEncoder::Build(const Batch& batch, Inputs& inputs) {
    ggml_context* c = graph.context;
    ggml_tensor*  x = Subsample(batch, inputs);
    if (weights.sizes.scales_input) x = ggml_scale(c, x, std::sqrt(static_cast<float>(weights.sizes.width)));
    inputs.positions = ggml_new_tensor_2d(c, GGML_TYPE_F32, weights.sizes.width, 2 * batch.Frames() - 1);
    ggml_set_input(inputs.positions);
    if (batch.is_masked) {
        inputs.attention_mask = ggml_new_tensor_4d(c, GGML_TYPE_F32, batch.Frames(), batch.Frames(), 1, batch.sounds);
        ggml_set_input(inputs.attention_mask);
    }
    for (const TdtLayer& layer : weights.layers) x = Layer(layer, x, batch, inputs);
    return Apply(weights.joint_encoder, x);
}

/** Returns width × frames of all sounds, one sound after the other. Between: bands × frames × channels × sounds. */
ggml_tensor* TdtEncoder::Subsample(const Batch& batch, Inputs& inputs) {
    ggml_context* c = graph.context;
    ggml_tensor*  x = ggml_new_tensor_4d(c, GGML_TYPE_F32, weights.sizes.mels, batch.lengths.front().longest, 1, batch.sounds);
    ggml_set_input(x);
    inputs.features = x;
    for (const TdtSubsampling& step : weights.subsampling) {
        const int stride = step.halves ? kStride : 1;
        const int padding = step.halves ? kPadding : 0;
        x = step.is_depthwise ? ggml_conv_2d_dw_direct(c, step.weight, x, stride, stride, padding, padding, 1, 1)
                              : ggml_conv_2d(c, step.weight, x, stride, stride, padding, padding, 1, 1);
        if (step.bias) x = ggml_add(c, x, ggml_reshape_4d(c, step.bias, 1, 1, step.bias->ne[0], 1));
        if (!step.is_rectified) continue;
        x = ggml_relu(c, x);
        if (!batch.is_masked) continue;
        ggml_tensor* mask = ggml_new_tensor_4d(c, GGML_TYPE_F32, 1, x->ne[1], 1, batch.sounds);
        ggml_set_input(mask);
        inputs.masks.push_back(mask);
        x = ggml_mul(c, x, mask);
    }
    const int64_t bands = x->ne[0], channels = x->ne[2];
    x = ggml_cont(c, ggml_permute(c, x, 0, 2, 1, 3));
    return Apply(weights.subsampling_out, ggml_reshape_2d(c, x, bands * channels, batch.Frames() * batch.sounds));
}

ggml_tensor* TdtEncoder::Layer(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context* c = graph.context;
    x = ggml_add(c, x, FeedForward(layer.norm_ff1, layer.ff1_up, layer.ff1_down, x));
    x = ggml_add(c, x, Attention(layer, Normalize(layer.norm_attention, x), batch, inputs));
    x = ggml_add(c, x, Convolution(layer, Normalize(layer.norm_convolution, x), batch, inputs));
    x = ggml_add(c, x, FeedForward(layer.norm_ff2, layer.ff2_up, layer.ff2_down, x));
    return Normalize(layer.norm_out, x);
}

ggml_tensor* TdtEncoder::FeedForward(const TdtLinear& norm, const TdtLinear& up, const TdtLinear& down,
                                     ggml_tensor* x) {
    ggml_context* c = graph.context;
    x = ggml_silu(c, Apply(up, Normalize(norm, x)));
    return ggml_scale(c, Apply(down, x), 0.5f);
}

/**
 * Attention with relative positions. A row of `relative` has the score of each distance, from the farthest frame before to
 * the farthest behind; the view shifts each row so that a column is a frame.
 */
ggml_tensor* TdtEncoder::Attention(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context* c = graph.context;
    const int64_t heads = weights.sizes.heads, depth = weights.sizes.width / heads;
    const int64_t frames = batch.Frames(), sounds = batch.sounds;
    const auto    split = [&](const TdtLinear& linear) {
        return ggml_reshape_4d(c, Apply(linear, x), depth, heads, frames, sounds);
    };
    ggml_tensor* query = split(layer.query);
    ggml_tensor* by_content = ggml_permute(c, ggml_add(c, query, layer.bias_u), 0, 2, 1, 3);
    ggml_tensor* by_position = ggml_cont(c, ggml_permute(c, ggml_add(c, query, layer.bias_v), 0, 2, 1, 3));
    ggml_tensor* key = ggml_permute(c, split(layer.key), 0, 2, 1, 3);
    ggml_tensor* value = ggml_cont(c, ggml_permute(c, split(layer.value), 1, 2, 0, 3));
    ggml_tensor* position = ggml_mul_mat(c, layer.position, inputs.positions);
    position = ggml_permute(c, ggml_reshape_3d(c, position, depth, heads, 2 * frames - 1), 0, 2, 1, 3);

    ggml_tensor* relative = ggml_mul_mat(c, position, by_position);
    const size_t value_bytes = relative->nb[0];
    relative = ggml_view_4d(c, relative, frames, frames, heads, sounds, relative->nb[1] - value_bytes, relative->nb[2],
                            relative->nb[3], static_cast<size_t>(frames - 1) * value_bytes);
    ggml_tensor* scores = ggml_add(c, ggml_mul_mat(c, key, by_content), relative);
    scores = ggml_soft_max_ext(c, scores, inputs.attention_mask, 1.0f / std::sqrt(static_cast<float>(depth)), 0.0f);
    ggml_tensor* mixed = ggml_cont(c, ggml_permute(c, ggml_mul_mat(c, value, scores), 0, 2, 1, 3));
    return Apply(layer.attention_out, ggml_reshape_2d(c, mixed, depth * heads, frames * sounds));
}

ggml_tensor* TdtEncoder::Convolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context* c = graph.context;
    const int64_t width = weights.sizes.width, frames = batch.Frames(), sounds = batch.sounds;
    x = Apply(layer.convolution_in, x);
    ggml_tensor* signal = ggml_view_2d(c, x, width, x->ne[1], x->nb[1], 0);
    ggml_tensor* gate = ggml_view_2d(c, x, width, x->ne[1], x->nb[1], static_cast<size_t>(width) * x->nb[0]);
    x = ggml_reshape_3d(c, ggml_mul(c, signal, ggml_sigmoid(c, gate)), width, frames, sounds);
    if (batch.is_masked) x = ggml_mul(c, x, ggml_reshape_3d(c, inputs.masks.back(), 1, frames, sounds));
    const int padding = (weights.sizes.kernel - 1) / 2;
    x = ggml_pad_ext(c, ggml_cont(c, ggml_permute(c, x, 1, 0, 2, 3)), padding, padding, 0, 0, 0, 0, 0, 0);
    x = ggml_ssm_conv(c, x, layer.convolution_depth.weight);
    // At import its bias took in the batch normalization.
    x = ggml_silu(c, ggml_add(c, x, layer.convolution_depth.bias));
    return Apply(layer.convolution_out, ggml_reshape_2d(c, x, width, frames * sounds));
}

ggml_tensor* TdtEncoder::Apply(const TdtLinear& linear, ggml_tensor* x) {
    x = ggml_mul_mat(graph.context, linear.weight, x);
    return linear.bias == nullptr ? x : ggml_add(graph.context, x, linear.bias);
}

ggml_tensor* TdtEncoder::Normalize(const TdtLinear& norm, ggml_tensor* x) {
    ggml_context* c = graph.context;
    return ggml_add(c, ggml_mul(c, ggml_norm(c, x, kNormEpsilon), norm.weight), norm.bias);
}

void TdtEncoder::Fill(const Batch& batch, const Inputs& inputs, const std::vector<std::vector<float>>& sounds) {
    const size_t row = static_cast<size_t>(weights.sizes.mels) * batch.lengths.front().longest;
    auto*        features = static_cast<float*>(inputs.features->data);
    std::fill(features, features + row * sounds.size(), 0.0f);
    for (size_t n = 0; n < sounds.size(); n++) std::copy(sounds[n].begin(), sounds[n].end(), features + n * row);
    const int    frames = static_cast<int>(batch.Frames());
    const float* positions = Positions(frames);
    std::copy(positions, positions + ggml_nelements(inputs.positions), static_cast<float*>(inputs.positions->data));
    if (!batch.is_masked) return;
    for (size_t step = 0; step < inputs.masks.size(); step++) {
        const Lengths& lengths = batch.lengths[step + 1];
        auto*          mask = static_cast<float*>(inputs.masks[step]->data);
        for (size_t n = 0; n < sounds.size(); n++)
            for (int at = 0; at < lengths.longest; at++) *mask++ = at < lengths.each[n] ? 1.0f : 0.0f;
    }
    auto* mask = static_cast<float*>(inputs.attention_mask->data);
    for (size_t n = 0; n < sounds.size(); n++)
        for (int query = 0; query < frames; query++)
            for (int key = 0; key < frames; key++) *mask++ = key < batch.Encoded().each[n] ? 0.0f : -INFINITY;
}

/** Returns rows of sines and cosines for the distances from `frames` − 1 down to 1 − `frames`. */
const float* TdtEncoder::Positions(int frames) {
    const int width = weights.sizes.width;
    if (frames > table_frames) {
        table_frames = frames;
        table.resize(static_cast<size_t>(2 * frames - 1) * width);
        for (int row = 0; row < 2 * frames - 1; row++) {
            const double distance = frames - 1 - row;
            for (int n = 0; n < width; n += 2) {
                const double angle = distance * std::exp(-n * std::log(10000.0) / width);
                table[static_cast<size_t>(row) * width + n] = static_cast<float>(std::sin(angle));
                table[static_cast<size_t>(row) * width + n + 1] = static_cast<float>(std::cos(angle));
            }
        }
    }
    return &table[static_cast<size_t>(table_frames - frames) * width];
}
