#ifndef SHRUTI_BACKENDS_H
#define SHRUTI_BACKENDS_H

#include <napi.h>

/**
 * scoreCpuLibraries(files): how well each file with ggml's code for a family of processors suits this one. Returns
 * ggml's numbers in the order of the files: 0 for one that this processor cannot run or that cannot be loaded, and
 * the more the more of the processor's instructions it uses.
 */
Napi::Value ScoreCpuLibraries(const Napi::CallbackInfo& info);

/**
 * loadBackends(cpuLibrary, extraFiles, usesKernels): loads a CPU library, with the project's kernels or without, then
 * each file of `extraFiles`. Returns `[{ path, reason }]`, the extra files that could not be used. Throws when the CPU
 * library cannot be used. Later calls change nothing and return [].
 */
Napi::Value LoadBackends(const Napi::CallbackInfo& info);

/** describe(): `{ version, cpuLibrary, devices: [{ name, description, type, memoryBytes, freeBytes }] }`. */
Napi::Value Describe(const Napi::CallbackInfo& info);

/** Returns how many devices whisper.cpp counts as GPUs. */
int CountGpus();

#endif
