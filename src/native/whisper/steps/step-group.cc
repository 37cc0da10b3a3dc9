#include "step-group.h"

#include "processors.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace {

/** A member that waits asks this often whether it was stopped. */
constexpr auto kLookEvery = std::chrono::milliseconds(50);

/** Members of all groups of the process. */
std::atomic<int> all_members{0};

struct FreeSteps {
    void operator()(whisper_steps* steps) const { whisper_steps_free(steps); }
};

}  // namespace

struct StepGroup::ThreadGroup {
    /** The member that encodes here. */
    Member* encoder = nullptr;
    /** Threads that encode or make a step here; 0: the thread group is free. */
    int threads = 0;
    /** Members of this thread group wait for it: a step was made, another member has left, or they were moved to another group. */
    std::condition_variable changed;
    int                     decoding = 0;
    /** Members that decode and have a token for the next step. */
    std::vector<Member*>                      ready;
    std::unique_ptr<whisper_steps, FreeSteps> steps;

    bool IsFree() const { return threads == 0; }
};

StepGroup::StepGroup(whisper_context* context) : context(context), most_steps(whisper_steps_most(context)) {}

StepGroup::~StepGroup() = default;

void StepGroup::SetThreadGroups(int count) {
    Lock lock(mutex);
    while (static_cast<int>(thread_groups.size()) < count) thread_groups.push_back(std::make_unique<ThreadGroup>());
}

StepGroup::Counts StepGroup::Made() {
    Lock lock(mutex);
    return made;
}

StepGroup::Member::Member(StepGroup& group, whisper_state* state, Stop stop, Threads threads, Drafter* drafter)
    : group(group), state(state), stop(stop), threads(std::move(threads)), drafter(drafter) {
    all_members++;
    whisper_set_step_callback(state, OnStep, this);
}

StepGroup::Member::~Member() {
    Lock lock(group.mutex);
    group.Leave(*this);
    RunOn(-1);
    whisper_set_step_callback(state, nullptr, nullptr);
    all_members--;
}

void StepGroup::Member::Use(int count) {
    threads.scope.SetThreads(count, count > 1 ? threads.pool() : nullptr);
}

void StepGroup::Member::RunOn(int wanted) {
    if (wanted == processor) return;
    processors::Bind(thread, wanted);
    processor = wanted;
}

bool StepGroup::Member::BeginEncode() {
    Lock lock(group.mutex);
    group.Leave(*this);
    RunOn(-1);
    thread = processors::Thread();
    group.waiting.push_back(this);
    ThreadGroup* found = nullptr;
    while (!ShouldStop() && (found = group.ThreadGroupToEncode(*this)) == nullptr) group.changed.wait_for(lock, kLookEvery);
    group.waiting.remove(this);
    if (found != nullptr) group.Encode(*this, *found);
    const int count = found != nullptr ? found->threads : 1;
    group.WakeAll();
    lock.unlock();
    Use(count);
    return found != nullptr;
}

int StepGroup::Member::OnStep(whisper_state*, bool is_single, void* self) {
    auto member = static_cast<Member*>(self);
    if (is_single && member->drafter != nullptr && member->drafter->Give()) return 1;
    if (is_single) return member->group.Step(*member);
    if (member->drafter != nullptr) member->drafter->Drop();
    // Several samples at once, as second tries have them: whisper.cpp's own step.
    member->StepAside();
    return 0;
}

void StepGroup::Member::StepAside() {
    Lock lock(group.mutex);
    group.Leave(*this);
    RunOn(-1);
    const int count = group.ThreadsFor(*this);
    lock.unlock();
    Use(count);
}

/** Returns the thread group with the fewest members that decode, of those that a condition holds for. */
template <typename Condition>
StepGroup::ThreadGroup* StepGroup::Lightest(Condition holds) const {
    ThreadGroup* best = nullptr;
    for (const auto& thread_group : thread_groups) {
        if (holds(*thread_group) && (best == nullptr || thread_group->decoding < best->decoding)) best = thread_group.get();
    }
    return best;
}

StepGroup::ThreadGroup* StepGroup::LightestWithoutEncoder() const {
    return Lightest([](const ThreadGroup& thread_group) { return thread_group.encoder == nullptr; });
}

