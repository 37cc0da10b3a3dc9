#ifndef SHRUTI_MODEL_LOADING_H
#define SHRUTI_MODEL_LOADING_H

#include <napi.h>

#include <string>

#include "loaded-model.h"
#include "whisper.h"

/**
 * Returns whisper.cpp's parameters for the arguments of load(path, { useGpu, gpuDevice, flashAttention }). Throws when one of
 * them is missing or of another type, a RangeError when there is no such GPU, and an Error before loadBackends was called.
 */
whisper_context_params ReadContextParams(const Napi::CallbackInfo& info);

/** Loads the weights in a file. Throws a BindingError with whisper.cpp's reason, also for a file that was cut off. */
ModelHandle LoadModel(const std::string& path, whisper_context_params params);

/** Throws when a transcription runs on the model, which must not be freed then. */
void RequireIdle(Napi::Env env, const ModelHandle& model);

#endif
