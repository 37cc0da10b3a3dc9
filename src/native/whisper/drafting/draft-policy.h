#ifndef SHRUTI_DRAFT_POLICY_H
#define SHRUTI_DRAFT_POLICY_H

#include <mutex>

/**
 * Decides how many tokens a draft model writes ahead, and whether that pays. Measured times decide: they change when a token is
 * computed, and never which one. All transcriptions of a model share it, so that each begins with what the others have learned.
 * Its functions may be called on any thread.
 */
class DraftPolicy {
   public:
    /** A step of the large model, and what the draft model wrote for it. */
    struct Round {
        /** Threads that computed it. */
        int threads;
        /** The draft model was asked; false: the step had one token, as it has without a draft. */
        bool is_drafted;
        /** How many tokens the draft model wrote, and how many of these the large model chose, too. */
        int drafted;
        int accepted;
        /** What the step and its draft took together. */
        double seconds;
    };

    /** Whether the draft model should encode a window. It is asked once for each window, before its first draft. */
    bool MayEncode(int frames);
    /** The draft model has encoded a window of so many frames. */
    void OnEncoded(int frames, double seconds);
    /**
     * Returns how many tokens the draft model should write before the next step; 0: none.
     *
     * @param threads with which the step is computed
     */
    int Ahead(int threads);
    void OnRound(const Round& round);

   private:
    double Gain() const;
    void   Forget();
    void   TakeBreak();

    std::mutex mutex;
    /** Of the steps that are measured. What was measured with another number says nothing. */
    int threads = 0;
    /** Time of a step with one token, and how many of them were measured. */
    double alone = 0;
    int    measured_alone = 0;
    /** Steps with a draft since the last one without. */
    int drafted_steps = 0;
    /** Of the last rounds with a draft, each of which counts less than the one after it. */
    double tokens = 0, seconds = 0;
    int    rounds = 0;
    /** Tokens of the next draft. */
    int ahead = 4;
    /** Of a frame of the draft model's encoder; 0: not measured. */
    double encoder_seconds = 0;
    /** Windows that are decoded without a draft, and how many the next break will have. */
    int windows_left = 0;
    int next_break = 4;
};

#endif
