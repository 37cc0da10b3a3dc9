#include "loaded-model.h"

#include "errors.h"
#include "log.h"

namespace {

/** Each language and mode has a set of its own, and a server uses few of them. */
constexpr size_t kMostLetters = 16;

std::vector<std::string> TextTokens(whisper_context* context) {
    std::vector<std::string> tokens;
    for (int id = 0; id < whisper_token_eot(context); id++) tokens.push_back(whisper_token_to_str(context, id));
    return tokens;
}

}  // namespace

DecodeSlot::~DecodeSlot() {
    if (state != nullptr) whisper_free_state(state);
    FreeThreadPool(pool);
}

ggml_threadpool_t DecodeSlot::ThreadPool(int n_threads, int niceness) {
    if (n_threads != pool_threads || niceness != pool_niceness) {
        FreeThreadPool(pool);
        pool = nullptr;
        pool_threads = 1;
        pool = NewThreadPool(n_threads);
        pool_threads = n_threads;
        pool_niceness = niceness;
    }
    return pool;
}

LoadedModel::LoadedModel(whisper_context* context) : context(context), tokens(TextTokens(context)) {}

LoadedModel::~LoadedModel() {
    idle.clear();
    steps.clear();
    whisper_free(context);
}

std::unique_ptr<DecodeSlot> LoadedModel::TakeSlot() {
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (!idle.empty()) {
            std::unique_ptr<DecodeSlot> slot = std::move(idle.back());
            idle.pop_back();
            return slot;
        }
    }
    TakeLoggedErrors();
    whisper_state* state = whisper_init_state(context);
    if (state == nullptr) {
        throw BindingError(ErrorKind::kError, "cannot allocate a decoder: " + TakeLoggedErrors());
    }
    return std::make_unique<DecodeSlot>(state);
}

void LoadedModel::GiveSlot(std::unique_ptr<DecodeSlot> slot) {
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(slot));
}

StepGroup& LoadedModel::StepsOf(int niceness) {
    std::lock_guard<std::mutex> lock(mutex);
    return steps.try_emplace(niceness, context).first->second;
}

StepGroup::Counts LoadedModel::StepsMade() {
    std::lock_guard<std::mutex> lock(mutex);
    StepGroup::Counts           all;
    for (auto& [niceness, group] : steps) {
        const StepGroup::Counts counts = group.Made();
        all.steps += counts.steps;
        all.tokens += counts.tokens;
    }
    return all;
}

void LoadedModel::DraftWith(std::shared_ptr<LoadedModel> smaller) {
    const auto is_same = [&](int (*number)(whisper_context*)) { return number(context) == number(smaller->context); };
    const bool fits = is_same(whisper_n_vocab) && is_same(whisper_n_text_ctx) && is_same(whisper_n_audio_ctx);
    if (!fits || smaller->tokens != tokens) {
        throw BindingError(ErrorKind::kError, "the draft model has other tokens");
    }
    draft = std::move(smaller);
}

std::shared_ptr<Letters> LoadedModel::LettersOf(const std::vector<int32_t>& bounds) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto                  found = letters.find(bounds);
    if (found != letters.end()) return found->second;
    if (letters.size() >= kMostLetters) letters.clear();
    return letters.emplace(bounds, std::make_shared<Letters>(tokens, CharacterSet(bounds))).first->second;
}
