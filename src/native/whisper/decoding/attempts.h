#ifndef SHRUTI_ATTEMPTS_H
#define SHRUTI_ATTEMPTS_H

#include <vector>

#include "whisper.h"

/** An attempt at a window, as `whisper_full_with_state` begins it. */
struct whisper_attempt {
    /** Where the window begins, units of 10 ms. */
    int   seek = 0;
    float temperature = 0.0f;
    /** The tokens before the text. */
    std::vector<whisper_token> prompt;
};

/** What `whisper_full_with_state` asks about the attempts that it makes at each window. */
struct whisper_attempts {
    virtual ~whisper_attempts() = default;

    /**
     * Called when a sample has its next token.
     *
     * @param is_first the first of the samples that make this step
     * @returns -1: the attempt continues; else it has failed, and so many tokens of it can be used
     */
    virtual int Ends(const whisper_token_data* tokens, int count, bool is_first) = 0;

    /** Whether another attempt at the window may be made. */
    virtual bool MayRepeat() const = 0;

    /** Called when no attempt has succeeded, and what can be used of one becomes the text of the window. */
    virtual void OnGivenUp() = 0;
};

/** Sets or (nullptr) removes the attempts of a state. */
void whisper_set_attempts(whisper_state* state, whisper_attempts* attempts);

#endif