/** Returns the thread group with the fewest members among those where a member may encode now. The first that waits has one. */
StepGroup::ThreadGroup* StepGroup::ThreadGroupToEncode(const Member& member) {
    if (waiting.front() != &member) return nullptr;
    return Lightest([this](const ThreadGroup& thread_group) { return MayEncode(thread_group); });
}

/** Whether more than half of those that decoded together still decode. When fewer do, the next ones encode, so that many decode together. */
bool StepGroup::IsDraining() const { return most_decoding > 0 && Decoding() * 2 > most_decoding; }

/** Whether a member may encode in a thread group now. Those that decode there move to another one; the last one is drained first. */
bool StepGroup::MayEncode(const ThreadGroup& thread_group) const {
    if (!thread_group.IsFree() || FreeThreads() < 1) return false;
    const auto is_other = [&](const ThreadGroup& other) { return &other != &thread_group && other.encoder == nullptr; };
    return !IsDraining() || Lightest(is_other) != nullptr;
}

bool StepGroup::MayStep(const ThreadGroup& thread_group) const {
    if (!thread_group.IsFree() || thread_group.ready.empty()) return false;
    if (static_cast<int>(thread_group.ready.size()) < std::min(thread_group.decoding, most_steps)) return false;
    return waiting.empty() || !MayEncode(thread_group);
}

int StepGroup::Decoding() const {
    int count = 0;
    for (const auto& thread_group : thread_groups) count += thread_group->decoding;
    return count;
}

/** Returns how many threads no thread group computes with. */
int StepGroup::FreeThreads() const {
    int count = static_cast<int>(thread_groups.size());
    for (const auto& thread_group : thread_groups) count -= thread_group->threads;
    return count;
}

/**
 * Returns how many threads a computation of a member has now: its part of those of all groups, if they are free. Members of
 * other groups count, so that one whose client waits leaves the processors to those of the background.
 */
int StepGroup::ThreadsFor(const Member& member) const {
    const int part = static_cast<int>(thread_groups.size()) / std::max(1, all_members.load());
    return std::max(1, std::min({member.threads.most, part, FreeThreads()}));
}

void StepGroup::Encode(Member& member, ThreadGroup& thread_group) {
    thread_group.threads = ThreadsFor(member);
    thread_group.encoder = &member;
    member.thread_group = &thread_group;
    if (LightestWithoutEncoder() == nullptr) most_decoding = 0;
    MoveFromEncoders();
}

void StepGroup::JoinToDecode(Member& member, ThreadGroup& thread_group) {
    thread_group.decoding++;
    member.thread_group = &thread_group;
    member.is_decoding = true;
}

/** Moves members that have a token from groups that encode to the others. Where all encode, the first that has ended takes them. */
void StepGroup::MoveFromEncoders() {
    if (LightestWithoutEncoder() == nullptr) return;
    for (const auto& thread_group : thread_groups) {
        if (thread_group->encoder == nullptr || thread_group->ready.empty()) continue;
        for (Member* member : std::exchange(thread_group->ready, {})) {
            ThreadGroup& target = *LightestWithoutEncoder();
            thread_group->decoding--;
            JoinToDecode(*member, target);
            target.ready.push_back(member);
        }
        // From now on they wait in the other thread group.
        thread_group->changed.notify_all();
    }
}

void StepGroup::Leave(Member& member) {
    if (member.thread_group == nullptr) return;
    if (member.is_decoding) {
        member.thread_group->decoding--;
    } else {
        member.thread_group->encoder = nullptr;
        member.thread_group->threads = 0;
    }
    member.thread_group = nullptr;
    member.is_decoding = false;
    MoveFromEncoders();
    WakeAll();
}

void StepGroup::WakeAll() {
    changed.notify_all();
    for (const auto& thread_group : thread_groups) thread_group->changed.notify_all();
}

/** Moves a member to a thread group that then has at most as many members as its own. */
void StepGroup::Balance(Member& member) {
    if (!waiting.empty()) return;
    ThreadGroup* lightest = LightestWithoutEncoder();
    if (lightest == nullptr || lightest->decoding + 2 > member.thread_group->decoding) return;
    Leave(member);
    JoinToDecode(member, *lightest);
}

