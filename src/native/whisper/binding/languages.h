#ifndef SHRUTI_LANGUAGES_H
#define SHRUTI_LANGUAGES_H

#include <vector>

#include "whisper.h"

/** A language, and how probable the model finds it that it is spoken. */
struct LanguageGuess {
    /** whisper.cpp's number. */
    int   id;
    float probability;
};

/** Returns how many languages a model has tokens for; 0 for an English one. */
int LanguageCount(whisper_context* context);

/**
 * Returns the most probable languages, at most five, the first one first. There are none for an English model, nor where the
 * values are no numbers.
 *
 * @param logits of all tokens after the token that begins a transcript
 */
std::vector<LanguageGuess> GuessLanguages(whisper_context* context, const float* logits);

#endif
