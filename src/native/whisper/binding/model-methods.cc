#include "model-methods.h"

#include <string>
#include <vector>

#include "errors.h"
#include "loaded-model.h"
#include "model.h"
#include "transcription.h"

namespace {

/** Returns the model whose method is called. */
const ModelHandle& ModelOf(const Napi::CallbackInfo& info) {
    const ModelHandle& model = WhisperModel::Unwrap(info.This().As<Napi::Object>())->Handle();
    if (model == nullptr) throw Napi::Error::New(info.Env(), "the model was freed");
    return model;
}

Napi::Value Transcribe(const Napi::CallbackInfo& info) { return StartTranscription(info, ModelOf(info)); }

Napi::Value DraftWith(const Napi::CallbackInfo& info) {
    Napi::Env  env = info.Env();
    const bool is_model = info.Length() == 1 && info[0].IsObject() &&
                          info[0].As<Napi::Object>().InstanceOf(env.GetInstanceData<Napi::FunctionReference>()->Value());
    if (!is_model) throw Napi::TypeError::New(env, "draftWith takes a model");
    const ModelHandle& smaller = WhisperModel::Unwrap(info[0].As<Napi::Object>())->Handle();
    const ModelHandle& model = ModelOf(info);
    if (smaller == nullptr || smaller == model) throw Napi::Error::New(env, "the draft model was freed, or is the model itself");
    RequireIdle(env, model);
    try {
        model->DraftWith(smaller);
    } catch (const BindingError& error) {
        throw Napi::Error::New(env, error.what());
    }
    return env.Undefined();
}

Napi::Value Tokens(const Napi::CallbackInfo& info) {
    Napi::Env         env = info.Env();
    whisper_context*  context = ModelOf(info)->context;
    const int         count = whisper_n_vocab(context);
    std::string       bytes;
    Napi::Uint32Array ends = Napi::Uint32Array::New(env, count);
    for (int id = 0; id < count; id++) {
        // Special tokens have made-up names such as [_BEG_], which are no text.
        if (id < whisper_token_eot(context)) bytes.append(whisper_token_to_str(context, id));
        ends[id] = static_cast<uint32_t>(bytes.size());
    }
    Napi::Object result = Napi::Object::New(env);
    result.Set("bytes", Napi::Buffer<char>::Copy(env, bytes.data(), bytes.size()));
    result.Set("ends", ends);
    return result;
}

Napi::Value Excluded(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 2 || !info[0].IsTypedArray() || !info[1].IsTypedArray()) {
        throw Napi::TypeError::New(env, "excluded takes characters and bytes");
    }
    const auto         bounds = info[0].As<Napi::Int32Array>();
    const auto         bytes = info[1].As<Napi::Uint8Array>();
    const ModelHandle& model = ModelOf(info);
    const auto         letters = model->LettersOf({bounds.Data(), bounds.Data() + bounds.ElementLength()});
    const std::string  unfinished(bytes.Data(), bytes.Data() + bytes.ElementLength());
    std::vector<float> logits(model->tokens.size(), 0);
    Exclude(letters->After(unfinished), logits.data());
    Napi::Uint8Array result = Napi::Uint8Array::New(env, logits.size());
    for (size_t id = 0; id < logits.size(); id++) result[id] = logits[id] == 0 ? 0 : 1;
    return result;
}

Napi::Value GetInfo(const Napi::CallbackInfo& info) {
    Napi::Env          env = info.Env();
    const ModelHandle& model = ModelOf(info);
    whisper_context*   context = model->context;
    Napi::Object       result = Napi::Object::New(env);
    result.Set("multilingual", Napi::Boolean::New(env, whisper_is_multilingual(context) != 0));
    result.Set("vocab", Napi::Number::New(env, whisper_model_n_vocab(context)));
    result.Set("audioLayers", Napi::Number::New(env, whisper_model_n_audio_layer(context)));
    result.Set("textLayers", Napi::Number::New(env, whisper_model_n_text_layer(context)));
    result.Set("mels", Napi::Number::New(env, whisper_model_n_mels(context)));
    result.Set("fileType", Napi::Number::New(env, whisper_model_ftype(context)));
    result.Set("type", whisper_model_type_readable(context));
    const StepGroup::Counts counts = model->StepsMade();
    result.Set("sharedSteps", Napi::Number::New(env, static_cast<double>(counts.steps)));
    result.Set("sharedTokens", Napi::Number::New(env, static_cast<double>(counts.tokens)));
    return result;
}

}  // namespace

void AddModelMethods(Napi::Env env, const Napi::Function& constructor) {
    Napi::Object prototype = constructor.Get("prototype").As<Napi::Object>();
    using Property = Napi::PropertyDescriptor;
    prototype.DefineProperties({
        Property::Accessor<GetInfo>("info"),
        Property::Function(env, prototype, "tokens", Tokens),
        Property::Function(env, prototype, "excluded", Excluded),
        Property::Function(env, prototype, "draftWith", DraftWith),
        Property::Function(env, prototype, "transcribe", Transcribe),
    });
}
