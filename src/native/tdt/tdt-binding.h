#ifndef SHRUTI_TDT_BINDING_H
#define SHRUTI_TDT_BINDING_H

#include <napi.h>

/**
 * Adds to the exports:
 *
 * loadTdt(path) → a promise of the model, an object without properties that the garbage collector frees
 * runTdt(model, samples, { groups, threads, niceness }) → { promise, abort() }; the promise is of { frames, ids, starts, durations,
 *   probabilities }: the number of the encoder's frames, and of each token its number, first frame, frames and probability
 */
void AddTdt(Napi::Env env, Napi::Object exports);

#endif
