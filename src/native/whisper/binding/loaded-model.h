#ifndef SHRUTI_LOADED_MODEL_H
#define SHRUTI_LOADED_MODEL_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compute-scope.h"
#include "draft-policy.h"
#include "letters.h"
#include "step-group.h"
#include "whisper.h"

/** What one running transcription needs besides the weights: whisper.cpp's state and its threads. */
class DecodeSlot {
   public:
    explicit DecodeSlot(whisper_state* state) : state(state) {}
    ~DecodeSlot();
    DecodeSlot(const DecodeSlot&) = delete;
    DecodeSlot& operator=(const DecodeSlot&) = delete;

    /**
     * Returns the pool for `n_threads`, nullptr for one thread. It is made again when their number or `niceness` changes. Its
     * threads have the niceness of the thread that calls, which has been set to `niceness`.
     */
    ggml_threadpool_t ThreadPool(int n_threads, int niceness);

    whisper_state* state;

   private:
    ggml_threadpool_t pool = nullptr;
    int               pool_threads = 1;
    int               pool_niceness = 0;
};

/** Loaded weights, shared by the JavaScript object and every running transcription. The last of them frees them. */
class LoadedModel {
   public:
    explicit LoadedModel(whisper_context* context);
    ~LoadedModel();
    LoadedModel(const LoadedModel&) = delete;
    LoadedModel& operator=(const LoadedModel&) = delete;

    /** Returns an idle slot, else a new one; whisper_full_with_state only reads the context. Throws a BindingError. */
    std::unique_ptr<DecodeSlot> TakeSlot();
    /** Keeps a slot for the next transcription. Slots of failed runs are not given back. */
    void GiveSlot(std::unique_ptr<DecodeSlot> slot);

    whisper_context* const context;
    /**
     * Returns the transcriptions of a niceness, which decode in lock-step. Those of another one have a group of their own: the
     * thread that makes a step for others is as urgent as they are.
     */
    StepGroup& StepsOf(int niceness);
    /** Returns what all groups have made since the load. */
    StepGroup::Counts StepsMade();
    /**
     * Returns which tokens may follow in a text of these characters. The last few sets are kept.
     *
     * @param bounds first and last of each range of code points
     */
    std::shared_ptr<Letters> LettersOf(const std::vector<int32_t>& bounds);

    /** The bytes of all text tokens. */
    const std::vector<std::string> tokens;
    /**
     * Lets a smaller model draft tokens for this one, before its first transcription. This model holds it from then on.
     * Throws a BindingError where their tokens or windows differ.
     */
    void DraftWith(std::shared_ptr<LoadedModel> smaller);
    /** Returns the model that drafts for this one; nullptr: none does. */
    const std::shared_ptr<LoadedModel>& Draft() const { return draft; }
    /** How far the draft model goes ahead. */
    DraftPolicy draft_policy;

   private:
    std::shared_ptr<LoadedModel>                             draft;
    std::mutex                                               mutex;
    std::map<std::vector<int32_t>, std::shared_ptr<Letters>> letters;
    std::vector<std::unique_ptr<DecodeSlot>>                 idle;
    std::map<int, StepGroup>                                 steps;
};

/** What smart-whisper's WhisperModel holds. */
using ModelHandle = std::shared_ptr<LoadedModel>;

#endif
