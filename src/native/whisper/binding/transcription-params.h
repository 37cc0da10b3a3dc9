#ifndef SHRUTI_TRANSCRIPTION_PARAMS_H
#define SHRUTI_TRANSCRIPTION_PARAMS_H

#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "alignment.h"
#include "niceness.h"
#include "whisper.h"

/** The parameters of one transcription; `NativeParams` in whisper-addon.ts says what they mean. */
struct TranscriptionParams {
    std::string          language;
    int                  threads;
    int                  thread_groups;
    int                  group_threads;
    int                  niceness;
    bool                 beam_search;
    int                  best_of;
    int                  beam_size;
    float                temperature;
    float                temperature_increment;
    float                entropy_threshold;
    float                logprob_threshold;
    float                no_speech_threshold;
    std::string          initial_prompt;
    bool                 translates;
    bool                 suppress_non_speech;
    bool                 timestamps;
    int                  max_tokens;
    int                  window_frames;
    double               most_steps;
    double               encoder_steps;
    std::vector<int32_t> characters;
    /** None: words need no times. */
    std::vector<AlignmentHead> alignment_heads;
    int                        alignment_delay;
    bool                       measures_heads;
    bool                       drafts;
    int                        draft_ahead;

    /** Whether the transcription shares threads and steps with others. */
    bool IsShared() const { return thread_groups > 0 && !beam_search; }
};

/**
 * Reads the parameters, all of which are required. Throws a TypeError for a field of another type, and a RangeError for a
 * value out of range or a language that the model does not know.
 */
TranscriptionParams ReadParams(const Napi::Object& object, whisper_context* context);

/**
 * Returns a copy of a Float32Array. Throws a TypeError when it is something else, and a RangeError when it is empty or longer
 * than an hour, and when a sample is not a number or lies far outside -1 to 1.
 */
std::vector<float> ReadSamples(const Napi::Value& value);

#endif
