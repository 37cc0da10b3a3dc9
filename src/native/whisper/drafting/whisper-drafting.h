#ifndef SHRUTI_WHISPER_DRAFTING_H
#define SHRUTI_WHISPER_DRAFTING_H

// What drafting needs of whisper.cpp's structs; `steps/whisper.cc` includes it behind whisper.cpp and its steps.

#include "drafter.h"

#include <chrono>
#include <utility>

namespace {

/** A token that the draft model is less sure of ends a draft: it would rarely be accepted. */
constexpr float kLeastProbability = 0.3f;

/** whisper_full_with_state writes so many tokens less than half of the positions. */
constexpr int kUnusedTokens = 4;

double SecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/** Whether the attempt at the window chooses the most probable token each time. */
bool IsGreedy(const whisper_state& state) { return state.attempt.temperature < 1e-6f; }

/** Takes a token into what a decoder has written, with the time that it may be, as whisper_full_with_state does. */
void Write(whisper_decoder& decoder, const whisper_token_data& token, whisper_token first_time) {
    decoder.sequence.tokens.push_back(token);
    if (token.id <= first_time) return;
    decoder.seek_delta = 2 * (token.id - first_time);
    decoder.has_ts = true;
}

}  // namespace

void Drafter::Drop() {
    EndRound();
    ahead.clear();
    given = 0;
}

/** Reports how much of the last draft was accepted. */
void Drafter::EndRound() {
    if (!std::exchange(is_open, false)) return;
    round.accepted = static_cast<int>(given);
    made.drafted += round.drafted;
    made.accepted += round.accepted;
    if (options.fixed_ahead == 0) options.policy.OnRound(round);
}

Drafter::Counts Drafter::Made() {
    Drop();
    return made;
}

bool Drafter::Give() {
    whisper_state&       large = *options.state;
    const whisper_batch& batch = large.batch;
    // The first token of an attempt follows its prompt, and no draft.
    const bool is_next = given < ahead.size() && IsGreedy(large) && large.decoders[0].sequence.tokens.size() > 1 &&
                         batch.seq_id[0][0] == 0 && batch.token[0] == ahead[given] &&
                         batch.pos[0] == first_position + static_cast<int>(given);
    if (!is_next || !TakeCell(*options.context, large)) {
        Drop();
        return false;
    }
    if (large.kv_self.head != first_cell + given) {
        GiveCellBack(large);
        Drop();
        return false;
    }
    const size_t vocabulary = options.context->vocab.n_vocab;
    const auto   row = logits.begin() + given * vocabulary;
    large.logits.assign(row, row + vocabulary);
    given++;
    return true;
}

bool Drafter::Step(whisper_steps* steps, int n_threads) {
    Drop();
    whisper_state& large = *options.state;
    const auto     start = std::chrono::steady_clock::now();
    const int      most = Ahead(n_threads);
    // The encoding of a window is not the time of a step.
    const bool is_drafted = most > 0 && (is_encoded || Encode(n_threads));
    const auto encoded = is_drafted ? std::chrono::steady_clock::now() : start;
    if (is_drafted) ahead = Draft(most, n_threads);
    if (!whisper_steps_decode_ahead(steps, &large, ahead, n_threads, logits)) {
        ahead.clear();
        return false;
    }
    first_position = large.batch.pos[0] + 1;
    first_cell = large.kv_self.head + 1;
    round = {n_threads, is_drafted, static_cast<int>(ahead.size()), 0, SecondsSince(encoded)};
    is_open = is_wanted;
    return true;
}

/** Returns how many tokens are drafted for the next step, at most. */
int Drafter::Ahead(int n_threads) {
    if (!BeginWindow()) return 0;
    const int wanted = options.fixed_ahead > 0 ? options.fixed_ahead : options.policy.Ahead(n_threads);
    return std::min(wanted, Place());
}

/** Returns for how many more tokens the large model has place. */
int Drafter::Place() const {
    const whisper_state& large = *options.state;
    const int            positions = options.context->model.hparams.n_text_ctx;
    const int            written = static_cast<int>(large.decoders[0].sequence.tokens.size());
    return std::max(0, std::min(positions - 1 - large.batch.pos[0], positions / 2 - kUnusedTokens - written));
}

