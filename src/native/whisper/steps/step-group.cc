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

struct StepGroup::Lane {
    /** The member that encodes here. */
    Member* encoder = nullptr;
    /** Threads that encode or make a step here; 0: the lane is free. */
    int threads = 0;
    /** Members of this lane wait for it: a step was made, another member has left, or they were moved to another lane. */
    std::condition_variable changed;
    int                     decoding = 0;
    /** Members that decode and have a token for the next step. */
    std::vector<Member*>                      ready;
    std::unique_ptr<whisper_steps, FreeSteps> steps;

    bool IsFree() const { return threads == 0; }
};

StepGroup::StepGroup(whisper_context* context) : context(context), most_steps(whisper_steps_most(context)) {}

StepGroup::~StepGroup() = default;

void StepGroup::SetLanes(int count) {
    Lock lock(mutex);
    while (static_cast<int>(lanes.size()) < count) lanes.push_back(std::make_unique<Lane>());
}

StepGroup::Counts StepGroup::Made() {
    Lock lock(mutex);
    return made;
}

StepGroup::Member::Member(StepGroup& group, whisper_state* state, Stop stop, Threads threads)
    : group(group), state(state), stop(stop), threads(std::move(threads)) {
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
    Lane* found = nullptr;
    while (!ShouldStop() && (found = group.LaneToEncode(*this)) == nullptr) group.changed.wait_for(lock, kLookEvery);
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
    if (is_single) return member->group.Step(*member);
    // Several samples at once, as second tries have them: whisper.cpp's own step.
    Lock lock(member->group.mutex);
    member->group.Leave(*member);
    member->RunOn(-1);
    const int count = member->group.ThreadsFor(*member);
    lock.unlock();
    member->Use(count);
    return 0;
}

/** Returns the lane with the fewest members that decode, of those that a condition holds for. */
template <typename Condition>
StepGroup::Lane* StepGroup::Lightest(Condition holds) const {
    Lane* best = nullptr;
    for (const auto& lane : lanes) {
        if (holds(*lane) && (best == nullptr || lane->decoding < best->decoding)) best = lane.get();
    }
    return best;
}

StepGroup::Lane* StepGroup::LightestWithoutEncoder() const {
    return Lightest([](const Lane& lane) { return lane.encoder == nullptr; });
}

/** Returns the lane with the fewest members among those where a member may encode now. The first that waits has one. */
StepGroup::Lane* StepGroup::LaneToEncode(const Member& member) {
    if (waiting.front() != &member) return nullptr;
    return Lightest([this](const Lane& lane) { return MayEncode(lane); });
}

/** Whether more than half of those that decoded together still decode. When fewer do, the next ones encode, so that many decode together. */
bool StepGroup::IsDraining() const { return most_decoding > 0 && Decoding() * 2 > most_decoding; }

/** Whether a member may encode in a lane now. Those that decode there move to another lane; the last lane is drained first. */
bool StepGroup::MayEncode(const Lane& lane) const {
    if (!lane.IsFree() || FreeThreads() < 1) return false;
    return !IsDraining() || Lightest([&](const Lane& other) { return &other != &lane && other.encoder == nullptr; }) != nullptr;
}

bool StepGroup::MayStep(const Lane& lane) const {
    if (!lane.IsFree() || lane.ready.empty()) return false;
    if (static_cast<int>(lane.ready.size()) < std::min(lane.decoding, most_steps)) return false;
    return waiting.empty() || !MayEncode(lane);
}

int StepGroup::Decoding() const {
    int count = 0;
    for (const auto& lane : lanes) count += lane->decoding;
    return count;
}

/** Returns how many threads no lane computes with. */
int StepGroup::FreeThreads() const {
    int count = static_cast<int>(lanes.size());
    for (const auto& lane : lanes) count -= lane->threads;
    return count;
}

/**
 * Returns how many threads a computation of a member has now: its part of those of all lanes, if they are free. Members of
 * other groups count, so that one whose client waits leaves the processors to those of the background.
 */
int StepGroup::ThreadsFor(const Member& member) const {
    const int part = static_cast<int>(lanes.size()) / std::max(1, all_members.load());
    return std::max(1, std::min({member.threads.most, part, FreeThreads()}));
}

void StepGroup::Encode(Member& member, Lane& lane) {
    lane.threads = ThreadsFor(member);
    lane.encoder = &member;
    member.lane = &lane;
    if (LightestWithoutEncoder() == nullptr) most_decoding = 0;
    MoveFromEncoders();
}

void StepGroup::JoinToDecode(Member& member, Lane& lane) {
    lane.decoding++;
    member.lane = &lane;
    member.is_decoding = true;
}

