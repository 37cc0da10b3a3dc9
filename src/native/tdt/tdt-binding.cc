#include "tdt-binding.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common.h"
#include "compute-scope.h"
#include "js-params.h"
#include "niceness.h"
#include "tdt-decoder.h"
#include "tdt-encoder.h"
#include "tdt-features.h"
#include "tdt-weights.h"
#include "transcription-params.h"

namespace {

constexpr int kMostThreads = 256;

/** What one running chunk needs besides the weights. It is kept for later chunks. */
struct TdtSlot {
    explicit TdtSlot(const TdtWeights& weights) : encoder(weights, computer), decoder(weights, computer) {}
    TdtComputer computer;
    TdtEncoder  encoder;
    TdtDecoder  decoder;
};

/** Loaded weights, shared by the JavaScript object and every running chunk. The last of them frees them. */
class TdtModel {
   public:
    explicit TdtModel(const std::string& path) : weights(path) {}

    std::unique_ptr<TdtSlot> TakeSlot() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            if (!idle.empty()) {
                std::unique_ptr<TdtSlot> slot = std::move(idle.back());
                idle.pop_back();
                return slot;
            }
        }
        return std::make_unique<TdtSlot>(weights);
    }

    void GiveSlot(std::unique_ptr<TdtSlot> slot) {
        std::lock_guard<std::mutex> lock(mutex);
        idle.push_back(std::move(slot));
    }

    const TdtWeights weights;

   private:
    std::mutex                            mutex;
    std::vector<std::unique_ptr<TdtSlot>> idle;
};

using TdtHandle = std::shared_ptr<TdtModel>;

class TdtLoad : public PromiseWorker {
   public:
    TdtLoad(Napi::Env env, std::string path) : PromiseWorker(env), path(std::move(path)) {}

   protected:
    void Execute() override { model = std::make_shared<TdtModel>(path); }

    void OnOK() override {
        auto external = Napi::External<TdtHandle>::New(Env(), new TdtHandle(std::move(model)),
                                                       [](Napi::Env, TdtHandle* handle) { delete handle; });
        promise.Resolve(external);
    }

   private:
    const std::string path;
    TdtHandle         model;
};

class TdtRun : public PromiseWorker {
   public:
    TdtRun(Napi::Env env, TdtHandle model, std::vector<float> samples, int threads, int niceness)
        : PromiseWorker(env),
          model(std::move(model)),
          samples(std::move(samples)),
          threads(threads),
          niceness(niceness) {}

    void Cancel() override { cancelled.store(true, std::memory_order_relaxed); }

   protected:
    void Execute() override {
        ThrowIfStopped();
        BeNicer(niceness);
        const TdtWeights&        weights = model->weights;
        const std::vector<float> features = TdtFeatures(samples, weights.window, weights.filters);
        ThrowIfStopped();
        std::unique_ptr<TdtSlot> slot = model->TakeSlot();
        ComputeScope             scope(IsStopped, this);
        slot->computer.SetThreads(threads, niceness);
        const TdtEncoder::Encoded encoded = slot->encoder.Encode({features}, scope).front();
        frames = encoded.count;
        tokens = slot->decoder.Decode(encoded, scope);
        model->GiveSlot(std::move(slot));
        model.reset();
    }

    void OnOK() override {
        Napi::Env          env = Env();
        const size_t       count = tokens.size();
        Napi::Int32Array   ids = Napi::Int32Array::New(env, count);
        Napi::Int32Array   starts = Napi::Int32Array::New(env, count);
        Napi::Int32Array   durations = Napi::Int32Array::New(env, count);
        Napi::Float32Array probabilities = Napi::Float32Array::New(env, count);
        for (size_t n = 0; n < count; n++) {
            ids[n] = tokens[n].id;
            starts[n] = tokens[n].frame;
            durations[n] = tokens[n].duration;
            probabilities[n] = tokens[n].probability;
        }
        Napi::Object result = Napi::Object::New(env);
        result.Set("frames", Napi::Number::New(env, frames));
        result.Set("ids", ids);
        result.Set("starts", starts);
        result.Set("durations", durations);
        result.Set("probabilities", probabilities);
        promise.Resolve(result);
    }

    void DropReferences() override { model.reset(); }

   private:
    static bool IsStopped(void* self) { return static_cast<TdtRun*>(self)->cancelled.load(std::memory_order_relaxed); }
    void        ThrowIfStopped() {
        if (cancelled.load()) throw BindingError(ErrorKind::kAbort, "the transcription was aborted");
    }

    TdtHandle                model;
    const std::vector<float> samples;
    const int                threads, niceness;
    std::atomic<bool>        cancelled{false};
    int                      frames = 0;
    std::vector<TdtToken>    tokens;
};

Napi::Value LoadTdt(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 1 || !info[0].IsString()) throw Napi::TypeError::New(env, "loadTdt takes a path");
    if (!HasCpuLibrary()) throw Napi::Error::New(env, "loadBackends must be called first");
    auto task = std::make_shared<TdtLoad>(env, info[0].As<Napi::String>().Utf8Value());
    task->Queue();
    return task->Promise();
}

Napi::Value RunTdt(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 3 || !info[0].IsExternal() || !info[2].IsObject()) {
        throw Napi::TypeError::New(env, "runTdt takes a model, samples and parameters");
    }
    const Napi::Object params = info[2].As<Napi::Object>();
    std::vector<float> samples = ReadSamples(info[1]);
    if (samples.size() < kTdtShift) throw Napi::RangeError::New(env, "the audio is shorter than a frame");
    auto         task = std::make_shared<TdtRun>(env, *info[0].As<Napi::External<TdtHandle>>().Data(), std::move(samples),
                                                 IntegerParam(params, "threads", 1, kMostThreads),
                                                 IntegerParam(params, "niceness", 0, kMaxNiceness));
    Napi::Object handle = Napi::Object::New(env);
    handle.Set("promise", task->Promise());
    std::weak_ptr<TdtRun> weak = task;
    handle.Set("abort", Napi::Function::New(env, [weak](const Napi::CallbackInfo&) {
                   if (auto running = weak.lock()) running->Cancel();
               }));
    task->Queue();
    return handle;
}

}  // namespace

void AddTdt(Napi::Env env, Napi::Object exports) {
    exports.Set("loadTdt", Napi::Function::New(env, LoadTdt));
    exports.Set("runTdt", Napi::Function::New(env, RunTdt));
}
