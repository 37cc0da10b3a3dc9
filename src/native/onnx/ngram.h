/* N-gram models of words in KenLM's binary form with hash tables (lm/binary_format.cc, lm/search_hashed.hh, version 5). */
#ifndef SHRUTI_NGRAM_H
#define SHRUTI_NGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NGRAM_MOST_ORDER = 6, NGRAM_REASON = 256 };

typedef struct ngram_model ngram_model;

/* The last words, the newest first. */
typedef struct {
  uint32_t words[NGRAM_MOST_ORDER - 1];
  int count;
} ngram_state;

/* Maps a file into memory. Returns NULL with a reason when it is not such a model. */
ngram_model *ngram_open(const char *path, char *reason);
void ngram_close(ngram_model *model);
/* Returns the state at the beginning of a sentence. */
ngram_state ngram_beginning(const ngram_model *model);
/*
 * Returns the natural logarithm of a word's probability after a state, which it moves on.
 *
 * word: UTF-8, of `length` bytes
 */
double ngram_score(const ngram_model *model, ngram_state *state, const char *word, size_t length);

#endif
