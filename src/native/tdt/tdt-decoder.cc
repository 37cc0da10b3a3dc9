#include "tdt-decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "errors.h"

namespace {

int LargestOf(const float* values, int count) {
    return static_cast<int>(std::max_element(values, values + count) - values);
}

}  // namespace

TdtDecoder::TdtDecoder(const TdtWeights& weights, TdtComputer& computer)
    : weights(weights), computer(computer), prediction_graph(computer.backend), joint_graph(computer.backend) {
    const TdtSizes& sizes = weights.sizes;
    const size_t    tensors = 3 + 2 * static_cast<size_t>(sizes.prediction_layers);
    context = ggml_init({/*.mem_size =*/tensors * ggml_tensor_overhead(), /*.mem_buffer =*/nullptr, /*.no_alloc =*/true});
    if (context == nullptr) throw BindingError(ErrorKind::kError, "there is not enough memory for a decoder");
    token = ggml_new_tensor_1d(context, GGML_TYPE_I32, 1);
    frame = ggml_new_tensor_1d(context, GGML_TYPE_F32, sizes.joint_width);
    prediction = ggml_new_tensor_1d(context, GGML_TYPE_F32, sizes.joint_width);
    for (int n = 0; n < sizes.prediction_layers; n++) {
        hidden.push_back(ggml_new_tensor_1d(context, GGML_TYPE_F32, sizes.prediction_width));
        cell.push_back(ggml_new_tensor_1d(context, GGML_TYPE_F32, sizes.prediction_width));
    }
    buffer = ggml_backend_alloc_ctx_tensors(context, computer.backend);
    if (buffer == nullptr) {
        ggml_free(context);
        throw BindingError(ErrorKind::kError, "there is not enough memory for a decoder");
    }
    BuildPrediction();
    BuildJoint();
}

TdtDecoder::~TdtDecoder() {
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
}

void TdtDecoder::BuildPrediction() {
    prediction_graph.Begin();
    ggml_context* c = prediction_graph.context;
    ggml_tensor*  x = ggml_get_rows(c, weights.embedding, token);
    for (int n = 0; n < weights.sizes.prediction_layers; n++) x = Cell(n, x);
    x = ggml_add(c, ggml_mul_mat(c, weights.joint_prediction.weight, x), weights.joint_prediction.bias);
    prediction_graph.Add(ggml_cpy(c, x, prediction));
    prediction_graph.Allocate();
}

/** A layer of the LSTM, as torch computes it: input gate, forget gate, cell and output gate in this order. */
ggml_tensor* TdtDecoder::Cell(int number, ggml_tensor* x) {
    ggml_context*  c = prediction_graph.context;
    const TdtLstm& layer = weights.lstm[number];
    const int64_t  width = weights.sizes.prediction_width;
    ggml_tensor*   gates = ggml_add(c, ggml_mul_mat(c, layer.input, x), ggml_mul_mat(c, layer.hidden, hidden[number]));
    gates = ggml_add(c, gates, layer.bias);
    const auto gate = [&](int n) {
        return ggml_view_1d(c, gates, width, static_cast<size_t>(n * width) * ggml_element_size(gates));
    };
    ggml_tensor* kept = ggml_mul(c, ggml_sigmoid(c, gate(1)), cell[number]);
    ggml_tensor* added = ggml_mul(c, ggml_sigmoid(c, gate(0)), ggml_tanh(c, gate(2)));
    ggml_tensor* new_cell = ggml_add(c, kept, added);
    ggml_tensor* new_hidden = ggml_mul(c, ggml_sigmoid(c, gate(3)), ggml_tanh(c, new_cell));
    prediction_graph.Add(ggml_cpy(c, new_cell, cell[number]));
    prediction_graph.Add(ggml_cpy(c, new_hidden, hidden[number]));
    return new_hidden;
}

void TdtDecoder::BuildJoint() {
    joint_graph.Begin();
    ggml_context* c = joint_graph.context;
    ggml_tensor*  x = ggml_relu(c, ggml_add(c, frame, prediction));
    scores = ggml_add(c, ggml_mul_mat(c, weights.joint_out.weight, x), weights.joint_out.bias);
    ggml_set_output(scores);
    joint_graph.Add(scores);
    joint_graph.Allocate();
}

void TdtDecoder::Predict(int id, ComputeScope& scope) {
    *static_cast<int32_t*>(token->data) = id;
    computer.ComputeAlone(prediction_graph, scope);
}

TdtDecoder::Choice TdtDecoder::Join(const float* at, ComputeScope& scope) {
    std::memcpy(frame->data, at, ggml_nbytes(frame));
    computer.ComputeAlone(joint_graph, scope);
    const auto* values = static_cast<const float*>(scores->data);
    const int   outputs = weights.sizes.tokens + 1;
    const int   best = LargestOf(values, outputs);
    double      sum = 0;
    for (int n = 0; n < outputs; n++) sum += std::exp(static_cast<double>(values[n]) - values[best]);
    if (!std::isfinite(sum))
        throw BindingError(ErrorKind::kError, "the model computes values that are no numbers; its weights are damaged");
    const auto& durations = weights.sizes.durations;
    const int   duration =
        durations.empty() ? 0 : durations[LargestOf(values + outputs, static_cast<int>(durations.size()))];
    return {best, duration, static_cast<float>(1 / sum)};
}

std::vector<TdtToken> TdtDecoder::Decode(const TdtEncoder::Encoded& sound, ComputeScope& scope) {
    const int blank = weights.sizes.tokens;
    for (ggml_tensor* state : hidden) std::memset(state->data, 0, ggml_nbytes(state));
    for (ggml_tensor* state : cell) std::memset(state->data, 0, ggml_nbytes(state));
    Predict(blank, scope);
    std::vector<TdtToken> tokens;
    const bool            has_durations = !weights.sizes.durations.empty();
    for (int at = 0, symbols = 0; at < sound.count;) {
        const float* row = &sound.frames[static_cast<size_t>(at) * weights.sizes.joint_width];
        const Choice choice = Join(row, scope);
        int          step = choice.duration;
        if (choice.token == blank) {
            step = std::max(step, 1);
        } else {
            tokens.push_back({choice.token, at, has_durations ? step : 1, choice.probability});
            Predict(choice.token, scope);
            symbols++;
            if (step == 0 && symbols >= weights.sizes.most_symbols) step = 1;
        }
        if (step > 0) symbols = 0;
        at += step;
    }
    return tokens;
}
