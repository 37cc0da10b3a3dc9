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
/** ggml multiplies blocks of rows whose numbers are a multiple of this. */
constexpr int64_t kMultiple = 16;
/**
 * Frames of features that are encoded at once: 30 s, which bounds the memory, or 60 s where no result is as long as they are. Each
 * sound may have a frame more.
 */
constexpr size_t kMostFrames = 3008;
constexpr size_t kMostHalvedFrames = 6008;

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

TdtEncoder::TdtEncoder(const TdtWeights& weights, TdtPositions& positions, TdtComputer& computer)
    : weights(weights), positions(positions), computer(computer), graph(computer.backend) {}

size_t TdtEncoder::HalvingBytes() const {
    const auto& steps = weights.subsampling;
    const bool  is_separable = steps.size() > 1 && steps[1].is_depthwise && steps[0].bias != nullptr && steps[1].bias != nullptr;
    if (computer.operations == nullptr || !is_separable) return 0;
    return computer.operations->halving_bytes(weights.sizes.mels, steps[0].bias->ne[0]);
}

size_t TdtEncoder::MostFrames() const { return HalvingBytes() > 0 ? kMostHalvedFrames : kMostFrames; }

std::vector<TdtEncoder::Encoded> TdtEncoder::Encode(const std::vector<std::vector<float>>& sounds,
                                                    ComputeScope&                          scope) {
    std::vector<int> frames;
    for (const auto& sound : sounds) frames.push_back(static_cast<int>(sound.size()) / weights.sizes.mels);
    Batch batch{{Lengths(frames)}, static_cast<int64_t>(sounds.size()), false};
    for (const auto& step : weights.subsampling)
        if (step.halves) batch.lengths.push_back(batch.lengths.back().Half());
    batch.is_masked = !batch.lengths.front().IsEven();
    distances = positions.For(static_cast<int>(batch.Frames()), computer, scope);
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
    ChooseOperations(batch, inputs);
    ggml_tensor* x = Subsample(batch, inputs);
    if (weights.sizes.scales_input) x = ggml_scale(c, x, std::sqrt(static_cast<float>(weights.sizes.width)));
    if (batch.is_masked && !own.has_attention) {
        inputs.attention_mask = ggml_new_tensor_4d(c, GGML_TYPE_F32, batch.Frames(), batch.Frames(), 1, batch.sounds);
        ggml_set_input(inputs.attention_mask);
    }
    for (size_t n = 0; n < weights.layers.size(); n++) x = Layer(n, x, batch, inputs);
    return Apply(weights.joint_encoder, x);
}

void TdtEncoder::ChooseOperations(const Batch& batch, Inputs& inputs) {
    own = {};
    const auto* operations = computer.operations;
    if (operations == nullptr) return;
    const size_t halving = HalvingBytes();
    const size_t attention = operations->attention_bytes(weights.sizes.width / weights.sizes.heads, batch.Frames());
    own.has_halving = halving > 0;
    own.has_attention = attention > 0;
    own.has_convolution = operations->takes_gated_convolution(weights.sizes.width, weights.sizes.kernel);
    if (own.has_attention || own.has_convolution) own.counts = FrameCounts(batch.lengths.size() - 1, batch, inputs);
    const size_t bytes = std::max(halving, attention) * static_cast<size_t>(computer.Threads());
    if (bytes > 0) own.memory = ggml_new_tensor_1d(graph.context, GGML_TYPE_I8, static_cast<int64_t>(bytes));
}

ggml_tensor* TdtEncoder::Operation(shruti_operation operation, const Shape& shape, std::vector<ggml_tensor*> of) {
    const auto& sizes = shape.sizes;
    return ggml_custom_4d(graph.context, GGML_TYPE_F32, sizes[0], sizes[1], sizes[2], sizes[3], of.data(),
                          static_cast<int>(of.size()), operation, GGML_N_TASKS_MAX, nullptr);
}

/** Returns width × frames of all sounds, one sound after the other. */
ggml_tensor* TdtEncoder::Subsample(const Batch& batch, Inputs& inputs) {
    ggml_context* c = graph.context;
    ggml_tensor*  x = ggml_new_tensor_4d(c, GGML_TYPE_F32, weights.sizes.mels, batch.lengths.front().longest, 1, batch.sounds);
    ggml_set_input(x);
    inputs.features = x;
    const auto& steps = weights.subsampling;
    const bool  is_separable = steps.size() > 1 && steps[1].is_depthwise;
    if (own.has_halving) x = HalvingSteps(batch, inputs);
    size_t halvings = own.has_halving ? 2 : 0;
    for (size_t n = halvings; n < steps.size(); n++) {
        x = is_separable ? SeparableStep(steps[n], x) : FullStep(steps[n], x);
        if (steps[n].halves) halvings++;
        if (batch.is_masked && steps[n].is_rectified)
            x = ggml_mul(c, x, FrameMask(is_separable ? 2 : 1, halvings, x, inputs));
    }
    // The weights read the bands of a channel side by side.
    x = ggml_cont(c, is_separable ? ggml_permute(c, x, 1, 0, 2, 3) : ggml_permute(c, x, 0, 2, 1, 3));
    return Apply(weights.subsampling_out, ggml_reshape_2d(c, x, x->ne[0] * x->ne[1], batch.Frames() * batch.sounds));
}

