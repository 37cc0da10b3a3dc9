#include "languages.h"

#include <algorithm>
#include <cmath>

namespace {

/** Of the languages that may be spoken, so many are returned. */
constexpr size_t kMostLanguages = 5;
/** Tokens of a multilingual vocabulary that are no languages. */
constexpr int kOtherTokens = 51766;

}  // namespace

int LanguageCount(whisper_context* context) {
    return whisper_is_multilingual(context) != 0 ? whisper_n_vocab(context) - kOtherTokens : 0;
}

std::vector<LanguageGuess> GuessLanguages(whisper_context* context, const float* logits) {
    std::vector<LanguageGuess> guesses;
    const int                  languages = LanguageCount(context);
    float                      most = -INFINITY;
    for (int id = 0; id < languages; id++) most = std::max(most, logits[whisper_token_lang(context, id)]);
    float sum = 0.0f;
    for (int id = 0; id < languages; id++) {
        const float weight = std::exp(logits[whisper_token_lang(context, id)] - most);
        sum += weight;
        guesses.push_back({id, weight});
    }
    // Damaged weights give values that are no numbers.
    if (!(sum > 0.0f) || std::isinf(sum)) return {};
    for (LanguageGuess& guess : guesses) guess.probability /= sum;
    const size_t kept = std::min(guesses.size(), kMostLanguages);
    std::partial_sort(guesses.begin(), guesses.begin() + kept, guesses.end(),
                      [](const auto& a, const auto& b) { return a.probability > b.probability; });
    guesses.resize(kept);
    return guesses;
}
