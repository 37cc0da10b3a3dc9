#ifndef SHRUTI_TDT_WEIGHTS_H
#define SHRUTI_TDT_WEIGHTS_H

#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

/** Sizes of a model: what its file says (lib/tdt-file.ts describes the file and checks it before). */
struct TdtSizes {
    int mels;
    int width;
    int heads;
    int layers;
    int kernel;
    int tokens;
    int prediction_width;
    int prediction_layers;
    int joint_width;
    /** Most tokens of one frame. */
    int  most_symbols;
    bool scales_input;
    /** The sound continues as its mirror image at its ends, else there is silence. */
    bool reflects_ends;
    /** Frames that a token or blank takes, by the number of the duration's output. Empty: an RNN-T model. */
    std::vector<int> durations;
};

/** A product with weights; the bias may be missing. */
struct TdtLinear {
    ggml_tensor* weight = nullptr;
    ggml_tensor* bias = nullptr;
};

/** A convolution of the part that makes fewer frames of the features. */
struct TdtSubsampling {
    ggml_tensor* weight = nullptr;
    ggml_tensor* bias = nullptr;
    bool         is_depthwise = false;
    /** Halves the frames; otherwise it only mixes channels. */
    bool halves = false;
    /** Negative values become zero afterwards. */
    bool is_rectified = false;
};

struct TdtLayer {
    TdtLinear    norm_ff1, ff1_up, ff1_down;
    TdtLinear    norm_attention, query, key, value, attention_out;
    ggml_tensor* position = nullptr;
    ggml_tensor* bias_u = nullptr;
    ggml_tensor* bias_v = nullptr;
    TdtLinear    norm_convolution, convolution_in, convolution_depth, convolution_out;
    TdtLinear    norm_ff2, ff2_up, ff2_down;
    TdtLinear    norm_out;
};

struct TdtLstm {
    ggml_tensor* input = nullptr;
    ggml_tensor* hidden = nullptr;
    ggml_tensor* bias = nullptr;
};

/** The weights of a model in memory. Threads only read them. */
class TdtWeights {
   public:
    /** Reads a file. Throws a BindingError when it is not one of a model, or is cut off. */
    explicit TdtWeights(const std::string& path);
    ~TdtWeights();
    TdtWeights(const TdtWeights&) = delete;
    TdtWeights& operator=(const TdtWeights&) = delete;

    TdtSizes                    sizes;
    /** mels × (frequencies) triangles, and the window of a frame. */
    std::vector<float>          filters, window;
    std::vector<TdtSubsampling> subsampling;
    TdtLinear                   subsampling_out;
    std::vector<TdtLayer>       layers;
    ggml_tensor*                embedding = nullptr;
    std::vector<TdtLstm>        lstm;
    TdtLinear                   joint_encoder, joint_prediction, joint_out;

   private:
    ggml_tensor* Find(const std::string& name) const;
    ggml_tensor* Need(const std::string& name) const;
    TdtLinear    Linear(const std::string& name) const;
    void         Bind(const std::string& subsampling_kind);
    TdtLayer     BindLayer(int number) const;

    ggml_context*         context = nullptr;
    ggml_backend_buffer_t buffer = nullptr;
};

#endif