/** Finds whether the present attempt is decoded with drafts. */
bool Drafter::BeginWindow() {
    const whisper_state& large = *options.state;
    if (has_failed || !IsGreedy(large)) return is_wanted = false;
    if (seek == large.attempt.seek) return is_wanted;
    seek = large.attempt.seek;
    is_encoded = false;
    return is_wanted = options.fixed_ahead > 0 || options.policy.MayEncode(FramesOf(*options.context, large));
}

/** Encodes the large model's window with the draft model. */
bool Drafter::Encode(int n_threads) {
    const auto start = std::chrono::steady_clock::now();
    const int  frames = FramesOf(*options.context, *options.state);
    try {
        if (state == nullptr) state = options.take_state();
        whisper_set_window(state, frames);
        state->exp_n_audio_ctx = frames;
        is_encoded = (has_spectrum || whisper_pcm_to_mel_with_state(options.draft, state, options.samples,
                                                                    options.sample_count, n_threads) == 0) &&
                     whisper_encode_internal(*options.draft, *state, seek, n_threads, nullptr, nullptr);
    } catch (...) {
        is_encoded = false;
    }
    has_spectrum = true;
    has_failed = !is_encoded;
    if (has_failed) return is_wanted = false;
    whisper_kv_cache_clear(state->kv_self);
    known.clear();
    options.policy.OnEncoded(frames, SecondsSince(start));
    return true;
}

/** Returns up to `most` tokens that the draft model writes behind the text; fewer where it becomes unsure. */
std::vector<whisper_token> Drafter::Draft(int most, int n_threads) {
    try {
        return Continue(most, n_threads);
    } catch (...) {
        has_failed = true;
        return {};
    }
}

std::vector<whisper_token> Drafter::Continue(int most, int n_threads) {
    const whisper_decoder& written = options.state->decoders[0];
    whisper_decoder&       decoder = state->decoders[0];
    decoder.sequence.tokens = written.sequence.tokens;
    decoder.has_ts = written.has_ts;
    decoder.seek_delta = written.seek_delta;
    std::vector<whisper_token> text = options.state->attempt.prompt;
    for (const whisper_token_data& each : written.sequence.tokens) text.push_back(each.id);
    // The last token is decoded in any case, for its logits.
    const size_t most_known = std::min(known.size(), text.size() - 1);
    size_t       done = 0;
    while (done < most_known && known[done] == text[done]) done++;
    whisper_kv_cache_seq_rm(state->kv_self, 0, static_cast<int>(done), -1);
    std::vector<whisper_token> found;
    while (true) {
        const int count = static_cast<int>(text.size() - done);
        whisper_batch_prep_legacy(state->batch, text.data() + done, count, static_cast<int>(done), 0);
        known = text;
        decoder.i_batch = count - 1;
        whisper_token_data token;
        if (!whisper_decode_internal(*options.draft, *state, state->batch, n_threads, false, nullptr, nullptr) || !Choose(token)) {
            has_failed = true;
            return {};
        }
        if (token.id == options.draft->vocab.token_eot || token.p < kLeastProbability) return found;
        found.push_back(token.id);
        if (static_cast<int>(found.size()) == most) return found;
        Write(decoder, token, options.draft->vocab.token_beg);
        done = text.size();
        text.push_back(token.id);
    }
}

/** Chooses the draft model's next token. Returns false when it computes what are no numbers. */
bool Drafter::Choose(whisper_token_data& token) {
    whisper_decoder& decoder = state->decoders[0];
    const size_t     vocabulary = options.draft->vocab.n_vocab;
    const float*     row = state->logits.data() + decoder.i_batch * vocabulary;
    bool             is_damaged = false;
    for (size_t i = 0; i < vocabulary; i++) is_damaged |= !(row[i] < INFINITY);  // NaN is not less
    if (is_damaged) return false;
    whisper_process_logits(*options.draft, *state, decoder, options.params, 0.0f);
    token = whisper_sample_token(*options.draft, decoder, true);
    return true;
}

#endif
