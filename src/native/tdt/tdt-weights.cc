#include "tdt-weights.h"

#include <cstdio>
#include <cstring>
#include <memory>

#include "errors.h"
#include "gguf.h"
#include "log.h"

namespace {

constexpr const char* kArchitecture = "shruti-tdt";

[[noreturn]] void Refuse(const std::string& reason) { throw BindingError(ErrorKind::kError, reason); }

/** The head of a file. */
class Head {
   public:
    explicit Head(gguf_context* file) : file(file) {}
    ~Head() { gguf_free(file); }
    Head(const Head&) = delete;
    Head& operator=(const Head&) = delete;

    int Number(const char* name) const { return static_cast<int>(gguf_get_val_u32(file, Key(name, GGUF_TYPE_UINT32))); }
    bool Has(const char* name) const { return gguf_find_key(file, name) >= 0; }
    bool Flag(const char* name) const { return gguf_get_val_bool(file, Key(name, GGUF_TYPE_BOOL)); }
    std::string Text(const char* name) const { return gguf_get_val_str(file, Key(name, GGUF_TYPE_STRING)); }
    std::vector<int> Numbers(const char* name) const {
        const int64_t key = gguf_find_key(file, name);
        if (key < 0) return {};
        if (gguf_get_kv_type(file, key) != GGUF_TYPE_ARRAY || gguf_get_arr_type(file, key) != GGUF_TYPE_UINT32)
            Refuse(std::string("its ") + name + " are no numbers");
        const auto* values = static_cast<const uint32_t*>(gguf_get_arr_data(file, key));
        return {values, values + gguf_get_arr_n(file, key)};
    }

    gguf_context* const file;

   private:
    int64_t Key(const char* name, gguf_type type) const {
        const int64_t key = gguf_find_key(file, name);
        if (key < 0 || gguf_get_kv_type(file, key) != type) Refuse(std::string("it has no ") + name);
        return key;
    }
};

TdtSizes ReadSizes(const Head& head) {
    if (head.Text("general.architecture") != kArchitecture) Refuse("it is a file of another architecture");
    TdtSizes sizes;
    sizes.mels = head.Number("tdt.mels");
    sizes.width = head.Number("tdt.width");
    sizes.heads = head.Number("tdt.heads");
    sizes.layers = head.Number("tdt.layers");
    sizes.kernel = head.Number("tdt.kernel");
    sizes.tokens = head.Number("tdt.token_count");
    sizes.prediction_width = head.Number("tdt.prediction_width");
    sizes.prediction_layers = head.Number("tdt.prediction_layers");
    sizes.joint_width = head.Number("tdt.joint_width");
    sizes.most_symbols = head.Number("tdt.most_symbols");
    sizes.scales_input = head.Flag("tdt.scales_input");
    sizes.reflects_ends = head.Has("tdt.reflects_ends") && head.Flag("tdt.reflects_ends");
    sizes.durations = head.Numbers("tdt.durations");
    return sizes;
}

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

std::vector<float> Values(const ggml_tensor* tensor) {
    const auto* values = static_cast<const float*>(tensor->data);
    return {values, values + ggml_nelements(tensor)};
}

}  // namespace

TdtWeights::TdtWeights(const std::string& path) {
    TakeLoggedErrors();
    const Head head(gguf_init_from_file(path.c_str(), {/*.no_alloc =*/true, /*.ctx =*/&context}));
    if (head.file == nullptr) Refuse("cannot load " + path + ": " + TakeLoggedErrors());
    sizes = ReadSizes(head);
    buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    if (buffer == nullptr) Refuse("there is not enough memory for " + path);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    const File file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (file == nullptr) Refuse("cannot open " + path);
    const size_t start = gguf_get_data_offset(head.file);
    for (int64_t i = 0; i < gguf_get_n_tensors(head.file); i++) {
        ggml_tensor* tensor = ggml_get_tensor(context, gguf_get_tensor_name(head.file, i));
        const size_t bytes = ggml_nbytes(tensor);
        if (fseeko(file.get(), static_cast<off_t>(start + gguf_get_tensor_offset(head.file, i)), SEEK_SET) != 0 ||
            std::fread(tensor->data, 1, bytes, file.get()) != bytes) {
            Refuse("cannot load " + path + ": the file is truncated");
        }
    }
    Bind(head.Text("tdt.subsampling"));
}

TdtWeights::~TdtWeights() {
    if (buffer != nullptr) ggml_backend_buffer_free(buffer);
    if (context != nullptr) ggml_free(context);
}

ggml_tensor* TdtWeights::Find(const std::string& name) const { return ggml_get_tensor(context, name.c_str()); }

ggml_tensor* TdtWeights::Need(const std::string& name) const {
    ggml_tensor* tensor = Find(name);
    if (tensor == nullptr) Refuse("it has no tensor " + name);
    return tensor;
}

TdtLinear TdtWeights::Linear(const std::string& name) const {
    return {Need(name + ".weight"), Find(name + ".bias")};
}

void TdtWeights::Bind(const std::string& subsampling_kind) {
    filters = Values(Need("features.filters"));
    window = Values(Need("features.window"));
    const bool is_separable = subsampling_kind == "dw_striding";
    for (int n = 0;; n++) {
        const std::string name = "subsampling." + std::to_string(n);
        if (Find(name + ".weight") == nullptr) break;
        TdtSubsampling    step;
        const TdtLinear   linear = Linear(name);
        step.weight = linear.weight;
        step.bias = linear.bias;
        step.is_depthwise = is_separable && n % 2 == 1;
        step.halves = n == 0 || !is_separable || step.is_depthwise;
        step.is_rectified = !step.is_depthwise;
        subsampling.push_back(step);
    }
    if (subsampling.empty()) Refuse("it has no subsampling");
    subsampling_out = Linear("subsampling.out");
    for (int n = 0; n < sizes.layers; n++) layers.push_back(BindLayer(n));
    embedding = Need("prediction.embedding");
    for (int n = 0; n < sizes.prediction_layers; n++) {
        const std::string name = "prediction." + std::to_string(n);
        lstm.push_back({Need(name + ".input"), Need(name + ".hidden"), Need(name + ".bias")});
    }
    joint_encoder = Linear("joint.encoder");
    joint_prediction = Linear("joint.prediction");
    joint_out = Linear("joint.out");
}

TdtLayer TdtWeights::BindLayer(int number) const {
    const std::string of = "layers." + std::to_string(number) + ".";
    TdtLayer          layer;
    layer.norm_ff1 = Linear(of + "norm_ff1");
    layer.ff1_up = Linear(of + "ff1.up");
    layer.ff1_down = Linear(of + "ff1.down");
    layer.norm_attention = Linear(of + "norm_att");
    layer.query = Linear(of + "att.query");
    layer.key = Linear(of + "att.key");
    layer.value = Linear(of + "att.value");
    layer.attention_out = Linear(of + "att.out");
    layer.position = Need(of + "att.position");
    layer.bias_u = Need(of + "att.bias_u");
    layer.bias_v = Need(of + "att.bias_v");
    layer.norm_convolution = Linear(of + "norm_conv");
    layer.convolution_in = Linear(of + "conv.in");
    layer.convolution_depth = Linear(of + "conv.depth");
    layer.convolution_out = Linear(of + "conv.out");
    layer.norm_ff2 = Linear(of + "norm_ff2");
    layer.ff2_up = Linear(of + "ff2.up");
    layer.ff2_down = Linear(of + "ff2.down");
    layer.norm_out = Linear(of + "norm_out");
    return layer;
}
