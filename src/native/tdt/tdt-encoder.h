#ifndef SHRUTI_TDT_ENCODER_H
#define SHRUTI_TDT_ENCODER_H

#include <vector>

#include "tdt-compute.h"
#include "tdt-positions.h"
#include "tdt-weights.h"

/**
 * The encoder of NeMo's FastConformer and Conformer models, with the part of the joint net that reads its output. Several
 * sounds are encoded at once; each gets the numbers that it gets alone, because what lies behind the end of a shorter one
 * is masked in every layer.
 */
class TdtEncoder {
   public:
    /** @param positions of the same weights */
    TdtEncoder(const TdtWeights& weights, TdtPositions& positions, TdtComputer& computer);

    /** Frames of sounds for the joint net, row after row. */
    struct Encoded {
        std::vector<float> frames;
        int                count;
    };

    /** @param sounds features, frames × bands; at least one frame each */
    std::vector<Encoded> Encode(const std::vector<std::vector<float>>& sounds, ComputeScope& scope);

   private:
    struct Batch;
    /** How a kernel moves over columns and rows, and how many zeros are before and behind them. */
    struct Window {
        int stride, columns, rows;
    };
    /** Inputs of a graph, which are filled once it has memory. */
    struct Inputs {
        ggml_tensor*              features;
        ggml_tensor*              attention_mask = nullptr;
        std::vector<ggml_tensor*> masks;
    };

    ggml_tensor* Build(const Batch& batch, Inputs& inputs);
    ggml_tensor* Subsample(const Batch& batch, Inputs& inputs);
    ggml_tensor* FrameMask(int place, const ggml_tensor* x, Inputs& inputs);
    ggml_tensor* FullStep(const TdtSubsampling& step, ggml_tensor* x);
    ggml_tensor* SeparableStep(const TdtSubsampling& step, ggml_tensor* x);
    ggml_tensor* Depthwise(ggml_tensor* kernel, ggml_tensor* x, const Window& window);
    ggml_tensor* Layer(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* FeedForward(const TdtLinear& norm, const TdtLinear& up, const TdtLinear& down, ggml_tensor* x);
    ggml_tensor* Attention(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* Position(size_t number, int64_t frames);
    ggml_tensor* Convolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    TdtLinear    Half(const TdtLinear& linear, int64_t number);
    ggml_tensor* Apply(const TdtLinear& linear, ggml_tensor* x);
    ggml_tensor* Normalize(const TdtLinear& norm, ggml_tensor* x);
    void         Fill(const Batch& batch, const Inputs& inputs, const std::vector<std::vector<float>>& sounds);

    const TdtWeights& weights;
    TdtPositions&     positions;
    TdtComputer&      computer;
    TdtGraph          graph;
    /** What the graph reads of `positions`. */
    std::shared_ptr<const TdtPositions::Table> distances;
};

#endif
