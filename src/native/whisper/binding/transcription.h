#ifndef SHRUTI_TRANSCRIPTION_H
#define SHRUTI_TRANSCRIPTION_H

#include <napi.h>

#include "loaded-model.h"

/**
 * model.transcribe(samples, params, onEvent) → { promise, abort() }
 *
 * samples: Float32Array of 16 kHz mono, copied before the call returns. params: see ReadParams; every
 * field is required and checked. onEvent("progress", percent) and onEvent("segment", segment) come while the work
 * runs. The promise resolves to { segments, steps, heads, drafted, accepted }: all segments, what they cost in decoding steps, and
 * how many tokens the draft model wrote and the model chose, too. A segment is
 * { startMs, endMs, language, isCut, noSpeechProbability, ids, probabilities, starts, ends, bytes, spokenLanguages }, where
 * ends[i] is where token i ends in bytes; special tokens are left out. isCut: the model then repeated itself, which is left
 * out. spokenLanguages: the most probable languages of the first window, { language, probability }; none of an English model.
 */
Napi::Value StartTranscription(const Napi::CallbackInfo& info, const ModelHandle& model);

#endif
