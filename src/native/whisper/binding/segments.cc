#include "segments.h"

#include <cstring>

namespace {

/** whisper.cpp counts time in units of so many milliseconds. */
constexpr int64_t kUnitMs = 10;

template <typename Array, typename Element>
Array ToTypedArray(Napi::Env env, const std::vector<Element>& values) {
    Array array = Array::New(env, values.size());
    if (!values.empty()) std::memcpy(array.Data(), values.data(), values.size() * sizeof(Element));
    return array;
}

}  // namespace

Segment CopySegment(whisper_context* context, whisper_state* state, int index) {
    Segment segment;
    segment.start_ms = whisper_full_get_segment_t0_from_state(state, index) * kUnitMs;
    segment.end_ms = whisper_full_get_segment_t1_from_state(state, index) * kUnitMs;
    segment.no_speech_probability = whisper_full_get_segment_no_speech_prob_from_state(state, index);
    const char* language = whisper_lang_str(whisper_full_lang_id_from_state(state));
    segment.language = whisper_is_multilingual(context) && language ? language : "en";
    const int tokens = whisper_full_n_tokens_from_state(state, index);
    for (int i = 0; i < tokens; i++) {
        const whisper_token_data token = whisper_full_get_token_data_from_state(state, index, i);
        if (token.id >= whisper_token_eot(context)) continue;
        segment.ids.push_back(token.id);
        segment.probabilities.push_back(token.p);
        segment.bytes.append(whisper_token_to_str(context, token.id));
        segment.ends.push_back(static_cast<uint32_t>(segment.bytes.size()));
    }
    return segment;
}

Napi::Object ToObject(Napi::Env env, const Segment& segment) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("startMs", Napi::Number::New(env, static_cast<double>(segment.start_ms)));
    object.Set("endMs", Napi::Number::New(env, static_cast<double>(segment.end_ms)));
    object.Set("language", segment.language);
    object.Set("isCut", Napi::Boolean::New(env, segment.is_cut));
    object.Set("noSpeechProbability", Napi::Number::New(env, segment.no_speech_probability));
    object.Set("ids", ToTypedArray<Napi::Int32Array>(env, segment.ids));
    object.Set("probabilities", ToTypedArray<Napi::Float32Array>(env, segment.probabilities));
    object.Set("starts", ToTypedArray<Napi::Int32Array>(env, segment.starts_ms));
    object.Set("stops", ToTypedArray<Napi::Int32Array>(env, segment.stops_ms));
    object.Set("ends", ToTypedArray<Napi::Uint32Array>(env, segment.ends));
    object.Set("bytes", Napi::Buffer<char>::Copy(env, segment.bytes.data(), segment.bytes.size()));
    return object;
}
