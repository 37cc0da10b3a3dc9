#include "transcription-params.h"

#include <algorithm>
#include <cmath>

#include "js-params.h"
#include "languages.h"

namespace {

constexpr int    kMaxThreads = 256;
constexpr int    kMaxDecoders = 8;  // WHISPER_MAX_DECODERS
constexpr int    kMaxTextTokens = 224;
constexpr size_t kMaxPromptBytes = 4096;
constexpr size_t kMaxLanguageBytes = 32;
constexpr double kMaxSteps = 1e9;
// With the token before them they are a whole step (whisper-steps.h).
constexpr int    kMostAhead = 15;
constexpr int    kMaxCodePoint = 0x10ffff;
constexpr float  kMaxAmplitude = 16.0f;
// The encoder's frames of a window of 30 s.
constexpr int    kMaxWindowFrames = 1500;
constexpr size_t kMaxSamples = static_cast<size_t>(WHISPER_SAMPLE_RATE) * 3600;

std::string LanguageParam(const Napi::Object& object, whisper_context* context) {
    std::string language = TextParam(object, "language", kMaxLanguageBytes);
    const bool  multilingual = whisper_is_multilingual(context) != 0;
    if (language == "auto" && multilingual) return language;
    const int id = whisper_lang_id(language.c_str());
    // whisper.cpp would read the token before the first language for an unknown one. Full names are not taken.
    const bool known = id >= 0 && language == whisper_lang_str(id);
    const int  languages = multilingual ? LanguageCount(context) : 1;
    if (!known || id >= languages) {
        throw Napi::RangeError::New(object.Env(), "the model does not know the language " + language);
    }
    return language;
}

/** English models have no token for the task. */
bool TranslatesParam(const Napi::Object& object, whisper_context* context) {
    const bool translates = FlagParam(object, "translates");
    if (translates && whisper_is_multilingual(context) == 0) {
        throw Napi::RangeError::New(object.Env(), "an English model cannot translate");
    }
    return translates;
}

std::vector<int32_t> NumbersParam(const Napi::Object& object, const char* name) {
    Napi::Value value = object.Get(name);
    if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
        throw Napi::TypeError::New(object.Env(), std::string(name) + " must be an Int32Array");
    }
    Napi::Int32Array array = value.As<Napi::Int32Array>();
    return std::vector<int32_t>(array.Data(), array.Data() + array.ElementLength());
}

/** Returns first and last of each range of code points, in order. */
std::vector<int32_t> CharactersParam(const Napi::Object& object) {
    std::vector<int32_t> bounds = NumbersParam(object, "characters");
    const bool           is_within = bounds.empty() || (bounds.front() >= 0 && bounds.back() <= kMaxCodePoint);
    if (bounds.size() % 2 != 0 || !is_within || !std::is_sorted(bounds.begin(), bounds.end())) {
        throw Napi::RangeError::New(object.Env(), "characters must hold ranges of code points in order");
    }
    return bounds;
}

/** Frames. */
constexpr int kMaxDelay = 50;

std::vector<AlignmentHead> HeadsParam(const Napi::Object& object, whisper_context* context) {
    const std::vector<int32_t> pairs = NumbersParam(object, "alignmentHeads");
    std::vector<AlignmentHead> heads;
    bool                       is_within = pairs.size() % 2 == 0;
    for (size_t i = 0; is_within && i < pairs.size(); i += 2) {
        heads.push_back({pairs[i], pairs[i + 1]});
        is_within = pairs[i] >= 0 && pairs[i] < whisper_model_n_text_layer(context) && pairs[i + 1] >= 0 &&
                    pairs[i + 1] < whisper_model_n_text_head(context);
    }
    if (!is_within) {
        throw Napi::RangeError::New(object.Env(), "alignmentHeads must hold layers and heads that the model has");
    }
    return heads;
}

}  // namespace

TranscriptionParams ReadParams(const Napi::Object& object, whisper_context* context) {
    TranscriptionParams params;
    params.language = LanguageParam(object, context);
    params.threads = IntegerParam(object, "threads", 1, kMaxThreads);
    params.thread_groups = IntegerParam(object, "threadGroups", 0, kMaxThreads);
    params.group_threads = IntegerParam(object, "groupThreads", 1, kMaxThreads);
    params.niceness = IntegerParam(object, "niceness", 0, kMaxNiceness);
    params.beam_search = FlagParam(object, "beamSearch");
    params.best_of = IntegerParam(object, "bestOf", 1, kMaxDecoders);
    params.beam_size = IntegerParam(object, "beamSize", 1, kMaxDecoders);
    params.temperature = static_cast<float>(NumberParam(object, "temperature", 0, 1));
    params.temperature_increment = static_cast<float>(NumberParam(object, "temperatureIncrement", 0, 1));
    if (params.temperature_increment > 0 && params.temperature_increment < 0.05f) {
        throw Napi::RangeError::New(object.Env(), "temperatureIncrement must be 0 or at least 0.05");
    }
    params.entropy_threshold = static_cast<float>(NumberParam(object, "entropyThreshold", 0, 100));
    params.logprob_threshold = static_cast<float>(NumberParam(object, "logprobThreshold", -100, 0));
    params.no_speech_threshold = static_cast<float>(NumberParam(object, "noSpeechThreshold", 0, 1));
    params.initial_prompt = TextParam(object, "initialPrompt", kMaxPromptBytes);
    params.translates = TranslatesParam(object, context);
    params.suppress_non_speech = FlagParam(object, "suppressNonSpeech");
    params.timestamps = FlagParam(object, "timestamps");
    params.max_tokens = IntegerParam(object, "maxTokens", 0, kMaxTextTokens);
    params.window_frames = IntegerParam(object, "windowFrames", 1, kMaxWindowFrames);
    params.most_steps = NumberParam(object, "mostSteps", 0, kMaxSteps);
    params.encoder_steps = NumberParam(object, "encoderSteps", 0, kMaxSteps);
    params.characters = CharactersParam(object);
    params.alignment_heads = HeadsParam(object, context);
    params.alignment_delay = IntegerParam(object, "alignmentDelay", -kMaxDelay, kMaxDelay);
    params.measures_heads = FlagParam(object, "measuresHeads");
    params.drafts = FlagParam(object, "drafts");
    params.draft_ahead = IntegerParam(object, "draftAhead", 0, kMostAhead);
    return params;
}

std::vector<float> ReadSamples(const Napi::Value& value) {
    Napi::Env env = value.Env();
    if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_float32_array) {
        throw Napi::TypeError::New(env, "samples must be a Float32Array");
    }
    Napi::Float32Array array = value.As<Napi::Float32Array>();
    const size_t       count = array.ElementLength();
    if (count == 0) throw Napi::RangeError::New(env, "the audio is empty");
    if (count > kMaxSamples) throw Napi::RangeError::New(env, "the audio is longer than an hour");
    const float* data = array.Data();
    // Values beyond any audio overflow in the spectrum and reach the decoder as NaN, where whisper.cpp aborts.
    for (size_t i = 0; i < count; i++) {
        if (!(std::fabs(data[i]) <= kMaxAmplitude)) {
            throw Napi::RangeError::New(env, "the audio has a sample that is no number or far outside -1 to 1");
        }
    }
    return std::vector<float>(data, data + count);
}
