#ifndef SHRUTI_SEGMENTS_H
#define SHRUTI_SEGMENTS_H

#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "whisper.h"

/** One finished segment, copied out of whisper.cpp's state on the thread that owns it. Special tokens are left out. */
struct Segment {
    int64_t              start_ms;
    int64_t              end_ms;
    float                no_speech_probability;
    /** The model then repeated itself, which is left out. */
    bool                 is_cut = false;
    std::string          language;
    std::vector<int32_t> ids;
    std::vector<float>   probabilities;
    /** When each token begins and ends in the sound, if that was asked for and found; else none. */
    std::vector<int32_t> starts_ms, stops_ms;
    /** Where each token ends in `bytes`. */
    std::vector<uint32_t> ends;
    /** The UTF-8 of all tokens; a character may be cut off. */
    std::string bytes;
};

/** Returns a copy of a segment. It is called on the thread that owns the state. */
Segment CopySegment(whisper_context* context, whisper_state* state, int index);

/** Returns `{ startMs, endMs, language, isCut, noSpeechProbability, ids, probabilities, starts, stops, ends, bytes }`. */
Napi::Object ToObject(Napi::Env env, const Segment& segment);
#endif