/** Adds an input that says which frames belong to their sound. @param place of the frames among the dimensions */
ggml_tensor* TdtEncoder::FrameMask(int place, size_t halvings, const ggml_tensor* x, Inputs& inputs) {
    int64_t shape[] = {1, 1, 1, x->ne[3]};
    shape[place] = x->ne[place];
    ggml_tensor* mask = ggml_new_tensor(graph.context, GGML_TYPE_F32, 4, shape);
    ggml_set_input(mask);
    inputs.masks.push_back({mask, halvings});
    return mask;
}

/** Adds an input that says how many frames each sound has. */
ggml_tensor* TdtEncoder::FrameCounts(size_t halvings, const Batch& batch, Inputs& inputs) {
    ggml_tensor* counts = ggml_new_tensor_1d(graph.context, GGML_TYPE_I32, batch.sounds);
    ggml_set_input(counts);
    inputs.counts.push_back({counts, halvings});
    return counts;
}

/** The first two steps, of which the second mixes neighbours: channels × bands × frames × sounds. */
ggml_tensor* TdtEncoder::HalvingSteps(const Batch& batch, Inputs& inputs) {
    const TdtSubsampling &first = weights.subsampling[0], &second = weights.subsampling[1];
    const Shape           shape = {{first.bias->ne[0], Halved(Halved(weights.sizes.mels)), batch.lengths[2].longest, batch.sounds}};
    return Operation(computer.operations->halving_convolutions, shape,
                     {inputs.features, first.weight, first.bias, second.weight, second.bias, FrameCounts(1, batch, inputs), own.memory});
}

/** A convolution over all channels: bands × frames × channels × sounds. */
ggml_tensor* TdtEncoder::FullStep(const TdtSubsampling& step, ggml_tensor* x) {
    ggml_context* c = graph.context;
    x = ggml_conv_2d(c, step.weight, x, kStride, kStride, kPadding, kPadding, 1, 1);
    if (step.bias != nullptr) x = ggml_add(c, x, ggml_reshape_4d(c, step.bias, 1, 1, step.bias->ne[0], 1));
    return step.is_rectified ? ggml_relu(c, x) : x;
}

/**
 * A step of a subsampling that mixes channels and neighbours in turn: channels × bands × frames × sounds. So channels are side by
 * side, and a mix of them is a product with rows. The first step reads bands × frames × 1 × sounds.
 */
ggml_tensor* TdtEncoder::SeparableStep(const TdtSubsampling& step, ggml_tensor* x) {
    ggml_context* c = graph.context;
    if (step.is_depthwise) {
        x = Depthwise(step.weight, x, {kStride, kPadding, kPadding});
        return step.bias == nullptr ? x : ggml_add(c, x, step.bias);
    }
    ggml_tensor* weight = step.weight;
    if (step.halves) {
        x = ggml_im2col(c, weight, x, kStride, kStride, kPadding, kPadding, 1, 1, true, GGML_TYPE_F32);
        weight = ggml_reshape_2d(c, weight, x->ne[0], weight->ne[3]);
        const int missing = static_cast<int>((x->ne[0] + kMultiple - 1) / kMultiple * kMultiple - x->ne[0]);
        x = ggml_pad(c, x, missing, 0, 0, 0);
        weight = ggml_pad(c, weight, missing, 0, 0, 0);
    } else {
        weight = ggml_reshape_2d(c, weight, weight->ne[2], weight->ne[3]);
    }
    const int64_t bands = x->ne[1], frames = x->ne[2], sounds = x->ne[3];
    x = Apply({weight, step.bias}, ggml_reshape_2d(c, x, x->ne[0], bands * frames * sounds));
    if (step.is_rectified) x = ggml_relu(c, x);
    return ggml_reshape_4d(c, x, x->ne[0], bands, frames, sounds);
}

