#include "tdt-positions.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace {

/** A table grows by so many frames, so that chunks that become longer bit by bit do not make one each. */
constexpr int kStep = 64;
/** More than 64 layers have. */
constexpr size_t kMostNodes = 256;

}  // namespace

std::shared_ptr<const TdtPositions::Table> TdtPositions::For(int frames, TdtComputer& computer, ComputeScope& scope) {
    std::lock_guard<std::mutex> lock(mutex);
    if (table != nullptr && table->frames >= frames) return table;
    auto made = std::make_shared<Table>(computer.backend);
    made->frames = (frames + kStep - 1) / kStep * kStep;
    made->graph.Begin(kMostNodes);
    ggml_context* c = made->graph.context;
    ggml_tensor*  positions = ggml_new_tensor_2d(c, GGML_TYPE_F32, weights.sizes.width, 2 * made->frames - 1);
    ggml_set_input(positions);
    for (const TdtLayer& layer : weights.layers) {
        made->layers.push_back(ggml_mul_mat(c, layer.position, positions));
        ggml_mul_mat_set_prec(made->layers.back(), GGML_PREC_F32);
        ggml_set_output(made->layers.back());
        made->graph.Add(made->layers.back());
    }
    made->graph.Allocate();
    Fill(*made, positions);
    computer.Compute(made->graph, scope);
    // From now on they are numbers: a graph that reads a product computes it, and others read it meanwhile.
    for (ggml_tensor* layer : made->layers) {
        layer->op = GGML_OP_NONE;
        std::fill(std::begin(layer->src), std::end(layer->src), nullptr);
    }
    table = made;
    return table;
}

/** Writes rows of sines and cosines for the distances from `frames` − 1 down to 1 − `frames`. */
void TdtPositions::Fill(Table& made, ggml_tensor* positions) const {
    const int width = weights.sizes.width;
    auto*     values = static_cast<float*>(positions->data);
    for (int row = 0; row < 2 * made.frames - 1; row++) {
        const double distance = made.frames - 1 - row;
        for (int n = 0; n < width; n += 2) {
            const double angle = distance * std::exp(-n * std::log(10000.0) / width);
            values[static_cast<size_t>(row) * width + n] = static_cast<float>(std::sin(angle));
            values[static_cast<size_t>(row) * width + n + 1] = static_cast<float>(std::cos(angle));
        }
    }
}
