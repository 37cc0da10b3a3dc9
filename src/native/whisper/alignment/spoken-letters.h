#ifndef SHRUTI_SPOKEN_LETTERS_H
#define SHRUTI_SPOKEN_LETTERS_H

#include <string>

/**
 * Returns as how many Latin letters a text is spoken, about. A letter of an Indian script is a consonant with its vowel and counts
 * as two, a vowel sign as one, a Japanese kana as two, a sign of Han or Hangul, which is a syllable or more, as three; marks and
 * punctuation are not heard.
 *
 * @param text UTF-8
 */
int SpokenLetters(const std::string& text);

/** Reports whether a text begins in a script that is written without spaces, so that a word may begin there. */
bool BeginsUnspaced(const std::string& text);

#endif
