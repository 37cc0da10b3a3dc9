#ifndef SHRUTI_TDT_DECODER_H
#define SHRUTI_TDT_DECODER_H

#include <map>
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
 * Writes the most probable tokens of sounds: the prediction net (LSTM) of the tokens so far and the joint net. The rules are
 * those of NeMo's greedy decoding, of TDT models with durations, else of RNN-T models. Sounds make their steps together, so
 * that the weights are read once for all of them.
 */
class TdtDecoder {
   public:
    TdtDecoder(const TdtWeights& weights, TdtComputer& computer);

    /** @returns the tokens of each sound, in its place */
    std::vector<std::vector<TdtToken>> Decode(const std::vector<TdtEncoder::Encoded>& sounds, ComputeScope& scope);

   private:
    /** A sound on its way. */
    struct Path {
        const TdtEncoder::Encoded* sound;
        int                        at = 0;
        /** Tokens of the frame. */
        int symbols = 0;
        /** The token before; the blank at the beginning. */
        int token;
        /** Of the LSTM, layer after layer. */
        std::vector<float>    hidden, cell;
        std::vector<float>    prediction;
        std::vector<TdtToken> tokens;
    };
    struct Choice {
        int   token, duration;
        float probability;
    };
    /** The prediction net for some paths. */
    struct Prediction {
        explicit Prediction(ggml_backend_t backend) : graph(backend) {}
        TdtGraph                  graph;
        ggml_tensor*              tokens;
        std::vector<ggml_tensor*> hidden, cell, new_hidden, new_cell;
        ggml_tensor*              result;
    };
    /** The joint net for some paths. */
    struct Joint {
        explicit Joint(ggml_backend_t backend) : graph(backend) {}
        TdtGraph     graph;
        ggml_tensor *frames, *predictions, *scores;
    };

    Prediction& PredictionFor(int count);
    Joint&      JointFor(int count);
    void        AddLayer(Prediction& net, int number, ggml_tensor*& x);
    /** Computes the prediction that follows the token of each path, or with the blank that at the beginning. */
    void   Predict(const std::vector<Path*>& paths, ComputeScope& scope);
    void   Join(const std::vector<Path*>& paths, std::vector<Choice>& choices, ComputeScope& scope);
    Choice Choose(const float* scores) const;
    /** Moves a path on. Returns whether it wrote a token. */
    bool Follow(Path& path, const Choice& choice) const;

    const TdtWeights&         weights;
    TdtComputer&              computer;
    std::map<int, Prediction> predictions;
    std::map<int, Joint>      joints;
};

#endif
