#ifndef SHRUTI_WHISPER_STEPS_H
#define SHRUTI_WHISPER_STEPS_H

#include <vector>

#include "whisper.h"

/** Decodes one token of several states in one graph: the products with weights take all tokens at once. */
struct whisper_steps;

/** Most states of one step. */
constexpr int kMaxSteps = 16;
/**
 * Most states of one step on a GPU. ggml's kernels for products with a vector take up to eight, and make the sums of each
 * in the same order. With more it takes those for products of matrices.
 */
constexpr int kMaxStepsOnGpu = 8;

/** Returns how many states a step should have at most where the context's weights are. */
int whisper_steps_most(const whisper_context* context);

/**
 * Returns nullptr without memory, and for a context without flash attention.
 *
 * @param state any state of the context; memory for steps is computed from its form
 */
whisper_steps* whisper_steps_init(whisper_context* context, whisper_state* state);
void           whisper_steps_free(whisper_steps* steps);
/** Whether it must be freed after a step. */
bool whisper_steps_is_disposable(const whisper_steps* steps);

/**
 * Decodes the token that each state's batch holds; each batch holds exactly one. Nothing else may use the states
 * meanwhile. Then each state has its logits, as whisper.cpp's own step leaves them. Returns false when that failed; the
 * states are then as before.
 */
bool whisper_steps_decode(whisper_steps* steps, whisper_state* const* states, int count, int n_threads);

/**
 * Decodes the token that a state's batch holds, and tokens that may follow it, in one step. Then the state has the logits of the
 * first, and nothing else of it shows that there were more: the keys and values of the others lie in the free cells behind it.
 *
 * @param ahead the tokens that may follow, fewer than kMaxSteps; emptied where the state has no place for them
 * @param logits those of each of them
 * @returns false when that failed; the state is then as before
 */
bool whisper_steps_decode_ahead(whisper_steps* steps, whisper_state* state, std::vector<whisper_token>& ahead, int n_threads,
                                std::vector<float>& logits);

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
