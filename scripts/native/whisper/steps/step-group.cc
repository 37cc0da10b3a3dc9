#include "step-group.h"

#include <algorithm>
#include <chrono>

namespace {

/** A member that waits asks this often whether it was stopped. */
constexpr auto kLookEvery = std::chrono::milliseconds(50);

struct FreeSteps {
    void operator()(whisper_steps* steps) const { whisper_steps_free(steps); }
};

}  // namespace

struct StepGroup::Lane {
    /** A member encodes, or a step is computed. */
    bool is_busy = false;
    /** Members of this lane wait for it: a step was made, or another member has left. */
    std::condition_variable changed;
    int  decoding = 0;
    /** Members that decode and have a token for the next step. */
    std::vector<Member*> ready;
    /** How many members decoded at most since the last one encoded; 0: no step was made since. */
    int                                       most_decoding = 0;
    std::unique_ptr<whisper_steps, FreeSteps> steps;

    /** Half of those that decoded together must have ended before the next ones encode: then many decode together. */
    bool IsDraining() const { return most_decoding > 0 && decoding * 2 > most_decoding; }
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

StepGroup::Member::Member(StepGroup& group, whisper_state* state, bool (*should_stop)(void*), void* data)
    : group(group), state(state), should_stop(should_stop), data(data) {
    whisper_set_step_callback(state, OnStep, this);
}

StepGroup::Member::~Member() {
    Lock lock(group.mutex);
    group.Leave(*this);
    whisper_set_step_callback(state, nullptr, nullptr);
}

bool StepGroup::Member::BeginEncode() {
    Lock lock(group.mutex);
    group.Leave(*this);
    group.waiting.push_back(this);
    Lane* found = nullptr;
    while (!should_stop(data) && (found = group.LaneToEncode(*this)) == nullptr) group.changed.wait_for(lock, kLookEvery);
    group.waiting.remove(this);
    group.WakeAll();
    if (found == nullptr) return false;
    found->is_busy = true;
    found->most_decoding = 0;
    lane = found;
    return true;
}

int StepGroup::Member::OnStep(whisper_state*, bool is_single, void* self) {
    auto member = static_cast<Member*>(self);
    if (is_single) return member->group.Step(*member);
    // Several samples at once, as second tries have them: whisper.cpp's own step.
    Lock lock(member->group.mutex);
    member->group.Leave(*member);
    return 0;
}

/** Returns the lane with the fewest members among those where a member may encode now. The first that waits has one. */
StepGroup::Lane* StepGroup::LaneToEncode(const Member& member) {
    Lane* best = nullptr;
    if (waiting.front() != &member) return nullptr;
    for (const auto& lane : lanes) {
        if (lane->is_busy || lane->IsDraining()) continue;
        if (best == nullptr || lane->decoding < best->decoding) best = lane.get();
    }
    return best;
}

bool StepGroup::MayStep(const Lane& lane) const {
    if (lane.is_busy || lane.ready.empty()) return false;
    if (static_cast<int>(lane.ready.size()) < std::min(lane.decoding, most_steps)) return false;
    return waiting.empty() || lane.IsDraining();
}

/** Returns a lane that gets as many members as this one when one of them moves there. */
StepGroup::Lane* StepGroup::LighterThan(const Lane& lane) {
    for (const auto& other : lanes) {
        const int load = other->decoding + (other->is_busy && other->decoding == 0 ? 1 : 0);
        if (load + 2 <= lane.decoding) return other.get();
    }
    return nullptr;
}

void StepGroup::Leave(Member& member) {
    if (member.lane == nullptr) return;
    if (member.is_decoding) {
        member.lane->decoding--;
    } else {
        member.lane->is_busy = false;
    }
    member.lane = nullptr;
    member.is_decoding = false;
    WakeAll();
}

void StepGroup::WakeAll() {
    changed.notify_all();
    for (const auto& lane : lanes) lane->changed.notify_all();
}

int StepGroup::Step(Member& member) {
    Lock  lock(mutex);
    Lane* lane = member.lane;
    if (lane == nullptr) return 0;
    Lane* lighter = member.is_decoding && waiting.empty() ? LighterThan(*lane) : nullptr;
    if (!member.is_decoding || lighter != nullptr) {
        Leave(member);
        if (lighter != nullptr) lane = lighter;
        lane->decoding++;
        member.lane = lane;
        member.is_decoding = true;
    }
    member.is_done = false;
    // Nobody needs to wake for it: the one that comes last makes the step.
    lane->ready.push_back(&member);
    while (!member.is_done) {
        const auto place = std::find(lane->ready.begin(), lane->ready.end(), &member);
        if (place != lane->ready.end() && member.should_stop(member.data)) {
            lane->ready.erase(place);
            Leave(member);
            return -1;
        }
        if (MayStep(*lane)) {
            Lead(*lane, lock);
        } else {
            lane->changed.wait_for(lock, kLookEvery);
        }
    }
    if (member.is_ok) return 1;
    // The step of all failed. Each makes it alone, so that a fault of one is not a fault of the others.
    Leave(member);
    return 0;
}

void StepGroup::Lead(Lane& lane, Lock& lock) {
    const size_t         count = std::min<size_t>(lane.ready.size(), most_steps);
    std::vector<Member*> members(lane.ready.begin(), lane.ready.begin() + count);
    lane.ready.erase(lane.ready.begin(), lane.ready.begin() + count);
    lane.most_decoding = std::max(lane.most_decoding, lane.decoding);
    lane.is_busy = true;
    lock.unlock();
    bool is_ok = false;
    try {
        is_ok = Compute(lane, members);
    } catch (...) {
    }
    lock.lock();
    lane.is_busy = false;
    if (is_ok) {
        made.steps++;
        made.tokens += members.size();
    }
    for (Member* member : members) {
        member->is_ok = is_ok;
        member->is_done = true;
    }
    lane.changed.notify_all();
    // A lane that is drained may encode again.
    if (!waiting.empty()) changed.notify_all();
}

bool StepGroup::Compute(Lane& lane, const std::vector<Member*>& members) {
    if (!lane.steps) lane.steps.reset(whisper_steps_init(context, members[0]->state));
    if (!lane.steps) return false;
    std::vector<whisper_state*> states;
    for (const Member* member : members) states.push_back(member->state);
    // No member's stop ends the step of the others: it takes milliseconds.
    ComputeScope scope(nullptr, nullptr, nullptr);
    const bool is_ok = whisper_steps_decode(lane.steps.get(), states.data(), static_cast<int>(states.size()), 1);
    if (whisper_steps_is_disposable(lane.steps.get())) lane.steps.reset();
    return is_ok;
}
