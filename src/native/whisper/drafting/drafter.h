#ifndef SHRUTI_DRAFTER_H
#define SHRUTI_DRAFTER_H

#include <functional>
#include <vector>

#include "draft-policy.h"
#include "whisper-steps.h"

/**
 * Lets a small model write tokens ahead of a large one, which then decodes all of them in one step. `whisper_full_with_state`
 * asks for the logits of one token after the other, as it does without a draft. Where the token that it has chosen is the one
 * that was drafted, its logits are there already. Otherwise what was drafted is dropped. So the large model's own numbers choose
 * every token. It is for greedy choice; other attempts have no draft.
 *
 * All functions are called by the transcription, or by the step that is made for it alone, and never at the same time.
 */
class Drafter {
   public:
    struct Options {
        /** The large model. */
        whisper_context* context;
        whisper_state*   state;
        /** The draft model, whose tokens are the same. */
        whisper_context* draft;
        /** Returns a state of the draft model, which nothing else uses; called at most once. */
        std::function<whisper_state*()> take_state;
        /** What bounds the text of the large model. The callback for logits is that of the draft model. */
        whisper_full_params params;
        /** 16 kHz, as the large model has them. */
        const float* samples;
        int          sample_count;
        DraftPolicy& policy;
        /** So many tokens ahead each time, whether that pays or not; 0: as many as pay. */
        int fixed_ahead = 0;
    };

    /** Tokens that were written by the draft model, and those of them that the large model has chosen. */
    struct Counts {
        int drafted = 0;
        int accepted = 0;
    };

    explicit Drafter(Options options) : options(std::move(options)) {}
    Drafter(const Drafter&) = delete;
    Drafter& operator=(const Drafter&) = delete;

    /**
     * Gives the large model's state the logits of the token that its batch holds, if they were computed with an earlier one.
     * Returns false when a step has to compute them.
     */
    bool Give();
    /** Drops what was drafted: the next step is not that of greedy choice. */
    void Drop();
    /**
     * Makes the step of the token that the batch holds, and of those that the draft model has written behind it. Returns false
     * when that failed; the large model's state is then as before.
     */
    bool Step(whisper_steps* steps, int n_threads);

    /** Returns what was drafted until now. No step may be made afterwards. */
    Counts Made();
    /** The draft model's state can be used again. */
    bool IsIntact() const { return !has_failed; }

   private:
    bool                       BeginWindow();
    int                        Ahead(int n_threads);
    bool                       Encode(int n_threads);
    std::vector<whisper_token> Draft(int most, int n_threads);
    std::vector<whisper_token> Continue(int most, int n_threads);
    bool                       Choose(whisper_token_data& token);
    int                        Place() const;
    void                       EndRound();

    const Options  options;
    whisper_state* state = nullptr;
    bool           has_spectrum = false;
    bool           has_failed = false;
    /** The window that was begun, and whether it is decoded with drafts. */
    int  seek = -1;
    bool is_wanted = false;
    bool is_encoded = false;
    /** The tokens in the draft model's cache. */
    std::vector<whisper_token> known;
    /** Tokens behind that of the last step, their logits, the position and cell of the first one, and how many were given. */
    std::vector<whisper_token> ahead;
    std::vector<float>         logits;
    int                        first_position = 0;
    int64_t                    first_cell = 0;
    size_t                     given = 0;
    DraftPolicy::Round         round = {};
    bool                       is_open = false;
    Counts                     made;
};

#endif
