#ifndef SHRUTI_MODEL_METHODS_H
#define SHRUTI_MODEL_METHODS_H

#include <napi.h>

/**
 * Gives smart-whisper's WhisperModel what Shruti needs of it besides load and free. All of it throws once the model is freed.
 *
 * model.info: the form of the model, and { sharedSteps, sharedTokens }, what was decoded in thread groups since the load
 * model.tokens() → { bytes, ends }: the UTF-8 of all tokens, joined, and where each of them ends
 * model.excluded(characters, unfinished) → Uint8Array: 1 for each text token that may not follow, see letters.h
 * model.draftWith(model): that one drafts tokens for this one from now on, and is freed after it, see drafter.h
 * model.transcribe(samples, params, onEvent) → { promise, abort() }, see transcription.h
 */
void AddModelMethods(Napi::Env env, const Napi::Function& constructor);

#endif
