#include "backends.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "compute-scope.h"
#include "errors.h"
#include "ggml-backend-impl.h"
#include "log.h"
#include "thread-task.h"
#include "whisper.h"

namespace {

using SetFast = void (*)(bool);

ggml_backend_reg_t CpuRegistry() {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return device ? ggml_backend_dev_backend_reg(device) : nullptr;
}

/** Sets whether the project's own kernels compute what they can, or ggml's code everything. */
void UseKernels(bool used) { reinterpret_cast<SetFast>(LibraryFunction(CpuRegistry(), "shruti_set_fast"))(used); }

/** Throws when the library cannot be used. */
void LoadCpuLibrary(Napi::Env env, const std::string& path, bool uses_kernels) {
    TakeLoggedErrors();
    ggml_backend_load(path.c_str());
    if (CpuRegistry() == nullptr) {
        const std::string reason = TakeLoggedErrors();
        throw Napi::Error::New(env, "the CPU library " + path + " for whisper could not be loaded" +
                                        (reason.empty() ? "" : ": " + reason));
    }
    try {
        HookCpuLibrary(CpuRegistry());
        UseKernels(uses_kernels);
    } catch (const BindingError& error) {
        throw Napi::Error::New(env, error.what());
    }
}

/** Returns those that could not be used, as loadBackends does. */
Napi::Array LoadExtraFiles(Napi::Env env, const Napi::Array& files) {
    Napi::Array failures = Napi::Array::New(env);
    for (uint32_t i = 0; i < files.Length(); i++) {
        const std::string path = files.Get(i).ToString();
        TakeLoggedErrors();
        if (ggml_backend_load(path.c_str()) != nullptr) continue;
        const std::string reason = TakeLoggedErrors();
        Napi::Object      failure = Napi::Object::New(env);
        failure.Set("path", path);
        failure.Set("reason", reason.empty() ? "not usable on this machine" : reason);
        failures.Set(failures.Length(), failure);
    }
    return failures;
}

const char* TypeName(enum ggml_backend_dev_type type) {
    switch (type) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return "cpu";
        case GGML_BACKEND_DEVICE_TYPE_GPU:
            return "gpu";
        case GGML_BACKEND_DEVICE_TYPE_IGPU:
            return "igpu";
        default:
            return "accelerator";
    }
}

Napi::String StringOrEmpty(Napi::Env env, const char* text) { return Napi::String::New(env, text ? text : ""); }

Napi::Object DescribeDevice(Napi::Env env, ggml_backend_dev_t device) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("name", StringOrEmpty(env, ggml_backend_dev_name(device)));
    entry.Set("description", StringOrEmpty(env, ggml_backend_dev_description(device)));
    entry.Set("type", TypeName(ggml_backend_dev_type(device)));
    entry.Set("memoryBytes", Napi::Number::New(env, static_cast<double>(total_bytes)));
    entry.Set("freeBytes", Napi::Number::New(env, static_cast<double>(free_bytes)));
    return entry;
}

}  // namespace

int CountGpus() {
    int count = 0;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        const enum ggml_backend_dev_type type = ggml_backend_dev_type(ggml_backend_dev_get(i));
        if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU) count++;
    }
    return count;
}

Napi::Value ScoreCpuLibraries(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 1 || !info[0].IsArray()) {
        throw Napi::TypeError::New(env, "scoreCpuLibraries takes a list of files");
    }
    Napi::Array files = info[0].As<Napi::Array>();
    Napi::Array scores = Napi::Array::New(env);
    for (uint32_t i = 0; i < files.Length(); i++) {
        const std::string path = files.Get(i).ToString();
        int               score = 0;
        void*             library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr) {
            auto function = reinterpret_cast<ggml_backend_score_t>(dlsym(library, "ggml_backend_score"));
            score = function == nullptr ? 1 : function();
            dlclose(library);
        }
        scores.Set(i, Napi::Number::New(env, score));
    }
    return scores;
}

Napi::Value LoadBackends(const Napi::CallbackInfo& info) {
    Napi::Env env = info.Env();
    if (info.Length() != 3 || !info[0].IsString() || !info[1].IsArray() || !info[2].IsBoolean()) {
        throw Napi::TypeError::New(env, "loadBackends takes a file, a list of files and whether kernels are used");
    }
    if (HasCpuLibrary()) return Napi::Array::New(env);
    LoadCpuLibrary(env, info[0].As<Napi::String>(), info[2].As<Napi::Boolean>().Value());
    Napi::Array failures = LoadExtraFiles(env, info[1].As<Napi::Array>());
    // After ggml's own exit handlers are registered, hence run before them.
    std::atexit(StopAllTasks);
    return failures;
}

Napi::Value Describe(const Napi::CallbackInfo& info) {
    Napi::Env    env = info.Env();
    Napi::Object result = Napi::Object::New(env);
    result.Set("version", StringOrEmpty(env, whisper_version()));
    result.Set("cpuLibrary", StringOrEmpty(env, CpuLibraryPath()));
    Napi::Array devices = Napi::Array::New(env);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        devices.Set(static_cast<uint32_t>(i), DescribeDevice(env, ggml_backend_dev_get(i)));
    }
    result.Set("devices", devices);
    return result;
}
