#ifndef SHRUTI_TDT_ENCODER_H
#define SHRUTI_TDT_ENCODER_H

#include <vector>

#include "tdt-compute.h"
#include "tdt-weights.h"

/**
 * The encoder of NeMo's FastConformer and Conformer models, with the part of the joint net that reads its output. Several
 * sounds are encoded at once; each gets the numbers that it gets alone, because what lies behind the end of a shorter one
 * is masked in every layer.
 */
class TdtEncoder {
   public:
    TdtEncoder(const TdtWeights& weights, TdtComputer& computer);

    /** Frames of sounds for the joint net, row after row. */
    struct Encoded {
        std::vector<float> frames;
        int                count;
    };

    /** @param sounds features, frames × bands; at least one frame each */
    std::vector<Encoded> Encode(const std::vector<std::vector<float>>& sounds, ComputeScope& scope);

   private:
    struct Batch;
    /** Inputs of a graph, which are filled once it has memory. */
    struct Inputs {
        ggml_tensor*              features;
        ggml_tensor*              positions;
        ggml_tensor*              attention_mask = nullptr;
        std::vector<ggml_tensor*> masks;
    };

    ggml_tensor* Build(const Batch& batch, Inputs& inputs);
    ggml_tensor* Subsample(const Batch& batch, Inputs& inputs);
    ggml_tensor* Layer(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* FeedForward(const TdtLinear& norm, const TdtLinear& up, const TdtLinear& down, ggml_tensor* x);
    ggml_tensor* Attention(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* Convolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* Apply(const TdtLinear& linear, ggml_tensor* x);
    ggml_tensor* Normalize(const TdtLinear& norm, ggml_tensor* x);
    void         Fill(const Batch& batch, const Inputs& inputs, const std::vector<std::vector<float>>& sounds);
    const float* Positions(int frames);

    const TdtWeights&  weights;
    TdtComputer&       computer;
    TdtGraph           graph;
    std::vector<float> table;
    int                table_frames = 0;
};

#endif
