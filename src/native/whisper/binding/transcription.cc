#include "transcription.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignment.h"
#include "bounded-attempts.h"
#include "common.h"
#include "compute-scope.h"
#include "drafter.h"
#include "languages.h"
#include "letters.h"
#include "log.h"
#include "niceness.h"
#include "segments.h"
#include "transcription-params.h"
#include "utf8.h"
#include "window.h"

namespace {

// whisper.cpp mirrors the first 200 samples to the front without a look at the length.
constexpr size_t kMinBufferedSamples = 2 * WHISPER_N_FFT;

/** Returns the bytes of the character that the tokens have begun and not finished. */
std::string Unfinished(whisper_context* context, const whisper_token_data* tokens, int count) {
    std::string end;
    for (int i = count - 1; i >= 0 && end.size() < utf8::kMaxBytes; i--) {
        if (tokens[i].id < whisper_token_eot(context)) end.insert(0, whisper_token_to_str(context, tokens[i].id));
    }
    return end.substr(end.size() - utf8::UnfinishedBytes(end));
}

class Transcription : public PromiseWorker {
   public:
    Transcription(Napi::Env env, ModelHandle model, std::vector<float> samples, TranscriptionParams params,
                  Napi::Function on_event)
        : PromiseWorker(env),
          model(std::move(model)),
          samples(std::move(samples)),
          params(std::move(params)),
          on_event(Napi::Persistent(on_event)) {}

    void Cancel() override { cancelled.store(true, std::memory_order_relaxed); }

   protected:
    void Execute() override {
        ThrowIfStopped();
        BeNicer(params.niceness);
        if (!params.characters.empty()) letters = model->LettersOf(params.characters);
        std::unique_ptr<DecodeSlot> slot = model->TakeSlot();
        const int                   code = Decode(*slot);
        // whisper.cpp has freed the state itself when it could not enlarge the key/value cache.
        if (code == -7) slot->state = nullptr;
        ThrowIfStopped();
        if (code != 0) {
            throw BindingError(ErrorKind::kError, "whisper.cpp failed with code " + std::to_string(code) +
                                                      ": " + TakeLoggedErrors());
        }
        const int count = whisper_full_n_segments_from_state(slot->state);
        for (int i = 0; i < count; i++) segments.push_back(Copy(slot->state, i));
        for (const int i : cut_segments) segments[i].is_cut = true;
        model->GiveSlot(std::move(slot));
        // The promise may settle before this object is gone, and the model must be free to go by then.
        model.reset();
    }

    void OnOK() override {
        Napi::Env   env = Env();
        Napi::Array array = Napi::Array::New(env, segments.size());
        for (size_t i = 0; i < segments.size(); i++) {
            Napi::Object object = ToObject(env, segments[i]);
            object.Set("spokenLanguages", LanguagesToArray(env));
            array.Set(static_cast<uint32_t>(i), object);
        }
        Napi::Object result = Napi::Object::New(env);
        result.Set("segments", array);
        result.Set("steps", Napi::Number::New(env, steps));
        result.Set("heads", HeadsToArray(env));
        result.Set("drafted", Napi::Number::New(env, drafted.drafted));
        result.Set("accepted", Napi::Number::New(env, drafted.accepted));
        promise.Resolve(result);
    }

    void DropReferences() override {
        on_event.Reset();
        model.reset();
    }

   private:
    int Decode(DecodeSlot& slot) {
        whisper_full_params full = FullParams();
        const int           count = static_cast<int>(samples.size());
        samples.resize(std::max(samples.size(), kMinBufferedSamples), 0.0f);
        TakeLoggedErrors();
        const int prompt_tokens = full.n_max_text_ctx;
        whisper_set_window(slot.state, params.window_frames);
        attempts.emplace(model->context, slot.state,
                         BoundedAttempts::Limits{params.most_steps, params.encoder_steps, prompt_tokens});
        ComputeScope scope(ShouldStop, this);
        if (!params.alignment_heads.empty()) {
            const auto on_compute = [this] {
                if (member) member->StepAside();
            };
            alignment.emplace(model->context, slot.state,
                              Alignment::Options{params.alignment_heads, params.alignment_delay,
                                                 params.measures_heads, samples.data(), count, on_compute});
        }
        const auto   pool_of = [&slot, this](int threads) { return slot.ThreadPool(threads, params.niceness); };
        if (params.IsShared()) {
            StepGroup& group = model->StepsOf(params.niceness);
            group.SetThreadGroups(params.thread_groups);
            const auto pool = [pool_of, this] { return pool_of(params.group_threads); };
            BeginDrafts(slot, full, count);
            member.emplace(group, slot.state, StepGroup::Stop{ShouldStop, this},
                           StepGroup::Threads{scope, params.group_threads, pool}, drafter ? &*drafter : nullptr);
        } else {
            scope.SetThreads(params.threads, pool_of(params.threads));
        }
        const int code = whisper_full_with_state(model->context, slot.state, full, samples.data(), count);
        member.reset();
        EndDrafts();
        if (alignment) {
            times = std::move(alignment->times);
            measured = std::move(alignment->measured);
        }
        alignment.reset();
        steps = attempts->Steps();
        cut_segments = attempts->CutSegments();
        attempts.reset();
        return code;
    }