/** Each channel's own convolution: channels × columns × rows × sounds. */
ggml_tensor* TdtEncoder::Depthwise(ggml_tensor* kernel, ggml_tensor* x, const Window& window) {
    ggml_context* c = graph.context;
    // ggml computes channels side by side where the strides say so, which those of a single column do not.
    const bool   is_side_by_side = x->ne[1] > 1;
    ggml_tensor* signal = ggml_permute(c, x, 2, 0, 1, 3);
    if (is_side_by_side) kernel = ggml_permute(c, ggml_cont(c, ggml_permute(c, kernel, 2, 3, 1, 0)), 3, 2, 0, 1);
    else signal = ggml_cont(c, signal);
    x = ggml_conv_2d_dw_direct(c, kernel, signal, window.stride, window.stride, window.columns, window.rows, 1, 1);
    x = ggml_permute(c, x, 1, 2, 0, 3);
    return is_side_by_side ? x : ggml_cont(c, x);
}

ggml_tensor* TdtEncoder::Layer(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context*   c = graph.context;
    const TdtLayer& layer = weights.layers[number];
    // What follows a product is a part of it, also the addition of a matrix, where the product comes first.
    x = ggml_add(c, FeedForward(layer.norm_ff1, layer.ff1_up, layer.ff1_down, x), x);
    x = ggml_add(c, Attention(number, Normalize(layer.norm_attention, x), batch, inputs), x);
    x = ggml_add(c, Convolution(layer, Normalize(layer.norm_convolution, x), batch, inputs), x);
    x = ggml_add(c, FeedForward(layer.norm_ff2, layer.ff2_up, layer.ff2_down, x), x);
    return Normalize(layer.norm_out, x);
}

ggml_tensor* TdtEncoder::FeedForward(const TdtLinear& norm, const TdtLinear& up, const TdtLinear& down,
                                     ggml_tensor* x) {
    ggml_context* c = graph.context;
    constexpr float kHalf = 0.5f;
    x = ggml_scale(c, Product(down.weight, ggml_silu(c, Apply(up, Normalize(norm, x)))), kHalf);
    if (down.bias == nullptr) return x;
    ggml_tensor* bias = ggml_scale(c, down.bias, kHalf);
    // Before the product, so that nothing lies between it and what follows it.
    graph.Add(bias);
    return ggml_add(c, x, bias);
}

/** Attention with relative positions. */
ggml_tensor* TdtEncoder::Attention(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    if (!own.has_attention) return PlainAttention(number, x, batch, inputs);
    const TdtLayer& layer = weights.layers[number];
    ggml_tensor*    mixed = Operation(
        computer.operations->attention, {{weights.sizes.width, batch.Frames() * batch.sounds, 1, 1}},
        {Apply(layer.query, x), Apply(layer.key, x), Apply(layer.value, x), Position(number, batch.Frames()), layer.bias_u,
         layer.bias_v, own.counts, own.memory});
    return Apply(layer.attention_out, mixed);
}

/**
 * The same of ggml's operations. A row of `relative` has the score of each distance, from the farthest frame before to
 * the farthest behind; the view shifts each row so that a column is a frame.
 */
ggml_tensor* TdtEncoder::PlainAttention(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context*   c = graph.context;
    const TdtLayer& layer = weights.layers[number];
    const int64_t   heads = weights.sizes.heads, depth = weights.sizes.width / heads;
    const int64_t frames = batch.Frames(), sounds = batch.sounds;
    const auto    split = [&](const TdtLinear& linear) {
        return ggml_reshape_4d(c, Apply(linear, x), depth, heads, frames, sounds);
    };
    ggml_tensor* query = split(layer.query);
    // ggml multiplies blocks of rows where these are in order, and of numbers by sixteens.
    ggml_tensor* by_content = ggml_cont(c, ggml_permute(c, ggml_add(c, query, layer.bias_u), 0, 2, 1, 3));
    ggml_tensor* by_position = ggml_cont(c, ggml_permute(c, ggml_add(c, query, layer.bias_v), 0, 2, 1, 3));
    const int    missing = static_cast<int>((frames + kMultiple - 1) / kMultiple * kMultiple - frames);
    ggml_tensor* key = ggml_permute(c, split(layer.key), 0, 2, 1, 3);
    ggml_tensor* value = ggml_cont(c, ggml_permute(c, split(layer.value), 1, 2, 0, 3));
    ggml_tensor* position = Position(number, frames);
    position = ggml_permute(c, ggml_reshape_3d(c, position, depth, heads, 2 * frames - 1), 0, 2, 1, 3);

    ggml_tensor* relative = ggml_mul_mat(c, position, by_position);
    const size_t value_bytes = relative->nb[0];
    relative = ggml_view_4d(c, relative, frames, frames, heads, sounds, relative->nb[1] - value_bytes, relative->nb[2],
                            relative->nb[3], static_cast<size_t>(frames - 1) * value_bytes);
    ggml_tensor* scores = ggml_add(c, ggml_mul_mat(c, key, by_content), relative);
    scores = ggml_soft_max_ext(c, scores, inputs.attention_mask, 1.0f / std::sqrt(static_cast<float>(depth)), 0.0f);
    if (missing > 0) {
        scores = ggml_pad(c, scores, missing, 0, 0, 0);
        value = ggml_pad(c, value, missing, 0, 0, 0);
    }
    ggml_tensor* mixed = ggml_cont(c, ggml_permute(c, ggml_mul_mat(c, value, scores), 0, 2, 1, 3));
    return Apply(layer.attention_out, ggml_reshape_2d(c, mixed, depth * heads, frames * sounds));
}

