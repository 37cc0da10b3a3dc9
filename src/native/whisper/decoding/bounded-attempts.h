#ifndef SHRUTI_BOUNDED_ATTEMPTS_H
#define SHRUTI_BOUNDED_ATTEMPTS_H

#include <string>
#include <vector>

#include "attempts.h"

/**
 * Ends attempts that repeat themselves, and all together when they have cost what they may. The cost is counted in decoding
 * steps, so that it is the same on every machine.
 */
class BoundedAttempts : public whisper_attempts {
   public:
    struct Limits {
        /** Most steps of a transcription; 0: any number. */
        double most_steps;
        /** As many steps take as long as the encoding of a window. */
        double encoder_steps;
        /** Tokens before each attempt. */
        int prompt_tokens;
    };

    BoundedAttempts(whisper_context* context, whisper_state* state, Limits limits);
    ~BoundedAttempts() override;
    BoundedAttempts(const BoundedAttempts&) = delete;
    BoundedAttempts& operator=(const BoundedAttempts&) = delete;

    /** Whether another window may be encoded; then it counts. The first one always may. */
    bool BeginWindow();
    /** What it has cost until now. */
    double Steps() const { return steps; }
    /** After the last window: the segments whose text would go on repeating itself, in order. */
    std::vector<int> CutSegments();

    int  Ends(const whisper_token_data* tokens, int count, bool is_first) override;
    bool MayRepeat() const override;
    void OnGivenUp() override;

   private:
    bool HasLeft(double wanted) const { return limits.most_steps == 0 || steps + wanted <= limits.most_steps; }
    int  TokensBeforeLoop(const whisper_token_data* tokens, int count) const;
    void EndWindow();

    whisper_context* const context;
    whisper_state* const   state;
    const Limits           limits;
    double                 steps = 0;
    /** Of the present window: an attempt has repeated itself; the window has what is left of one. */
    bool             has_loop = false;
    bool             is_cut = false;
    std::vector<int> cut_segments;
    /** The end of the text of earlier windows. */
    std::string before;
};

#endif
