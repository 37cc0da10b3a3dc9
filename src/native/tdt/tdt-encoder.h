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

    /** Frames of features that are encoded at once, filled up to the longest sound. */
    size_t MostFrames() const;

    /** @param sounds features, frames × bands; at least one frame each */
    std::vector<Encoded> Encode(const std::vector<std::vector<float>>& sounds, ComputeScope& scope);

   private:
    struct Batch;
    /** Sizes of a tensor. */
    struct Shape {
        int64_t sizes[4];
    };
    /** How a kernel moves over columns and rows, and how many zeros are before and behind them. */
    struct Window {
        int stride, columns, rows;
    };
    /** Numbers for each sound after so many convolutions that halve its frames. */
    struct OfSounds {
        ggml_tensor* tensor;
        size_t       halvings;
    };
    /** Inputs of a graph, which are filled once it has memory. */
    struct Inputs {
        ggml_tensor* features;
        ggml_tensor* attention_mask = nullptr;
        /** 1 for each frame of a sound, and 0 for those that follow. */
        std::vector<OfSounds> masks;
        /** How many frames a sound has. */
        std::vector<OfSounds> counts;
    };
    /** What is computed by operations of our own (conformer-functions.h), and their work memory. */
    struct Own {
        bool         has_halving = false, has_attention = false, has_convolution = false;
        ggml_tensor* memory = nullptr;
        ggml_tensor* counts = nullptr;
    };

    ggml_tensor* Build(const Batch& batch, Inputs& inputs);
    ggml_tensor* Subsample(const Batch& batch, Inputs& inputs);
    ggml_tensor* FrameMask(int place, size_t halvings, const ggml_tensor* x, Inputs& inputs);
    ggml_tensor* FrameCounts(size_t halvings, const Batch& batch, Inputs& inputs);
    /** Work memory of a thread for the first two steps; 0: ggml's operations compute them. */
    size_t       HalvingBytes() const;
    void         ChooseOperations(const Batch& batch, Inputs& inputs);
    ggml_tensor* Operation(shruti_operation operation, const Shape& shape, std::vector<ggml_tensor*> of);
    ggml_tensor* HalvingSteps(const Batch& batch, Inputs& inputs);
    ggml_tensor* FullStep(const TdtSubsampling& step, ggml_tensor* x);
    ggml_tensor* SeparableStep(const TdtSubsampling& step, ggml_tensor* x);
    ggml_tensor* Depthwise(ggml_tensor* kernel, ggml_tensor* x, const Window& window);
    ggml_tensor* Layer(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* FeedForward(const TdtLinear& norm, const TdtLinear& up, const TdtLinear& down, ggml_tensor* x);
    ggml_tensor* Attention(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* PlainAttention(size_t number, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* Position(size_t number, int64_t frames);
    ggml_tensor* Convolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    ggml_tensor* PlainConvolution(const TdtLayer& layer, ggml_tensor* x, const Batch& batch, const Inputs& inputs);
    TdtLinear    Half(const TdtLinear& linear, int64_t number);
    ggml_tensor* Product(ggml_tensor* weight, ggml_tensor* x);
    ggml_tensor* Apply(const TdtLinear& linear, ggml_tensor* x);
    ggml_tensor* Normalize(const TdtLinear& norm, ggml_tensor* x);
    void         Fill(const Batch& batch, const Inputs& inputs, const std::vector<std::vector<float>>& sounds);

    const TdtWeights& weights;
    TdtPositions&     positions;
    TdtComputer&      computer;
    TdtGraph          graph;
    Own               own;
    /** What the graph reads of `positions`. */
    std::shared_ptr<const TdtPositions::Table> distances;
};

#endif
