#include "draft-policy.h"

#include <algorithm>

namespace {

/** With the token of the step itself they fill a pass of the kernel for few tokens (token-products.cpp). */
constexpr int kMostAhead = 11;
constexpr int kLeastAhead = 2;
/** So many steps without a draft are measured before the first draft. */
constexpr int kMeasured = 3;
/** After so many steps with a draft one is measured without: the machine may have become slower or faster. */
constexpr int kMeasureEvery = 32;
/** What a further measurement adds to the mean of a step without a draft. */
constexpr double kShareOfLatest = 0.25;
/** How much of the rounds before is left after another one. */
constexpr double kKept = 0.95;
/** After so many rounds it is known whether drafts pay. */
constexpr int kEnoughRounds = 8;
/** Drafts that bring less than this are not worth their memory traffic beside other work. */
constexpr double kLeastGain = 1.05;
constexpr int    kLongestBreak = 64;
/** Tokens of dense speech in a frame of 20 ms. */
constexpr double kTokensOfFrame = 0.06;

}  // namespace

bool DraftPolicy::MayEncode(int frames) {
    std::lock_guard<std::mutex> lock(mutex);
    if (windows_left > 0) {
        windows_left--;
        return false;
    }
    if (rounds < kEnoughRounds || encoder_seconds == 0) return true;
    const double saved = frames * kTokensOfFrame * alone * (1 - 1 / Gain());
    if (saved > frames * encoder_seconds) return true;
    TakeBreak();
    return false;
}

void DraftPolicy::OnEncoded(int frames, double took) {
    std::lock_guard<std::mutex> lock(mutex);
    encoder_seconds = took / frames;
}

int DraftPolicy::Ahead(int with) {
    std::lock_guard<std::mutex> lock(mutex);
    if (with != threads) Forget();
    threads = with;
    if (windows_left > 0 || measured_alone < kMeasured || drafted_steps >= kMeasureEvery) return 0;
    return ahead;
}

void DraftPolicy::OnRound(const Round& round) {
    std::lock_guard<std::mutex> lock(mutex);
    if (round.threads != threads) return;
    if (!round.is_drafted) {
        drafted_steps = 0;
        measured_alone++;
        alone += (round.seconds - alone) * (measured_alone <= kMeasured ? 1.0 / measured_alone : kShareOfLatest);
        return;
    }
    drafted_steps++;
    rounds++;
    tokens = tokens * kKept + 1 + round.accepted;
    seconds = seconds * kKept + round.seconds;
    if (round.accepted == round.drafted && round.drafted >= ahead) {
        ahead = std::min(ahead + 2, kMostAhead);
    } else if (2 * round.accepted < round.drafted) {
        ahead = std::max(ahead - 1, kLeastAhead);
    }
    if (rounds < kEnoughRounds) return;
    if (Gain() < kLeastGain) {
        TakeBreak();
    } else {
        next_break = 4;
    }
}

/** Returns how many times as fast the last rounds were as steps without a draft. */
double DraftPolicy::Gain() const { return seconds > 0 ? alone * tokens / seconds : 0; }

void DraftPolicy::Forget() {
    measured_alone = drafted_steps = rounds = 0;
    alone = tokens = seconds = 0;
}

void DraftPolicy::TakeBreak() {
    windows_left = next_break;
    next_break = std::min(2 * next_break, kLongestBreak);
    rounds = 0;
    tokens = seconds = 0;
    ahead = 4;
}
