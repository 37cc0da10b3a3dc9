#include "bounded-attempts.h"

#include <algorithm>
#include <vector>

#include "loops.h"

namespace {

/** What a further sample adds to a step: the weights are read once for all (src/native/whisper/steps/README.md). */
constexpr double kStepsOfFurtherSample = 0.25;
/** The same for a token of the prompt, all of which are computed at once. */
constexpr double kStepsOfPromptToken = 0.1;
/** An attempt with fewer steps has no words. */
constexpr double kLeastSteps = 8;
/** A loop runs on from the text of earlier windows when it fills so many bytes at their end. */
constexpr size_t kBytesBefore = 600;

}  // namespace

BoundedAttempts::BoundedAttempts(whisper_context* context, whisper_state* state, Limits limits)
    : context(context), state(state), limits(limits) {
    whisper_set_attempts(state, this);
}

BoundedAttempts::~BoundedAttempts() { whisper_set_attempts(state, nullptr); }

bool BoundedAttempts::BeginWindow() {
    EndWindow();
    if (steps > 0 && !HasLeft(limits.encoder_steps + kLeastSteps)) return false;
    steps += limits.encoder_steps;
    before.clear();
    for (int i = 0; i < whisper_full_n_segments_from_state(state); i++) before += whisper_full_get_segment_text_from_state(state, i);
    if (before.size() > kBytesBefore) before.erase(0, before.size() - kBytesBefore);
    return true;
}

int BoundedAttempts::Ends(const whisper_token_data* tokens, int count, bool is_first) {
    if (count == 1 && is_first) steps += 1 + limits.prompt_tokens * kStepsOfPromptToken;
    steps += is_first ? 1 : kStepsOfFurtherSample;
    const int kept = TokensBeforeLoop(tokens, count);
    if (kept >= 0) {
        has_loop = true;
        return kept;
    }
    return HasLeft(1) ? -1 : count;
}

bool BoundedAttempts::MayRepeat() const { return HasLeft(1 + limits.prompt_tokens * kStepsOfPromptToken + kLeastSteps); }

void BoundedAttempts::OnGivenUp() { is_cut = has_loop; }

void BoundedAttempts::EndWindow() {
    // Where nothing of the window is left, its text went on from that of the window before.
    const int last = whisper_full_n_segments_from_state(state) - 1;
    if (is_cut && last >= 0 && (cut_segments.empty() || cut_segments.back() < last)) cut_segments.push_back(last);
    has_loop = is_cut = false;
}

std::vector<int> BoundedAttempts::CutSegments() {
    EndWindow();
    return cut_segments;
}

/** Returns how many tokens there are before the text repeats what it has said once; -1: there is no loop. */
int BoundedAttempts::TokensBeforeLoop(const whisper_token_data* tokens, int count) const {
    std::string         text = before;
    std::vector<size_t> ends;
    for (int i = 0; i < count; i++) {
        if (tokens[i].id < whisper_token_eot(context)) text += whisper_token_to_str(context, tokens[i].id);
        ends.push_back(text.size());
    }
    // A time repeats nothing.
    if (count == 0 || tokens[count - 1].id >= whisper_token_eot(context)) return -1;
    const auto loop = FindLoop(text);
    if (!loop) return -1;
    const size_t last = loop->begin + loop->unit;
    return static_cast<int>(std::upper_bound(ends.begin(), ends.end(), last) - ends.begin());
}
