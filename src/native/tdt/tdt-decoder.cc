#include "tdt-decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "errors.h"

namespace {

/** Nodes of the larger graph: a layer of the prediction net has about 24. */
constexpr size_t kMostNodes = 512;

int LargestOf(const float* values, int count) {
    return static_cast<int>(std::max_element(values, values + count) - values);
}

ggml_tensor* Input(ggml_context* context, enum ggml_type type, int64_t rows, int64_t columns) {
    ggml_tensor* tensor = columns == 0 ? ggml_new_tensor_1d(context, type, rows)
                                       : ggml_new_tensor_2d(context, type, rows, columns);
    ggml_set_input(tensor);
    return tensor;
}

/** The values of a column of a tensor. */
float* Column(ggml_tensor* tensor, size_t column) {
    return static_cast<float*>(tensor->data) + column * static_cast<size_t>(tensor->ne[0]);
}

}  // namespace

TdtDecoder::TdtDecoder(const TdtWeights& weights, TdtComputer& computer) : weights(weights), computer(computer) {}

TdtDecoder::Prediction& TdtDecoder::PredictionFor(int count) {
    const auto found = predictions.find(count);
    if (found != predictions.end()) return found->second;
    Prediction& net = predictions.try_emplace(count, computer.backend).first->second;
    net.graph.Begin(kMostNodes);
    ggml_context* c = net.graph.context;
    net.tokens = Input(c, GGML_TYPE_I32, count, 0);
    ggml_tensor* x = ggml_get_rows(c, weights.embedding, net.tokens);
    for (int n = 0; n < weights.sizes.prediction_layers; n++) AddLayer(net, n, x);
    net.result = ggml_add(c, ggml_mul_mat(c, weights.joint_prediction.weight, x), weights.joint_prediction.bias);
    ggml_set_output(net.result);
    net.graph.Add(net.result);
    net.graph.Allocate();
    return net;
}

/** A layer of the LSTM, as torch computes it: input gate, forget gate, cell and output gate in this order. */
void TdtDecoder::AddLayer(Prediction& net, int number, ggml_tensor*& x) {
    ggml_context*  c = net.graph.context;
    const TdtLstm& layer = weights.lstm[number];
    const int64_t  width = weights.sizes.prediction_width, count = x->ne[1];
    net.hidden.push_back(Input(c, GGML_TYPE_F32, width, count));
    net.cell.push_back(Input(c, GGML_TYPE_F32, width, count));
    ggml_tensor* gates = ggml_add(c, ggml_mul_mat(c, layer.input, x), ggml_mul_mat(c, layer.hidden, net.hidden.back()));
    gates = ggml_add(c, gates, layer.bias);
    const auto gate = [&](int n) {
        const size_t offset = static_cast<size_t>(n * width) * ggml_element_size(gates);
        return ggml_view_2d(c, gates, width, count, gates->nb[1], offset);
    };
    ggml_tensor* kept = ggml_mul(c, ggml_sigmoid(c, gate(1)), net.cell.back());
    ggml_tensor* added = ggml_mul(c, ggml_sigmoid(c, gate(0)), ggml_tanh(c, gate(2)));
    ggml_tensor* cell = ggml_add(c, kept, added);
    x = ggml_mul(c, ggml_sigmoid(c, gate(3)), ggml_tanh(c, cell));
    for (ggml_tensor* result : {cell, x}) {
        ggml_set_output(result);
        net.graph.Add(result);
    }
    net.new_cell.push_back(cell);
    net.new_hidden.push_back(x);
}

TdtDecoder::Joint& TdtDecoder::JointFor(int count) {
    const auto found = joints.find(count);
    if (found != joints.end()) return found->second;
    Joint& net = joints.try_emplace(count, computer.backend).first->second;
    net.graph.Begin(kMostNodes);
    ggml_context* c = net.graph.context;
    net.frames = Input(c, GGML_TYPE_F32, weights.sizes.joint_width, count);
    net.predictions = Input(c, GGML_TYPE_F32, weights.sizes.joint_width, count);
    ggml_tensor* x = ggml_relu(c, ggml_add(c, net.frames, net.predictions));
    net.scores = ggml_add(c, ggml_mul_mat(c, weights.joint_out.weight, x), weights.joint_out.bias);
    ggml_set_output(net.scores);
    net.graph.Add(net.scores);
    net.graph.Allocate();
    return net;
}

