#include "compute-scope.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "errors.h"
#include "ggml-backend-impl.h"

namespace {

using GetProcAddress = void* (*)(ggml_backend_reg_t, const char*);
using SetThreadPool = void (*)(ggml_backend_t, ggml_threadpool_t);
using ThreadPoolNew = ggml_threadpool_t (*)(ggml_threadpool_params*);
using ThreadPoolFree = void (*)(ggml_threadpool_t);

// Functions of the CPU library, which is loaded at run time.
GetProcAddress                    cpu_get_proc_address = nullptr;
ggml_backend_set_n_threads_t      cpu_set_n_threads = nullptr;
ggml_backend_set_abort_callback_t cpu_set_abort_callback = nullptr;
SetThreadPool                     cpu_set_threadpool = nullptr;
ThreadPoolNew                     cpu_threadpool_new = nullptr;
ThreadPoolFree                    cpu_threadpool_free = nullptr;

thread_local ComputeScope* current_scope = nullptr;

void* HookedGetProcAddress(ggml_backend_reg_t library, const char* name) {
    if (strcmp(name, "ggml_backend_set_n_threads") == 0) {
        // whisper.cpp calls it on each backend before it computes a graph, on the thread that computes it.
        return reinterpret_cast<void*>(ComputeScope::Prepare);
    }
    return cpu_get_proc_address(library, name);
}

template <typename Function>
void Resolve(Function& function, ggml_backend_reg_t library, const char* name) {
    function = reinterpret_cast<Function>(LibraryFunction(library, name));
}

}  // namespace

ComputeScope::ComputeScope(ggml_abort_callback abort, void* abort_data)
    : abort(abort), abort_data(abort_data), outer(current_scope) {
    current_scope = this;
}

ComputeScope::~ComputeScope() { current_scope = outer; }

void ComputeScope::SetThreads(int count, ggml_threadpool_t of) {
    threads = count;
    pool = of;
}

void ComputeScope::Prepare(ggml_backend_t backend, int n_threads) {
    const ComputeScope* scope = current_scope;
    cpu_set_n_threads(backend, scope && scope->threads > 0 ? scope->threads : n_threads);
    cpu_set_abort_callback(backend, scope ? scope->abort : nullptr, scope ? scope->abort_data : nullptr);
    cpu_set_threadpool(backend, scope ? scope->pool : nullptr);
}

void HookCpuLibrary(ggml_backend_reg_t library) {
    Resolve(cpu_set_n_threads, library, "ggml_backend_set_n_threads");
    Resolve(cpu_set_abort_callback, library, "ggml_backend_set_abort_callback");
    Resolve(cpu_set_threadpool, library, "ggml_backend_cpu_set_threadpool");
    Resolve(cpu_threadpool_new, library, "ggml_threadpool_new");
    Resolve(cpu_threadpool_free, library, "ggml_threadpool_free");
    cpu_get_proc_address = library->iface.get_proc_address;
    library->iface.get_proc_address = HookedGetProcAddress;
}

bool HasCpuLibrary() { return cpu_get_proc_address != nullptr; }

const char* CpuLibraryPath() {
    Dl_info library = {};
    if (!HasCpuLibrary() || dladdr(reinterpret_cast<void*>(cpu_set_n_threads), &library) == 0) return nullptr;
    return library.dli_fname;
}

void* LibraryFunction(ggml_backend_reg_t library, const char* name) {
    void* function = ggml_backend_reg_get_proc_address(library, name);
    if (function == nullptr) {
        throw BindingError(ErrorKind::kError, std::string("the CPU library lacks ") + name);
    }
    return function;
}

ggml_threadpool_t NewThreadPool(int n_threads) {
    if (n_threads <= 1) return nullptr;
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    params.poll = 0;  // between two graphs the threads sleep; polling takes time from other slots
    return cpu_threadpool_new(&params);
}

void FreeThreadPool(ggml_threadpool_t pool) {
    if (pool != nullptr) cpu_threadpool_free(pool);
}