int StepGroup::Step(Member& member) {
    Lock lock(mutex);
    if (member.thread_group == nullptr) return 0;
    if (member.is_decoding) {
        Balance(member);
    } else {
        ThreadGroup* thread_group = member.thread_group;
        Leave(member);
        JoinToDecode(member, *thread_group);
    }
    member.is_done = false;
    // Nobody needs to wake for it: the one that comes last makes the step.
    member.thread_group->ready.push_back(&member);
    MoveFromEncoders();
    while (!member.is_done) {
        ThreadGroup& thread_group = *member.thread_group;
        const auto   place = std::find(thread_group.ready.begin(), thread_group.ready.end(), &member);
        if (place != thread_group.ready.end() && member.ShouldStop()) {
            thread_group.ready.erase(place);
            Leave(member);
            member.RunOn(-1);
            return -1;
        }
        if (MayStep(thread_group)) {
            member.RunOn(-1);
            Lead(member, thread_group, lock);
        } else {
            thread_group.changed.wait_for(lock, kLookEvery);
        }
    }
    if (member.is_ok) return 1;
    // The step of all failed. Each makes it alone, so that a fault of one is not a fault of the others.
    Leave(member);
    member.RunOn(-1);
    return 0;
}

void StepGroup::Lead(Member& leader, ThreadGroup& thread_group, Lock& lock) {
    const size_t         count = std::min<size_t>(thread_group.ready.size(), most_steps);
    std::vector<Member*> members(thread_group.ready.begin(), thread_group.ready.begin() + count);
    thread_group.ready.erase(thread_group.ready.begin(), thread_group.ready.begin() + count);
    most_decoding = std::max(most_decoding, Decoding());
    thread_group.threads = ThreadsFor(leader);
    // Where a step has tokens of several members it is full, and soon has where some wait to be encoded.
    const bool is_ahead = members.size() == 1 && members[0]->drafter != nullptr && waiting.empty();
    lock.unlock();
    bool is_ok = false;
    try {
        is_ok = is_ahead ? ComputeAhead(thread_group, *members[0]) : Compute(thread_group, leader, members);
    } catch (...) {
    }
    lock.lock();
    thread_group.threads = 0;
    if (is_ok) {
        made.steps++;
        made.tokens += members.size();
    }
    const int here = IsMachineFull() ? processors::Current() : -1;
    for (Member* member : members) {
        member->is_ok = is_ok;
        member->is_done = true;
        if (member != &leader) member->RunOn(here);
    }
    thread_group.changed.notify_all();
    if (!waiting.empty() && MayEncode(thread_group)) changed.notify_all();
}

/**
 * Whether there are thread groups for all processors. Then the threads that a step wakes go on where it was made: the system
 * would put some of them behind another group's step, for milliseconds, and leave this group's processor idle meanwhile.
 */
bool StepGroup::IsMachineFull() const {
    return static_cast<int>(thread_groups.size()) >= processors::Count();
}

bool StepGroup::ComputeAhead(ThreadGroup& thread_group, const Member& member) {
    if (!thread_group.steps) thread_group.steps.reset(whisper_steps_init(context, member.state));
    if (!thread_group.steps) return false;
    // The encoder of the draft model may take long.
    ComputeScope scope(member.stop.is_wanted, member.stop.data);
    scope.SetThreads(thread_group.threads, thread_group.threads > 1 ? member.threads.pool() : nullptr);
    return member.drafter->Step(thread_group.steps.get(), thread_group.threads);
}

bool StepGroup::Compute(ThreadGroup& thread_group, const Member& leader, const std::vector<Member*>& members) {
    if (!thread_group.steps) thread_group.steps.reset(whisper_steps_init(context, members[0]->state));
    if (!thread_group.steps) return false;
    std::vector<whisper_state*> states;
    for (const Member* member : members) states.push_back(member->state);
    // No member's stop ends the step of the others: it takes milliseconds.
    ComputeScope scope(nullptr, nullptr);
    scope.SetThreads(thread_group.threads, thread_group.threads > 1 ? leader.threads.pool() : nullptr);
    const bool is_ok =
        whisper_steps_decode(thread_group.steps.get(), states.data(), static_cast<int>(states.size()), thread_group.threads);
    if (whisper_steps_is_disposable(thread_group.steps.get())) thread_group.steps.reset();
    return is_ok;
}
