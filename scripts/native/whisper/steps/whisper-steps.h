#ifndef SHRUTI_WHISPER_STEPS_H
#define SHRUTI_WHISPER_STEPS_H

#include "whisper.h"

/** Decodes one token of several states in one graph: the products with weights take all tokens at once. */
struct whisper_steps;

/** Most states of one step. */
constexpr int kMaxSteps = 16;

/** Returns nullptr without memory, and for a context without flash attention. */
whisper_steps* whisper_steps_init(whisper_context* context);
void           whisper_steps_free(whisper_steps* steps);

/**
 * Decodes the token that each state's batch holds; each batch holds exactly one. Nothing else may use the states
 * meanwhile. Then each state has its logits, as whisper.cpp's own step leaves them. Returns false when that failed; the
 * states are then as before.
 */
bool whisper_steps_decode(whisper_steps* steps, whisper_state* const* states, int count, int n_threads);

/**
 * Called by `whisper_full_with_state` instead of its own step.
 *
 * @param is_single the batch holds one token
 * @returns 1: the step was made; 0: whisper.cpp makes it; -1: decoding ends with an error
 */
typedef int (*whisper_step_callback)(whisper_state* state, bool is_single, void* data);

/** Sets or (nullptr) removes the callback of a state. */
void whisper_set_step_callback(whisper_state* state, whisper_step_callback callback, void* data);

#endif