    /** Lets the draft model write ahead, where greedy choice is asked for. */
    void BeginDrafts(DecodeSlot& slot, const whisper_full_params& full, int count) {
        const ModelHandle& draft = model->Draft();
        if (!params.drafts || draft == nullptr || params.temperature > 0) return;
        whisper_full_params of_draft = full;
        of_draft.logits_filter_callback = FilterDraft;
        const auto take_state = [this, draft] {
            draft_slot = draft->TakeSlot();
            return draft_slot->state;
        };
        drafter.emplace(Drafter::Options{model->context, slot.state, draft->context, take_state, of_draft, samples.data(), count,
                                         model->draft_policy, params.draft_ahead});
    }

    void EndDrafts() {
        if (!drafter) return;
        drafted = drafter->Made();
        if (draft_slot && drafter->IsIntact()) model->Draft()->GiveSlot(std::move(draft_slot));
        drafter.reset();
        draft_slot.reset();
    }

    whisper_full_params FullParams() {
        whisper_full_params full = whisper_full_default_params(
            params.beam_search ? WHISPER_SAMPLING_BEAM_SEARCH : WHISPER_SAMPLING_GREEDY);
        // A member of a group sets the threads of each graph itself. All else is little work.
        full.n_threads = params.IsShared() ? 1 : params.threads;
        full.translate = params.translates;
        full.no_context = true;
        full.no_timestamps = !params.timestamps;
        full.single_segment = false;
        full.print_special = false;
        full.print_progress = false;
        full.print_realtime = false;
        full.print_timestamps = false;
        full.token_timestamps = false;
        full.max_tokens = params.max_tokens;
        full.audio_ctx = params.window_frames;
        // The prompt alone, before every window: text of earlier windows as context is what makes whisper loop.
        // no_context only empties it at the start, so the room for context is made as large as the prompt.
        const int prompt_tokens =
            params.initial_prompt.empty() ? 0 : whisper_token_count(model->context, params.initial_prompt.c_str());
        full.initial_prompt = prompt_tokens > 0 ? params.initial_prompt.c_str() : nullptr;
        full.carry_initial_prompt = true;
        full.n_max_text_ctx = prompt_tokens > 0 ? prompt_tokens + 1 : 0;
        full.language = params.language.c_str();
        full.detect_language = false;
        full.suppress_nst = params.suppress_non_speech;
        full.temperature = params.temperature;
        full.temperature_inc = params.temperature_increment;
        full.entropy_thold = params.entropy_threshold;
        full.logprob_thold = params.logprob_threshold;
        full.no_speech_thold = params.no_speech_threshold;
        full.greedy.best_of = params.best_of;
        full.beam_search.beam_size = params.beam_size;
        SetCallbacks(full);
        return full;
    }

    void SetCallbacks(whisper_full_params& full) {
        full.abort_callback = ShouldStop;
        full.abort_callback_user_data = this;
        full.encoder_begin_callback = [](whisper_context*, whisper_state*, void* self) {
            auto task = static_cast<Transcription*>(self);
            if (!task->attempts->BeginWindow()) return false;
            if (task->member && !task->member->BeginEncode()) return false;
            return !ShouldStop(self);
        };
        full.encoder_begin_callback_user_data = this;
        full.progress_callback = OnProgress;
        full.progress_callback_user_data = this;
        full.new_segment_callback = OnNewSegments;
        full.new_segment_callback_user_data = this;
        full.logits_filter_callback = FilterLogits;
        full.logits_filter_callback_user_data = this;
    }

    static bool ShouldStop(void* self) {
        auto task = static_cast<Transcription*>(self);
        return task->cancelled.load(std::memory_order_relaxed) ||
               task->not_a_number.load(std::memory_order_relaxed);
    }

    void ThrowIfStopped() {
        if (cancelled.load()) throw BindingError(ErrorKind::kAbort, "the transcription was aborted");
        if (not_a_number.load()) {
            throw BindingError(ErrorKind::kError, "the model computes values that are no numbers; its weights are damaged");
        }
    }

    /** Runs on whisper.cpp's sampling threads, several at once with more than one decoder. */
    static void FilterLogits(whisper_context* context, whisper_state* state, const whisper_token_data* tokens,
                             int token_count, float* logits, void* self) {
        auto task = static_cast<Transcription*>(self);
        // The first window has most of the sound. Before its first token only this thread computes.
        if (token_count == 0 && !task->has_begun) {
            task->has_begun = true;
            task->spoken = GuessLanguages(context, whisper_get_logits_from_state(state));
        }
        const int count = whisper_n_vocab(context);
        bool      damaged = false;
        for (int i = 0; i < count; i++) damaged |= !(logits[i] < INFINITY);  // NaN is not less
        if (damaged) {
            // The sampler asserts on such values; give it harmless ones until the abort callback is asked.
            std::fill(logits, logits + count, 0.0f);
            task->not_a_number.store(true, std::memory_order_relaxed);
        }
        if (task->letters) Exclude(task->letters->After(Unfinished(context, tokens, token_count)), logits);
    }

