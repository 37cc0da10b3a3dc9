#ifndef SHRUTI_ALIGNMENT_H
#define SHRUTI_ALIGNMENT_H

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "whisper.h"

struct WindowSound;

/** A head of cross-attention that looks at the sound of the token that comes next. */
struct AlignmentHead {
    int layer;
    int head;
};

/** When a token was spoken, milliseconds of the sound. */
struct TokenTime {
    int32_t start_ms;
    int32_t end_ms;
};

/** A head, and how well the text of a sound could be followed with it alone: `UnitPath::share`. */
struct MeasuredHead {
    AlignmentHead head;
    double        share;
};

/** What `whisper_full_with_state` calls when a window has its text, and still its keys. */
struct whisper_window_listener {
    virtual ~whisper_window_listener() = default;

    /**
     * @param tokens of the window, times included
     * @param prompt how many tokens were before them
     * @param sequence in which the state has the tokens
     * @param seek where the window begins, in units of 10 ms
     */
    virtual void OnWindow(const whisper_token_data* tokens, int count, int prompt, int sequence, int seek) = 0;
};

class whisper_kept_queries;

/**
 * Finds the times of tokens by where heads look while a state recognizes. It must go before the state. A window whose tokens
 * cannot be followed has none: times are measured, and never guessed.
 */
class Alignment : public whisper_window_listener {
   public:
    struct Options {
        std::vector<AlignmentHead> heads;
        /** How many frames of 20 ms after a token is heard the heads look at it; less than 0: before. */
        int delay;
        /** Heads are measured one by one, and tokens have no times. */
        bool measures_heads;
        /** The sound of all windows, 16 kHz. */
        const float* samples;
        int          sample_count;
        /** Called before something is computed, on the thread of the transcription. */
        std::function<void()> on_compute;
    };

    Alignment(whisper_context* context, whisper_state* state, Options options);
    ~Alignment() override;
    Alignment(const Alignment&) = delete;
    Alignment& operator=(const Alignment&) = delete;

    void OnWindow(const whisper_token_data* tokens, int count, int prompt, int sequence, int seek) override;

    /** The times of each segment's text tokens; none for a segment that could not be followed. */
    std::vector<std::vector<TokenTime>> times;
    /** Means over all windows; empty where heads are not measured. */
    std::vector<MeasuredHead> measured;

   private:
    struct Window;

    std::vector<float> Attention(const Window& window, const AlignmentHead* heads, size_t count) const;
    WindowSound        SoundOf(const Window& window, const std::vector<float>& attention) const;
    void               SetTimes(const Window& window);
    void               Measure(const Window& window);

    whisper_context* const                context;
    whisper_state* const                  state;
    const Options                         options;
    std::unique_ptr<whisper_kept_queries> queries;
    int                                   measured_windows = 0;
};

#endif
