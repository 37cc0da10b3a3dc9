#ifndef SHRUTI_STEP_GROUP_H
#define SHRUTI_STEP_GROUP_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "compute-scope.h"
#include "drafter.h"
#include "whisper-steps.h"

/**
 * Transcriptions of one model that share threads and make their decoding steps together. Each runs whisper.cpp's own
 * loop on a thread of its own. In a thread group either one transcription encodes, or all that decode there make one step.
 * While a thread group encodes, those that decoded there make their steps in another one. There are as many thread groups
 * as threads. While fewer transcriptions run than there are thread groups, they share the threads of all; otherwise a
 * thread group is one thread's work, and threads never wait for each other inside a step. A transcription that has ended,
 * failed or was stopped leaves its thread group, and the others continue.
 */
class StepGroup {
   public:
    explicit StepGroup(whisper_context* context);
    ~StepGroup();
    StepGroup(const StepGroup&) = delete;
    StepGroup& operator=(const StepGroup&) = delete;

    struct ThreadGroup;

    /** Asked while a member waits. */
    struct Stop {
        bool (*is_wanted)(void*);
        void* data;
    };

    /** What a transcription computes with. */
    struct Threads {
        /** The scope of its own thread. */
        ComputeScope& scope;
        /** Most threads of one computation. */
        int most;
        /** Returns a pool of `most` threads, which is made when it is first asked for, on the thread that asks. */
        std::function<ggml_threadpool_t()> pool;
    };

    /** One transcription. Its functions are called on its own thread. */
    class Member {
       public:
        /** @param drafter makes steps for several tokens while no other member shares them; nullptr: each has one token */
        Member(StepGroup& group, whisper_state* state, Stop stop, Threads threads, Drafter* drafter = nullptr);
        ~Member();
        Member(const Member&) = delete;
        Member& operator=(const Member&) = delete;

        /** Waits until this member may encode a window. Returns false when it was stopped. */
        bool BeginEncode();
        /** Leaves the others, and computes what follows alone. They do not wait for it. */
        void StepAside();

       private:
        friend class StepGroup;

        static int OnStep(whisper_state* state, bool is_single, void* self);
        bool       ShouldStop() const { return stop.is_wanted(stop.data); }
        /** Sets how many threads compute what this thread computes from now on. */
        void Use(int count);
        /** Binds the thread to a processor; -1: to none. Only the thread itself, or while it waits for a step. */
        void RunOn(int wanted);

        StepGroup&     group;
        whisper_state* state;
        const Stop     stop;
        const Threads  threads;
        Drafter* const drafter;
        /** The thread group in which this member encodes or decodes. */
        ThreadGroup* thread_group = nullptr;
        /** The thread, and the processor that it is bound to; -1: none. */
        int   thread = 0;
        int   processor = -1;
        bool  is_decoding = false;
        bool  is_done = false;
        bool  is_ok = false;
    };

    /** Sets the number of thread groups; it only grows. */
    void SetThreadGroups(int count);

    /** Steps that were made, and the tokens that they decoded. */
    struct Counts {
        uint64_t steps = 0;
        uint64_t tokens = 0;
    };
    Counts Made();

   private:
    using Lock = std::unique_lock<std::mutex>;

    int          Step(Member& member);
    void         Lead(Member& leader, ThreadGroup& thread_group, Lock& lock);
    void         Leave(Member& member);
    void         WakeAll();
    ThreadGroup* ThreadGroupToEncode(const Member& member);
    bool         IsDraining() const;
    bool         MayEncode(const ThreadGroup& thread_group) const;
    bool         MayStep(const ThreadGroup& thread_group) const;
    bool         IsMachineFull() const;
    int          FreeThreads() const;
    int          ThreadsFor(const Member& member) const;
    int          Decoding() const;
    void         Encode(Member& member, ThreadGroup& thread_group);
    void         JoinToDecode(Member& member, ThreadGroup& thread_group);
    void         MoveFromEncoders();
    void         Balance(Member& member);
    template <typename Condition>
    ThreadGroup* Lightest(Condition holds) const;
    ThreadGroup* LightestWithoutEncoder() const;
    /** Computes a step without the lock. */
    bool Compute(ThreadGroup& thread_group, const Member& leader, const std::vector<Member*>& members);
    /** Computes the step of a member that shares it with none, and tokens ahead of it. */
    bool ComputeAhead(ThreadGroup& thread_group, const Member& member);

    whisper_context* const                    context;
    const int                          most_steps;
    std::mutex                                mutex;
    /** Members wait to encode. */
    std::condition_variable                   changed;
    std::vector<std::unique_ptr<ThreadGroup>> thread_groups;
    Counts                             made;
    /** Members that wait to encode, in the order in which they came. */
    std::list<Member*> waiting;
    /** How many members decoded at most since all thread groups encoded at once; 0: no step was made since. */
    int most_decoding = 0;
};

#endif
