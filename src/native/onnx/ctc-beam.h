/* Beam search for CTC models with an n-gram model of words. */
#ifndef SHRUTI_CTC_BEAM_H
#define SHRUTI_CTC_BEAM_H

#include "ngram.h"

/* What a search needs besides scores. */
typedef struct {
  const ngram_model *ngram;
  /* UTF-8 of all tokens, one after the other, and where each ends. */
  const char *texts;
  const int32_t *ends;
  /* Of the natural logarithm of a word's probability, and what each word adds. */
  double weight, bonus;
  /* Number of the blank. */
  int blank;
} beam_model;

/*
 * Finds the best text with its tokens, and the best frames for them.
 *
 * scores: frames x outputs, logarithms up to a constant of the frame
 * allowed: 1 for outputs that may be chosen; the blank is one of them
 * ids: receives for each frame the token or the blank
 *
 * Returns false without memory.
 */
bool beam_search(const beam_model *model, const float *scores, size_t frames, size_t outputs, const uint8_t *allowed,
                 int32_t *ids);

#endif
