#include "model-loading.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "backends.h"
#include "compute-scope.h"
#include "errors.h"
#include "js-params.h"
#include "log.h"

namespace {

constexpr size_t kReadBufferBytes = 1 << 20;

/** Reads the file for whisper.cpp, which itself does not notice a short read. */
class ModelFile {
   public:
    explicit ModelFile(const std::string& path) : file(std::fopen(path.c_str(), "rb")) {
        if (file == nullptr) {
            throw BindingError(ErrorKind::kError, "cannot open " + path + ": " + std::strerror(errno));
        }
        std::setvbuf(file, nullptr, _IOFBF, kReadBufferBytes);
    }
    ~ModelFile() { std::fclose(file); }
    ModelFile(const ModelFile&) = delete;
    ModelFile& operator=(const ModelFile&) = delete;

    size_t Read(void* output, size_t size) {
        const size_t got = std::fread(output, 1, size, file);
        if (got < size) {
            std::memset(static_cast<char*>(output) + got, 0, size - got);
            // whisper.cpp finds the end of the tensors by reading four-byte numbers beyond it.
            const bool clean_end = got == 0 && size == sizeof(int32_t);
            if (!ended && !clean_end) truncated = true;
            ended = true;
        }
        return size;
    }
    bool Ended() const { return ended; }
    bool Truncated() const { return truncated; }

    /** Returns what whisper.cpp reads it with, while this object lives. */
    whisper_model_loader Loader() {
        whisper_model_loader loader = {};
        loader.context = this;
        loader.read = [](void* file, void* output, size_t size) {
            return static_cast<ModelFile*>(file)->Read(output, size);
        };
        loader.eof = [](void* file) { return static_cast<ModelFile*>(file)->Ended(); };
        loader.close = [](void*) {};
        return loader;
    }

   private:
    FILE* file;
    bool  ended = false;
    bool  truncated = false;
};

int GpuParam(const Napi::Object& options) {
    Napi::Value  index = options.Get("gpuDevice");
    const double number = index.IsNumber() ? index.As<Napi::Number>().DoubleValue() : -1;
    // whisper.cpp would silently go on with the CPU.
    if (!(number >= 0 && number < CountGpus()) || number != static_cast<int>(number)) {
        throw Napi::RangeError::New(options.Env(), "there is no such GPU");
    }
    return static_cast<int>(number);
}

}  // namespace

whisper_context_params ReadContextParams(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 2 || !info[0].IsString() || !info[1].IsObject()) {
        throw Napi::TypeError::New(env, "load takes a path and options");
    }
    if (!HasCpuLibrary()) throw Napi::Error::New(env, "loadBackends must be called first");

    Napi::Object           options = info[1].As<Napi::Object>();
    whisper_context_params params = whisper_context_default_params();
    params.use_gpu = FlagParam(options, "useGpu");
    params.flash_attn = FlagParam(options, "flashAttention");
    params.gpu_device = params.use_gpu ? GpuParam(options) : 0;
    return params;
}

ModelHandle LoadModel(const std::string& path, whisper_context_params params) {
    ModelFile            file(path);
    whisper_model_loader loader = file.Loader();
    TakeLoggedErrors();
    whisper_context* context = whisper_init_with_params_no_state(&loader, params);
    if (context == nullptr) {
        throw BindingError(ErrorKind::kError, "cannot load " + path + ": " + TakeLoggedErrors());
    }
    ModelHandle model = std::make_shared<LoadedModel>(context);
    if (file.Truncated()) {
        throw BindingError(ErrorKind::kError, "cannot load " + path + ": the file is truncated");
    }
    return model;
}

void RequireIdle(Napi::Env env, const ModelHandle& model) {
    if (model.use_count() > 1) throw Napi::Error::New(env, "a transcription is running on this model");
}
