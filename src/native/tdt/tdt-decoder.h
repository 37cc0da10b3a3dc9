#ifndef SHRUTI_TDT_DECODER_H
#define SHRUTI_TDT_DECODER_H

#include <vector>

#include "tdt-compute.h"
#include "tdt-encoder.h"
#include "tdt-weights.h"

/** A token that a model wrote. */
struct TdtToken {
    int id;
    /** The frame in which it was written, and how many it takes; 1 of an RNN-T model. */
    int frame, duration;
    /** Among the tokens and the blank. */
    float probability;
};

/**
 * Writes the most probable tokens of one sound: the prediction net (LSTM) of the tokens so far and the joint net. The rules
 * are those of NeMo's greedy decoding, of TDT models with durations, else of RNN-T models.
 */
class TdtDecoder {
   public:
    TdtDecoder(const TdtWeights& weights, TdtComputer& computer);
    ~TdtDecoder();
    TdtDecoder(const TdtDecoder&) = delete;
    TdtDecoder& operator=(const TdtDecoder&) = delete;

    std::vector<TdtToken> Decode(const TdtEncoder::Encoded& sound, ComputeScope& scope);

   private:
    struct Choice {
        int   token, duration;
        float probability;
    };

    void         BuildPrediction();
    void         BuildJoint();
    ggml_tensor* Cell(int number, ggml_tensor* x);
    /** Computes the prediction that follows a token, or with the blank that at the beginning. */
    void   Predict(int token, ComputeScope& scope);
    Choice Join(const float* frame, ComputeScope& scope);

    const TdtWeights&         weights;
    TdtComputer&              computer;
    TdtGraph                  prediction_graph, joint_graph;
    ggml_context*             context;
    ggml_backend_buffer_t     buffer = nullptr;
    /** What stays from step to step. */
    ggml_tensor *             token, *frame, *prediction;
    std::vector<ggml_tensor*> hidden, cell;
    ggml_tensor*              scores = nullptr;
};

#endif