/** Returns the rows of a layer's table for distances within so many frames. */
ggml_tensor* TdtEncoder::Position(size_t number, int64_t frames) {
    ggml_tensor* all = distances->layers[number];
    const size_t first = static_cast<size_t>(distances->frames - frames);
    return ggml_view_2d(graph.context, all, all->ne[0], 2 * frames - 1, all->nb[1], first * all->nb[1]);
}

ggml_tensor* TdtEncoder::Convolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    if (!own.has_convolution) return PlainConvolution(layer, x, batch, inputs);
    // At import its bias took in the batch normalization.
    x = Operation(computer.operations->gated_convolution, {{weights.sizes.width, batch.Frames() * batch.sounds, 1, 1}},
                  {Apply(layer.convolution_in, x), layer.convolution_depth.weight, layer.convolution_depth.bias, own.counts});
    return Apply(layer.convolution_out, x);
}

/** The same of ggml's operations. */
ggml_tensor* TdtEncoder::PlainConvolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs) {
    ggml_context* c = graph.context;
    const int64_t width = weights.sizes.width, frames = batch.Frames(), sounds = batch.sounds;
    // Two products: what follows the second one is a part of it.
    ggml_tensor* gate = ggml_sigmoid(c, Apply(Half(layer.convolution_in, 1), x));
    x = ggml_mul(c, Apply(Half(layer.convolution_in, 0), x), gate);
    x = ggml_reshape_4d(c, x, width, frames, 1, sounds);
    if (batch.is_masked) x = ggml_mul(c, x, ggml_reshape_4d(c, inputs.masks.back().tensor, 1, frames, 1, sounds));
    const int    kernel = weights.sizes.kernel;
    ggml_tensor* weight = ggml_reshape_4d(c, layer.convolution_depth.weight, kernel, 1, 1, width);
    x = Depthwise(weight, x, {1, (kernel - 1) / 2, 0});
    x = ggml_silu(c, ggml_add(c, x, layer.convolution_depth.bias));
    return Apply(layer.convolution_out, ggml_reshape_2d(c, x, width, frames * sounds));
}

/** Returns the first or second half of the results of a product, as a product of its own. */
TdtLinear TdtEncoder::Half(const TdtLinear& linear, int64_t number) {
    ggml_context* c = graph.context;
    ggml_tensor*  weight = linear.weight;
    const int64_t count = weight->ne[1] / 2;
    const size_t  first = static_cast<size_t>(number * count);
    TdtLinear     half;
    half.weight = ggml_view_2d(c, weight, weight->ne[0], count, weight->nb[1], first * weight->nb[1]);
    if (linear.bias != nullptr) half.bias = ggml_view_1d(c, linear.bias, count, first * linear.bias->nb[0]);
    return half;
}

ggml_tensor* TdtEncoder::Product(ggml_tensor* weight, ggml_tensor* x) {
    x = ggml_mul_mat(graph.context, weight, x);
    // Short sounds are computed by other code than long ones, and must have the same tokens.
    ggml_mul_mat_set_prec(x, GGML_PREC_F32);
    return x;
}

ggml_tensor* TdtEncoder::Apply(const TdtLinear& linear, ggml_tensor* x) {
    x = Product(linear.weight, x);
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
    for (const auto& [tensor, halvings] : inputs.counts)
        std::copy_n(batch.lengths[halvings].each.begin(), sounds.size(), static_cast<int32_t*>(tensor->data));
    for (const auto& [tensor, halvings] : inputs.masks) {
        const Lengths& lengths = batch.lengths[halvings];
        auto*          mask = static_cast<float*>(tensor->data);
        for (size_t n = 0; n < sounds.size(); n++)
            for (int at = 0; at < lengths.longest; at++) *mask++ = at < lengths.each[n] ? 1.0f : 0.0f;
    }
    if (inputs.attention_mask == nullptr) return;
    const int frames = static_cast<int>(batch.Frames());
    auto*     mask = static_cast<float*>(inputs.attention_mask->data);
    for (size_t n = 0; n < sounds.size(); n++)
        for (int query = 0; query < frames; query++)
            for (int key = 0; key < frames; key++) *mask++ = key < batch.Encoded().each[n] ? 0.0f : -INFINITY;
}
