#ifndef SHRUTI_FAILED_ATTEMPT_H
#define SHRUTI_FAILED_ATTEMPT_H

// A part of whisper.cpp, which includes it before whisper_full_with_state, and whose structs it knows.

/** The best of the attempts at a window that have failed. */
class whisper_failed_attempt {
   public:
    /**
     * Takes what a decoder has written, if it is better. Without a time the text is that of the whole window; what follows its
     * last time is left to the next window.
     *
     * @param index of the decoder
     * @param prompt how many tokens were before the text
     * @param beg the token of the first time
     */
    void Take(const whisper_state& state, int index, size_t prompt, const whisper_token beg) {
        whisper_sequence taken = state.decoders[index].sequence;
        size_t           length = taken.tokens.size();
        while (length > 0 && taken.tokens[length - 1].id <= beg) length--;
        const bool ends_with_time = length > 0;
        if (ends_with_time) taken.tokens.resize(length);
        taken.result_len = taken.tokens.size();
        double sum = 0.0;
        for (const auto& token : taken.tokens) sum += log(std::max(token.p, 1e-10f));
        const double mean = taken.tokens.empty() ? -1e9 : sum / taken.tokens.size();
        if (mean <= score) return;
        taken.avg_logprobs = mean;
        score = mean;
        seek_delta = ends_with_time ? 2 * (taken.tokens.back().id - beg) : 100 * WHISPER_CHUNK_SIZE;
        has_time = ends_with_time;
        if (state.kept_queries) queries = state.kept_queries->Read(state, index, prompt - 1, taken.result_len + 1);
        sequence = std::move(taken);
    }

    /** Makes it what a decoder has written. */
    void Give(whisper_state& state, int index) {
        whisper_decoder& decoder = state.decoders[index];
        if (state.kept_queries) state.kept_queries->of_failed = std::move(queries);
        decoder.sequence = std::move(sequence);
        decoder.seek_delta = seek_delta;
        decoder.has_ts = has_time;
    }

   private:
    whisper_sequence sequence;
    int              seek_delta = 0;
    bool             has_time = false;
    double           score = -INFINITY;
    /** With which its tokens were chosen; empty: words need no times. */
    std::vector<ggml_fp16_t> queries;
};

/**
 * Returns how probable a token is by the model itself. The temperature makes the probability of what is drawn higher or lower.
 */
static float whisper_own_probability(const whisper_decoder& decoder, const whisper_token id, const float temperature) {
    std::vector<float> own(decoder.logits.size());
    for (size_t i = 0; i < own.size(); i++) own[i] = decoder.logits[i] * temperature;
    std::vector<float> logprobs(own.size());
    whisper_compute_logprobs(own, own.size(), logprobs);
    return expf(logprobs[id]);
}

#endif