/** Moves members that have a token from lanes that encode to the others. Where all encode, the first that has ended takes them. */
void StepGroup::MoveFromEncoders() {
    if (LightestWithoutEncoder() == nullptr) return;
    for (const auto& lane : lanes) {
        if (lane->encoder == nullptr || lane->ready.empty()) continue;
        for (Member* member : std::exchange(lane->ready, {})) {
            Lane& target = *LightestWithoutEncoder();
            lane->decoding--;
            JoinToDecode(*member, target);
            target.ready.push_back(member);
        }
        // From now on they wait in the other lane.
        lane->changed.notify_all();
    }
}

void StepGroup::Leave(Member& member) {
    if (member.lane == nullptr) return;
    if (member.is_decoding) {
        member.lane->decoding--;
    } else {
        member.lane->encoder = nullptr;
        member.lane->threads = 0;
    }
    member.lane = nullptr;
    member.is_decoding = false;
    MoveFromEncoders();
    WakeAll();
}

void StepGroup::WakeAll() {
    changed.notify_all();
    for (const auto& lane : lanes) lane->changed.notify_all();
}

/** Moves a member to a lane that then has at most as many members as its own. */
void StepGroup::Balance(Member& member) {
    if (!waiting.empty()) return;
    Lane* lightest = LightestWithoutEncoder();
    if (lightest == nullptr || lightest->decoding + 2 > member.lane->decoding) return;
    Leave(member);
    JoinToDecode(member, *lightest);
}

int StepGroup::Step(Member& member) {
    Lock lock(mutex);
    if (member.lane == nullptr) return 0;
    if (member.is_decoding) {
        Balance(member);
    } else {
        Lane* lane = member.lane;
        Leave(member);
        JoinToDecode(member, *lane);
    }
    member.is_done = false;
    // Nobody needs to wake for it: the one that comes last makes the step.
    member.lane->ready.push_back(&member);
    MoveFromEncoders();
    while (!member.is_done) {
        Lane&      lane = *member.lane;
        const auto place = std::find(lane.ready.begin(), lane.ready.end(), &member);
        if (place != lane.ready.end() && member.ShouldStop()) {
            lane.ready.erase(place);
            Leave(member);
            member.RunOn(-1);
            return -1;
        }
        if (MayStep(lane)) {
            member.RunOn(-1);
            Lead(member, lane, lock);
        } else {
            lane.changed.wait_for(lock, kLookEvery);
        }
    }
    if (member.is_ok) return 1;
    // The step of all failed. Each makes it alone, so that a fault of one is not a fault of the others.
    Leave(member);
    member.RunOn(-1);
    return 0;
}

void StepGroup::Lead(Member& leader, Lane& lane, Lock& lock) {
    const size_t         count = std::min<size_t>(lane.ready.size(), most_steps);
    std::vector<Member*> members(lane.ready.begin(), lane.ready.begin() + count);
    lane.ready.erase(lane.ready.begin(), lane.ready.begin() + count);
    most_decoding = std::max(most_decoding, Decoding());
    lane.threads = ThreadsFor(leader);
    lock.unlock();
    bool is_ok = false;
    try {
        is_ok = Compute(lane, leader, members);
    } catch (...) {
    }
    lock.lock();
    lane.threads = 0;
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
    lane.changed.notify_all();
    if (!waiting.empty() && MayEncode(lane)) changed.notify_all();
}

/**
 * Whether there are lanes for all processors. Then the threads that a step wakes go on where it was made: the system would put
 * some of them behind another lane's step, for milliseconds, and leave this lane's processor idle meanwhile.
 */
bool StepGroup::IsMachineFull() const {
    return static_cast<int>(lanes.size()) >= processors::Count();
}

bool StepGroup::Compute(Lane& lane, const Member& leader, const std::vector<Member*>& members) {
    if (!lane.steps) lane.steps.reset(whisper_steps_init(context, members[0]->state));
    if (!lane.steps) return false;
    std::vector<whisper_state*> states;
    for (const Member* member : members) states.push_back(member->state);
    // No member's stop ends the step of the others: it takes milliseconds.
    ComputeScope scope(nullptr, nullptr);
    scope.SetThreads(lane.threads, lane.threads > 1 ? leader.threads.pool() : nullptr);
    const bool is_ok =
        whisper_steps_decode(lane.steps.get(), states.data(), static_cast<int>(states.size()), lane.threads);
    if (whisper_steps_is_disposable(lane.steps.get())) lane.steps.reset();
    return is_ok;
}
