#ifndef SHRUTI_THREAD_TASK_H
#define SHRUTI_THREAD_TASK_H

#include <napi.h>

#include <functional>
#include <memory>
#include <string>

#include "errors.h"

/**
 * Work on a thread of its own, in place of `Napi::AsyncWorker`, whose functions it has: so the host's pool of threads does
 * not bound how many run at once, the work can be asked to end, and the process waits for it before it exits.
 *
 * Subclasses keep JavaScript values only in members that `DropReferences` releases: the object itself may be destroyed on
 * either thread.
 */
class ThreadTask : public std::enable_shared_from_this<ThreadTask> {
   public:
    explicit ThreadTask(Napi::Env env) : env(env) {}
    virtual ~ThreadTask() = default;
    ThreadTask(const ThreadTask&) = delete;
    ThreadTask& operator=(const ThreadTask&) = delete;

    Napi::Env Env() const { return env; }

    /** Starts the work, on the JavaScript thread. An object that no `shared_ptr` owns yet belongs to the work from now on. */
    void Queue();

    /** Asks the work to end soon. Any thread may call it, more than once. */
    virtual void Cancel() {}

   protected:
    /** Does the work, on its own thread. What it throws is the argument of `OnError`. */
    virtual void Execute() = 0;
    /** Runs on the JavaScript thread after `Execute`. */
    virtual void OnOK() = 0;
    /** Runs on the JavaScript thread when the work or `OnOK` has failed. */
    virtual void OnError(const Napi::Error& error) = 0;
    /** Runs on the JavaScript thread after one of these two. */
    virtual void DropReferences() {}
    /** Runs `call` on the JavaScript thread, in order, before `OnOK`. Called on the work's own thread. */
    void Post(std::function<void(Napi::Env)> call);

   private:
    /** Returns 0, else an errno. */
    static int StartThread(std::shared_ptr<ThreadTask> task);
    void       ThreadMain();
    void       Fail(ErrorKind kind, const std::string& message);
    void       Finish();
    void       Settle();

    using Call = std::function<void(Napi::Env)>;
    static void CallOnJsThread(Napi::Env env, Napi::Function, std::nullptr_t*, Call* call);
    using Channel = Napi::TypedThreadSafeFunction<std::nullptr_t, Call, CallOnJsThread>;

    const Napi::Env env;
    Channel         channel;
    bool            failed = false;
    ErrorKind       error_kind = ErrorKind::kError;
    std::string     error_message;
};

/** Cancels all tasks and waits, for a bounded time, until their threads are gone. It is for the exit of the process. */
void StopAllTasks();

#endif
