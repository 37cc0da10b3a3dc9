#include "thread-task.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>

#include "log.h"

namespace {

struct TaskRegistry {
    std::mutex              mutex;
    std::condition_variable changed;
    std::set<ThreadTask*>   tasks;
    bool                    stopping = false;

    void Add(ThreadTask* task) {
        std::lock_guard<std::mutex> lock(mutex);
        tasks.insert(task);
        if (stopping) task->Cancel();
    }

    void Remove(ThreadTask* task) {
        std::lock_guard<std::mutex> lock(mutex);
        tasks.erase(task);
        changed.notify_all();
    }
};

/** Never destroyed: threads may still look at it while the process exits. */
TaskRegistry& Registry() {
    static TaskRegistry* registry = new TaskRegistry;
    return *registry;
}

/** whisper.cpp splits a prompt with std::regex, which recurses once or more for each character. */
constexpr size_t kStackBytes = 16 << 20;
constexpr auto   kMaxExitWait = std::chrono::seconds(10);

}  // namespace

void StopAllTasks() {
    TaskRegistry&                registry = Registry();
    std::unique_lock<std::mutex> lock(registry.mutex);
    registry.stopping = true;
    for (ThreadTask* task : registry.tasks) task->Cancel();
    registry.changed.wait_for(lock, kMaxExitWait, [&] { return registry.tasks.empty(); });
}

int ThreadTask::StartThread(std::shared_ptr<ThreadTask> task) {
    auto           argument = new std::shared_ptr<ThreadTask>(std::move(task));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_t thread;
    const int code = pthread_create(
        &thread, &attributes,
        [](void* argument) -> void* {
            std::unique_ptr<std::shared_ptr<ThreadTask>> task(static_cast<std::shared_ptr<ThreadTask>*>(argument));
            (*task)->ThreadMain();
            return nullptr;
        },
        argument);
    pthread_attr_destroy(&attributes);
    if (code != 0) delete argument;
    return code;
}

void ThreadTask::Queue() {
    std::shared_ptr<ThreadTask> self = weak_from_this().lock();
    if (self == nullptr) self.reset(this);
    channel = Channel::New(env, "smart-whisper", 0, 1, nullptr);
    Registry().Add(this);
    const int code = StartThread(self);
    if (code == 0) return;
    Fail(ErrorKind::kError, std::string("cannot start a thread: ") + std::strerror(code));
    Finish();
}

void ThreadTask::ThreadMain() {
    try {
        Execute();
    } catch (const BindingError& error) {
        Fail(error.kind, error.what());
    } catch (const std::exception& error) {
        Fail(ErrorKind::kError, std::string("whisper.cpp failed: ") + error.what());
    } catch (...) {
        Fail(ErrorKind::kError, "whisper.cpp failed with an unknown exception");
    }
    TakeLoggedErrors();
    Finish();
}

void ThreadTask::Finish() {
    auto self = shared_from_this();
    Post([self](Napi::Env) { self->Settle(); });
    channel.Release();
    Registry().Remove(this);
}

void ThreadTask::Fail(ErrorKind kind, const std::string& message) {
    failed = true;
    error_kind = kind;
    error_message = message;
}

void ThreadTask::Post(Call call) {
    Call* owned = new Call(std::move(call));
    if (channel.NonBlockingCall(owned) != napi_ok) {
        // The environment is going away. The call may hold the last reference to JavaScript values, which must
        // not be released on this thread: it is left to the end of the process.
        (void)owned;
    }
}

void ThreadTask::CallOnJsThread(Napi::Env env, Napi::Function, std::nullptr_t*, Call* call) {
    if (static_cast<napi_env>(env) == nullptr) return;  // as in Post
    std::unique_ptr<Call> owned(call);
    (*owned)(env);
}

void ThreadTask::Settle() {
    Napi::HandleScope scope(env);
    if (failed) {
        OnError(MakeError(env, error_kind, error_message));
    } else {
        try {
            OnOK();
        } catch (const Napi::Error& error) {
            OnError(error);
        }
    }
    DropReferences();
}
