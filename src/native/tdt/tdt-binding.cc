#include "tdt-binding.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common.h"
#include "compute-scope.h"
#include "js-params.h"
#include "niceness.h"
#include "tdt-features.h"
#include "tdt-model.h"
#include "transcription-params.h"

namespace {

constexpr int kMostThreads = 256;

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
    TdtRun(Napi::Env env, TdtHandle model, std::vector<float> samples, TdtModel::Terms of)
        : PromiseWorker(env), model(std::move(model)), samples(std::move(samples)), terms(of) {
        terms.is_stopped = IsStopped;
        terms.data = this;
    }

    void Cancel() override { cancelled.store(true, std::memory_order_relaxed); }

   protected:
    void Execute() override {
        ThrowIfStopped();
        BeNicer(terms.niceness);
        const TdtWeights& weights = model->weights;
        sound->features = TdtFeatures(samples, weights.window, weights.filters, weights.sizes.reflects_ends);
        ThrowIfStopped();
        model->Recognize(sound, terms);
        model.reset();
    }

    void OnOK() override {
        Napi::Env          env = Env();
        const auto&        tokens = sound->tokens;
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
        result.Set("frames", Napi::Number::New(env, sound->frames));
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

    TdtHandle                       model;
    const std::vector<float>        samples;
    TdtModel::Terms                 terms;
    std::atomic<bool>               cancelled{false};
    const std::shared_ptr<TdtSound> sound = std::make_shared<TdtSound>();
};

Napi::Value LoadTdt(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 1 || !info[0].IsString()) throw Napi::TypeError::New(env, "loadTdt takes a path");
    if (!HasCpuLibrary()) throw Napi::Error::New(env, "loadBackends must be called first");
    auto task = std::make_shared<TdtLoad>(env, info[0].As<Napi::String>().Utf8Value());
    task->Queue();
    return task->Promise();
}

TdtModel::Terms ReadTerms(const Napi::Object& params) {
    TdtModel::Terms terms = {};
    terms.groups = IntegerParam(params, "groups", 0, kMostThreads);
    terms.threads = IntegerParam(params, "threads", 1, kMostThreads);
    terms.niceness = IntegerParam(params, "niceness", 0, kMaxNiceness);
    return terms;
}

Napi::Value RunTdt(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 3 || !info[0].IsExternal() || !info[2].IsObject()) {
        throw Napi::TypeError::New(env, "runTdt takes a model, samples and parameters");
    }
    std::vector<float> samples = ReadSamples(info[1]);
    // The encoder needs a frame, and the deviation of features two.
    if (samples.size() < kTdtShift) throw Napi::RangeError::New(env, "the audio is shorter than a frame");
    auto         task = std::make_shared<TdtRun>(env, *info[0].As<Napi::External<TdtHandle>>().Data(), std::move(samples),
                                                 ReadTerms(info[2].As<Napi::Object>()));
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
