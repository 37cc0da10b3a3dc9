#ifndef SHRUTI_ADDON_H
#define SHRUTI_ADDON_H

#include <napi.h>

/**
 * Adds Shruti's own functions to smart-whisper's exports, and its methods to WhisperModel, which must be there. From then on
 * whisper.cpp and ggml print nothing, and all work is stopped before this environment ends.
 *
 * scoreCpuLibraries(…), loadBackends(…), describe(): see backends.h
 * loadTdt(…), runTdt(…): see tdt-binding.h
 * findLoop(text) → { begin, unit } in bytes, or undefined; see loops.h
 */
void AddShruti(Napi::Env env, Napi::Object exports);

#endif