    /** The same letters are held back from the draft model. It is asked on a thread that makes steps. */
    static void FilterDraft(whisper_context* context, whisper_state*, const whisper_token_data* tokens, int token_count,
                            float* logits, void* self) {
        auto task = static_cast<Transcription*>(self);
        if (task->letters) Exclude(task->letters->After(Unfinished(context, tokens, token_count)), logits);
    }

    static void OnProgress(whisper_context*, whisper_state*, int progress, void* self) {
        auto task = static_cast<Transcription*>(self);
        // whisper.cpp counts whole windows and may pass 100.
        const int percent = std::clamp(progress, 0, 100);
        if (percent == task->last_percent) return;
        task->last_percent = percent;
        task->PostEvent("progress", [percent](Napi::Env env) -> Napi::Value { return Napi::Number::New(env, percent); });
    }

    static void OnNewSegments(whisper_context*, whisper_state* state, int n_new, void* self) {
        auto      task = static_cast<Transcription*>(self);
        const int count = whisper_full_n_segments_from_state(state);
        for (int i = std::max(0, count - n_new); i < count; i++) {
            auto segment = std::make_shared<Segment>(task->Copy(state, i));
            task->PostEvent("segment", [segment](Napi::Env env) -> Napi::Value { return ToObject(env, *segment); });
        }
    }

    template <typename MakeValue>
    void PostEvent(const char* name, MakeValue make_value) {
        auto self = std::static_pointer_cast<Transcription>(shared_from_this());
        Post([self, name, make_value](Napi::Env env) {
            Napi::HandleScope scope(env);
            self->on_event.Call({Napi::String::New(env, name), make_value(env)});
        });
    }

    Segment Copy(whisper_state* state, int index) const {
        Segment segment = CopySegment(model->context, state, index);
        if (index >= static_cast<int>(times.size())) return segment;
        for (const TokenTime& time : times[index]) {
            segment.starts_ms.push_back(time.start_ms);
            segment.stops_ms.push_back(time.end_ms);
        }
        return segment;
    }

    Napi::Array HeadsToArray(Napi::Env env) const {
        Napi::Array array = Napi::Array::New(env, measured.size());
        for (size_t i = 0; i < measured.size(); i++) {
            Napi::Object object = Napi::Object::New(env);
            object.Set("layer", Napi::Number::New(env, measured[i].head.layer));
            object.Set("head", Napi::Number::New(env, measured[i].head.head));
            object.Set("share", Napi::Number::New(env, measured[i].share));
            array.Set(static_cast<uint32_t>(i), object);
        }
        return array;
    }

    Napi::Array LanguagesToArray(Napi::Env env) const {
        Napi::Array array = Napi::Array::New(env, spoken.size());
        for (size_t i = 0; i < spoken.size(); i++) {
            Napi::Object object = Napi::Object::New(env);
            object.Set("language", whisper_lang_str(spoken[i].id));
            object.Set("probability", Napi::Number::New(env, spoken[i].probability));
            array.Set(static_cast<uint32_t>(i), object);
        }
        return array;
    }

    ModelHandle                      model;
    std::vector<float>               samples;
    const TranscriptionParams        params;
    Napi::FunctionReference          on_event;
    std::atomic<bool>                cancelled{false};
    std::atomic<bool>                not_a_number{false};
    std::unique_ptr<DecodeSlot>      draft_slot;
    std::optional<Drafter>           drafter;
    Drafter::Counts                  drafted;
    std::optional<StepGroup::Member> member;
    std::optional<BoundedAttempts>   attempts;
    std::optional<Alignment>         alignment;
    /** Of the tokens of each segment; empty where no times were asked for. */
    std::vector<std::vector<TokenTime>> times;
    std::vector<MeasuredHead>           measured;
    std::shared_ptr<Letters>         letters;
    double                           steps = 0;
    std::vector<int>                 cut_segments;
    int                              last_percent = -1;
    bool                             has_begun = false;
    /** The languages that the first window may be in. */
    std::vector<LanguageGuess> spoken;
    std::vector<Segment>       segments;
};

}  // namespace

Napi::Value StartTranscription(const Napi::CallbackInfo& info, const ModelHandle& model) {
    Napi::Env env = info.Env();
    if (info.Length() != 3 || !info[1].IsObject() || !info[2].IsFunction()) {
        throw Napi::TypeError::New(env, "transcribe takes samples, parameters and a function");
    }
    TranscriptionParams params = ReadParams(info[1].As<Napi::Object>(), model->context);
    std::vector<float>  samples = ReadSamples(info[0]);
    auto                task = std::make_shared<Transcription>(env, model, std::move(samples), std::move(params),
                                                               info[2].As<Napi::Function>());
    task->Queue();

    Napi::Object handle = Napi::Object::New(env);
    handle.Set("promise", task->Promise());
    std::weak_ptr<Transcription> weak = task;
    handle.Set("abort", Napi::Function::New(env, [weak](const Napi::CallbackInfo&) {
                   if (auto running = weak.lock()) running->Cancel();
               }));
    return handle;
}