void TdtDecoder::Predict(const std::vector<Path*>& paths, ComputeScope& scope) {
    if (paths.empty()) return;
    Prediction&  net = PredictionFor(static_cast<int>(paths.size()));
    const size_t width = static_cast<size_t>(weights.sizes.prediction_width);
    for (size_t n = 0; n < paths.size(); n++) {
        static_cast<int32_t*>(net.tokens->data)[n] = paths[n]->token;
        for (size_t layer = 0; layer < net.hidden.size(); layer++) {
            std::copy_n(&paths[n]->hidden[layer * width], width, Column(net.hidden[layer], n));
            std::copy_n(&paths[n]->cell[layer * width], width, Column(net.cell[layer], n));
        }
    }
    computer.ComputeAlone(net.graph, scope);
    for (size_t n = 0; n < paths.size(); n++) {
        for (size_t layer = 0; layer < net.hidden.size(); layer++) {
            std::copy_n(Column(net.new_hidden[layer], n), width, &paths[n]->hidden[layer * width]);
            std::copy_n(Column(net.new_cell[layer], n), width, &paths[n]->cell[layer * width]);
        }
        std::copy_n(Column(net.result, n), paths[n]->prediction.size(), paths[n]->prediction.begin());
    }
}

void TdtDecoder::Join(const std::vector<Path*>& paths, std::vector<Choice>& choices, ComputeScope& scope) {
    Joint&       net = JointFor(static_cast<int>(paths.size()));
    const size_t width = static_cast<size_t>(weights.sizes.joint_width);
    for (size_t n = 0; n < paths.size(); n++) {
        std::copy_n(&paths[n]->sound->frames[static_cast<size_t>(paths[n]->at) * width], width, Column(net.frames, n));
        std::copy_n(paths[n]->prediction.begin(), width, Column(net.predictions, n));
    }
    computer.ComputeAlone(net.graph, scope);
    choices.clear();
    for (size_t n = 0; n < paths.size(); n++) choices.push_back(Choose(Column(net.scores, n)));
}

TdtDecoder::Choice TdtDecoder::Choose(const float* scores) const {
    const int outputs = weights.sizes.tokens + 1;
    const int best = LargestOf(scores, outputs);
    double    sum = 0;
    for (int n = 0; n < outputs; n++) sum += std::exp(static_cast<double>(scores[n]) - scores[best]);
    if (!std::isfinite(sum))
        throw BindingError(ErrorKind::kError, "the model computes values that are no numbers; its weights are damaged");
    const auto& durations = weights.sizes.durations;
    const int   duration =
        durations.empty() ? 0 : durations[LargestOf(scores + outputs, static_cast<int>(durations.size()))];
    return {best, duration, static_cast<float>(1 / sum)};
}

bool TdtDecoder::Follow(Path& path, const Choice& choice) const {
    const bool is_token = choice.token != weights.sizes.tokens;
    int        step = choice.duration;
    if (is_token) {
        const bool has_durations = !weights.sizes.durations.empty();
        path.tokens.push_back({choice.token, path.at, has_durations ? step : 1, choice.probability});
        path.token = choice.token;
        path.symbols++;
        if (step == 0 && path.symbols >= weights.sizes.most_symbols) step = 1;
    } else {
        step = std::max(step, 1);
    }
    if (step > 0) path.symbols = 0;
    path.at += step;
    return is_token;
}

std::vector<std::vector<TdtToken>> TdtDecoder::Decode(const std::vector<TdtEncoder::Encoded>& sounds,
                                                      ComputeScope&                           scope) {
    const TdtSizes&   sizes = weights.sizes;
    const size_t      memory = static_cast<size_t>(sizes.prediction_width) * sizes.prediction_layers;
    std::vector<Path> paths(sounds.size());
    for (size_t n = 0; n < sounds.size(); n++) {
        paths[n].sound = &sounds[n];
        paths[n].token = sizes.tokens;
        paths[n].hidden.assign(memory, 0.0f);
        paths[n].cell.assign(memory, 0.0f);
        paths[n].prediction.assign(static_cast<size_t>(sizes.joint_width), 0.0f);
    }
    std::vector<Path*>  active, writing;
    std::vector<Choice> choices;
    for (Path& path : paths) writing.push_back(&path);
    for (;;) {
        Predict(writing, scope);
        active.clear();
        for (Path& path : paths)
            if (path.at < path.sound->count) active.push_back(&path);
        if (active.empty()) break;
        Join(active, choices, scope);
        writing.clear();
        for (size_t n = 0; n < active.size(); n++)
            if (Follow(*active[n], choices[n])) writing.push_back(active[n]);
    }
    std::vector<std::vector<TdtToken>> tokens;
    for (Path& path : paths) tokens.push_back(std::move(path.tokens));
    return tokens;
}
