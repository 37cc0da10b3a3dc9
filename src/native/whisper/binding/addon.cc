#include "addon.h"

#include <string>

#include "backends.h"
#include "log.h"
#include "loops.h"
#include "model-methods.h"
#include "tdt-binding.h"
#include "thread-task.h"

namespace {

Napi::Value FindLoopOf(const Napi::CallbackInfo& info) {
    const std::string text = info[0].ToString();
    const auto        loop = FindLoop(text);
    if (!loop) return info.Env().Undefined();
    Napi::Object result = Napi::Object::New(info.Env());
    result.Set("begin", static_cast<double>(loop->begin));
    result.Set("unit", static_cast<double>(loop->unit));
    return result;
}

}  // namespace

void AddShruti(Napi::Env env, Napi::Object exports) {
    InstallLogCapture();
    env.AddCleanupHook([] { StopAllTasks(); });
    exports.Set("scoreCpuLibraries", Napi::Function::New(env, ScoreCpuLibraries));
    exports.Set("loadBackends", Napi::Function::New(env, LoadBackends));
    exports.Set("describe", Napi::Function::New(env, Describe));
    exports.Set("findLoop", Napi::Function::New(env, FindLoopOf));
    AddTdt(env, exports);
    AddModelMethods(env, exports.Get("WhisperModel").As<Napi::Function>());
}
