#ifndef SHRUTI_COMPUTE_SCOPE_H
#define SHRUTI_COMPUTE_SCOPE_H

#include "ggml-backend.h"

/**
 * While it lives, CPU graphs computed on this thread ask `abort` between two operations, and have the threads that it sets.
 * whisper.cpp 1.9.1 passes its own abort callback to no backend, so that an encode, which may take many seconds,
 * could not be stopped.
 */
class ComputeScope {
   public:
    ComputeScope(ggml_abort_callback abort, void* abort_data);
    ~ComputeScope();
    ComputeScope(const ComputeScope&) = delete;
    ComputeScope& operator=(const ComputeScope&) = delete;

    /** The next graphs are computed by `count` threads of a pool, whatever number whisper.cpp asks for. */
    void SetThreads(int count, ggml_threadpool_t of);
    /** Sets what a backend computes with on this thread: what its scope says, else `n_threads` threads. */
    static void Prepare(ggml_backend_t backend, int n_threads);

   private:
    const ggml_abort_callback abort;
    void* const               abort_data;
    /** 0: as many as whisper.cpp asks for. */
    int               threads = 0;
    ggml_threadpool_t pool = nullptr;
    /** The scope around this one on the same thread. */
    ComputeScope* const outer;
};

/**
 * From now on graphs are computed as their scope says, with the functions of a CPU library that was loaded at run time.
 * Throws a BindingError when it lacks one.
 */
void HookCpuLibrary(ggml_backend_reg_t library);

/** Returns whether a CPU library was hooked. Without one whisper.cpp crashes. */
bool HasCpuLibrary();

/** Returns the path of the CPU library; nullptr: there is none, or the system does not tell. */
const char* CpuLibraryPath();

/** Returns a function of a library by name. Throws a BindingError when the library lacks it. */
void* LibraryFunction(ggml_backend_reg_t library, const char* name);

/** Returns threads of the CPU library, which are kept between graphs; nullptr for one thread. */
ggml_threadpool_t NewThreadPool(int n_threads);
void              FreeThreadPool(ggml_threadpool_t pool);

#endif
