#include "ngram.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[] = "mmap lm http://kheafield.com/code format version 5\n";
/* KenLM pads the text with its two zeros to 8 bytes; test values follow, then the parameters and the counts. */
enum { MAGIC_BYTES = 56, TEST_BYTES = 32, PARAMETER_BYTES = 20, VOCABULARY_HEAD = 8 };
enum { WORD_ENTRY = 12, MIDDLE_ENTRY = 16, LONGEST_ENTRY = 12, UNIGRAM_ENTRY = 8 };
/* A word that the model does not know is not less probable than this, or no hypothesis with it survives. */
static const double LEAST_LOG10 = -6;

typedef struct {
  const uint8_t *entries;
  uint64_t buckets;
  size_t width;
} table;

struct ngram_model {
  uint8_t *bytes;
  size_t size;
  int order;
  uint64_t words;
  table vocabulary;
  const uint8_t *unigrams;
  /* Of n-grams of 2 words and more. The last one has probabilities alone. */
  table tables[NGRAM_MOST_ORDER - 1];
};

static uint64_t read64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static uint32_t read32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static double read_float(const uint8_t *at) {
  float value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* MurmurHash64A of Austin Appleby with seed 0, as KenLM hashes words. */
static uint64_t hash_of(const char *text, size_t length) {
  const uint64_t multiplier = 0xc6a4a7935bd1e995ULL;
  uint64_t hash = length * multiplier;
  for (; length >= 8; text += 8, length -= 8) {
    uint64_t part = read64((const uint8_t *)text) * multiplier;
    part = (part ^ (part >> 47)) * multiplier;
    hash = (hash ^ part) * multiplier;
  }
  for (size_t n = length; n > 0; n--) hash ^= (uint64_t)(uint8_t)text[n - 1] << (8 * (n - 1));
  if (length > 0) hash *= multiplier;
  hash = (hash ^ (hash >> 47)) * multiplier;
  return hash ^ (hash >> 47);
}

static uint64_t combined(uint64_t hash, uint32_t word) {
  return (hash * 8978948897894561157ULL) ^ ((1 + (uint64_t)word) * 17894857484156487943ULL);
}

/* Returns the value of a key; NULL: it is not there. */
static const uint8_t *find(const table *t, uint64_t key) {
  uint64_t at = key % t->buckets;
  for (uint64_t tried = 0; tried < t->buckets; tried++) {
    const uint8_t *entry = t->entries + at * t->width;
    const uint64_t found = read64(entry);
    if (found == key) return entry + sizeof key;
    if (found == 0) return NULL;
    if (++at == t->buckets) at = 0;
  }
  return NULL;
}

/* Takes a table from the file; false: it is too short. */
static bool take(table *t, const uint8_t **at, const uint8_t *end, uint64_t count, float multiplier, size_t width) {
  const uint64_t wanted = (uint64_t)(multiplier * (float)count);
  const uint64_t buckets = wanted > count + 1 ? wanted : count + 1;
  if (count >= 1ULL << 40 || buckets > (uint64_t)(end - *at) / width) return false;
  *t = (table){*at, buckets, width};
  *at += buckets * width;
  return true;
}

static bool layout(ngram_model *m, char *reason) {
  const uint8_t *at = m->bytes + MAGIC_BYTES + TEST_BYTES, *end = m->bytes + m->size;
  const size_t least = MAGIC_BYTES + TEST_BYTES + PARAMETER_BYTES + 8 * NGRAM_MOST_ORDER;
  if (m->size < least || memcmp(m->bytes, MAGIC, sizeof MAGIC - 1) != 0) {
    snprintf(reason, NGRAM_REASON, "it is not a binary model of KenLM");
    return false;
  }
  m->order = at[0];
  const float multiplier = (float)read_float(at + 4);
  if (m->order < 2 || m->order > NGRAM_MOST_ORDER || read32(at + 8) != 0 || !(multiplier >= 1) || multiplier > 100) {
    snprintf(reason, NGRAM_REASON, "it has no hash tables of 2 to %d words", NGRAM_MOST_ORDER);
    return false;
  }
  const uint8_t *counts = at + PARAMETER_BYTES;
  const size_t head = MAGIC_BYTES + TEST_BYTES + PARAMETER_BYTES + 8 * (size_t)m->order;
  at = m->bytes + (head + 7) / 8 * 8 + VOCABULARY_HEAD;
  m->words = read64(counts);
  bool is_whole = at < end && take(&m->vocabulary, &at, end, m->words, multiplier, WORD_ENTRY) &&
                  (m->words + 1) <= (uint64_t)(end - at) / UNIGRAM_ENTRY;
  m->unigrams = at;
  if (is_whole) at += (m->words + 1) * UNIGRAM_ENTRY;
  for (int n = 2; is_whole && n <= m->order; n++) {
    const size_t width = n == m->order ? LONGEST_ENTRY : MIDDLE_ENTRY;
    is_whole = take(&m->tables[n - 2], &at, end, read64(counts + 8 * (n - 1)), multiplier, width);
  }
  if (!is_whole) snprintf(reason, NGRAM_REASON, "it is shorter than its head says");
  return is_whole;
}

ngram_model *ngram_open(const char *path, char *reason) {
  ngram_model *m = calloc(1, sizeof *m);
  struct stat facts;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  snprintf(reason, NGRAM_REASON, "it cannot be read");
  if (m && file >= 0 && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0) {
    m->size = (size_t)facts.st_size;
    m->bytes = mmap(NULL, m->size, PROT_READ, MAP_SHARED, file, 0);
    if (m->bytes == MAP_FAILED) m->bytes = NULL;
  }
  if (file >= 0) close(file);
  if (m && m->bytes && layout(m, reason)) return m;
  ngram_close(m);
  return NULL;
}

void ngram_close(ngram_model *m) {
  if (m && m->bytes) munmap(m->bytes, m->size);
  free(m);
}

/* Returns the number of a word; 0: the model does not know it. */
static uint32_t word_of(const ngram_model *m, const char *word, size_t length) {
  const uint8_t *found = find(&m->vocabulary, hash_of(word, length));
  const uint32_t number = found ? read32(found) : 0;
  return number <= m->words ? number : 0;
}

/* KenLM uses the sign of stored probabilities for a mark of its own. */
static double log10_at(const uint8_t *value) { return -fabs(read_float(value)); }

/* Returns the back-off of the last words of a context; NULL: the model has no n-gram of them. */
static const uint8_t *context_of(const ngram_model *m, const ngram_state *state, int length) {
  if (length == 1) return m->unigrams + state->words[0] * (size_t)UNIGRAM_ENTRY;
  uint64_t hash = state->words[0];
  for (int n = 1; n < length; n++) hash = combined(hash, state->words[n]);
  return find(&m->tables[length - 2], hash);
}

ngram_state ngram_beginning(const ngram_model *m) {
  const uint32_t begin = word_of(m, "<s>", 3);
  return begin == 0 ? (ngram_state){{0}, 0} : (ngram_state){{begin}, 1};
}

double ngram_score(const ngram_model *m, ngram_state *state, const char *word, size_t length) {
  const uint32_t number = word_of(m, word, length);
  double score = log10_at(m->unigrams + number * (size_t)UNIGRAM_ENTRY);
  int matched = 0;
  uint64_t hash = number;
  for (; number != 0 && matched < state->count; matched++) {
    hash = combined(hash, state->words[matched]);
    const uint8_t *found = find(&m->tables[matched], hash);
    if (!found) break;
    score = log10_at(found);
  }
  for (int n = matched + 1; n <= state->count; n++) {
    const uint8_t *context = context_of(m, state, n);
    if (!context) break;
    score += read_float(context + sizeof(float));
  }
  if (number == 0) {
    state->count = 0;
  } else {
    memmove(state->words + 1, state->words, (NGRAM_MOST_ORDER - 2) * sizeof *state->words);
    state->words[0] = number;
    if (state->count < m->order - 1) state->count++;
  }
  /* A damaged file can have weights that are no numbers. */
  if (!(score > LEAST_LOG10)) score = LEAST_LOG10;
  return (score < 0 ? score : 0) * log(10);
}
