#include "ctc-beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 24, MOST_CANDIDATES = 24, WORD_BYTES = 96, NONE = -1 };
/* Tokens that are less probable in a frame, and hypotheses that are this far behind, are left out. */
static const double LEAST_TOKEN = -6, BEHIND = 12;
/* SentencePiece's sign for the beginning of a word, U+2581. */
static const char WORD_BEGINS[] = "\xe2\x96\x81";

/* A sequence of tokens, as the last one and the sequence before it. */
typedef struct {
  int parent, token, child, sibling;
  /* The words so far: their scores, their end, and the word that is not finished. */
  double words;
  ngram_state state;
  char word[WORD_BYTES];
  int length;
  /* The frame for which `slot` is its place among the hypotheses. */
  int frame, slot;
} node;

typedef struct {
  int node;
  /* Logarithms of the probability that the last frame is a blank, or its last token. */
  double blank, token, total;
} hypothesis;

typedef struct {
  const beam_model *model;
  node *nodes;
  int count, space;
} tree;

static double added(double a, double b) {
  if (a < b) return added(b, a);
  return b == -INFINITY ? a : a + log1p(exp(b - a));
}

/* Returns the score of all words, also of the last one. */
static double all_words(const beam_model *m, const node *n) {
  if (n->length == 0) return n->words;
  ngram_state state = n->state;
  return n->words + m->weight * ngram_score(m->ngram, &state, n->word, (size_t)n->length) + m->bonus;
}

static void append(const beam_model *m, node *n, int token) {
  const int from = token == 0 ? 0 : m->ends[token - 1];
  const char *text = m->texts + from;
  int length = m->ends[token] - from;
  const int mark = (int)sizeof WORD_BEGINS - 1;
  if (length >= mark && memcmp(text, WORD_BEGINS, (size_t)mark) == 0) {
    if (n->length > 0) {
      n->words += m->weight * ngram_score(m->ngram, &n->state, n->word, (size_t)n->length) + m->bonus;
      n->length = 0;
    }
    text += mark, length -= mark;
  }
  if (length > WORD_BYTES - n->length) length = WORD_BYTES - n->length;
  memcpy(n->word + n->length, text, (size_t)length);
  n->length += length;
}

/* Returns the sequence with one token more; NONE without memory. */
static int child_of(tree *t, int parent, int token) {
  for (int child = t->nodes[parent].child; child != NONE; child = t->nodes[child].sibling)
    if (t->nodes[child].token == token) return child;
  if (t->count == t->space) {
    node *larger = realloc(t->nodes, 2 * (size_t)t->space * sizeof *larger);
    if (!larger) return NONE;
    t->nodes = larger, t->space *= 2;
  }
  node *made = &t->nodes[t->count];
  *made = t->nodes[parent];
  made->parent = parent, made->token = token, made->child = NONE, made->frame = NONE;
  made->sibling = t->nodes[parent].child;
  t->nodes[parent].child = t->count;
  append(t->model, made, token);
  return t->count++;
}

/* Returns the hypothesis of a sequence in this frame. */
static hypothesis *place(tree *t, hypothesis *list, int *count, int which, int frame) {
  node *n = &t->nodes[which];
  if (n->frame != frame) {
    n->frame = frame, n->slot = (*count)++;
    list[n->slot] = (hypothesis){which, -INFINITY, -INFINITY, 0};
  }
  return &list[n->slot];
}

static int by_total(const void *a, const void *b) {
  const double x = ((const hypothesis *)a)->total, y = ((const hypothesis *)b)->total;
  return (x < y) - (x > y);
}

/* Keeps the best hypotheses. */
static int pruned(const tree *t, hypothesis *list, int count) {
  for (int n = 0; n < count; n++)
    list[n].total = added(list[n].blank, list[n].token) + all_words(t->model, &t->nodes[list[n].node]);
  qsort(list, (size_t)count, sizeof *list, by_total);
  int kept = 0;
  while (kept < count && kept < WIDTH && list[kept].total > list[0].total - BEHIND) kept++;
  return kept == 0 && count > 0 ? 1 : kept;
}

typedef struct {
  int token;
  double probability;
} candidate;

/* Finds the probable tokens of a frame, the blank among them. Returns their number. */
static int candidates_of(const float *scores, size_t outputs, const uint8_t *allowed, int blank, double total,
                         candidate *found) {
  int count = 1;
  found[0] = (candidate){blank, scores[blank] - total};
  for (size_t n = 0; n < outputs; n++) {
    const double probability = scores[n] - total;
    if (!allowed[n] || (int)n == blank || !(probability > LEAST_TOKEN)) continue;
    if (count == MOST_CANDIDATES && !(found[count - 1].probability < probability)) continue;
    int at = count < MOST_CANDIDATES ? count++ : MOST_CANDIDATES - 1;
    for (; at > 1 && found[at - 1].probability < probability; at--) found[at] = found[at - 1];
    found[at] = (candidate){(int)n, probability};
  }
  return count;
}

/* Moves all hypotheses on by one frame. Returns false without memory. */
static bool advance(tree *t, const hypothesis *old, int held, const candidate *found, int candidates, int blank,
                    hypothesis *next, int *count, int frame) {
  *count = 0;
  for (int n = 0; n < held; n++) {
    const double both = added(old[n].blank, old[n].token);
    for (int c = 0; c < candidates; c++) {
      const int token = found[c].token, last = t->nodes[old[n].node].token;
      const double probability = found[c].probability;
      if (token == blank) {
        hypothesis *same = place(t, next, count, old[n].node, frame);
        same->blank = added(same->blank, both + probability);
        continue;
      }
      if (token == last) {
        hypothesis *same = place(t, next, count, old[n].node, frame);
        same->token = added(same->token, old[n].token + probability);
      }
      const double before = token == last ? old[n].blank : both;
      if (before == -INFINITY) continue;
      const int child = child_of(t, old[n].node, token);
      if (child == NONE) return false;
      hypothesis *longer = place(t, next, count, child, frame);
      longer->token = added(longer->token, before + probability);
    }
  }
  return true;
}

/* The tokens of a sequence, to be freed; NULL without memory. */
static int *tokens_of(const tree *t, int last, int *count) {
  *count = 0;
  for (int n = last; n > 0; n = t->nodes[n].parent) (*count)++;
  int *tokens = malloc(((size_t)*count + 1) * sizeof *tokens);
  int at = *count;
  for (int n = last; tokens && n > 0; n = t->nodes[n].parent) tokens[--at] = t->nodes[n].token;
  return tokens;
}

/* Finds the most probable frames of given tokens (Viterbi). States: blank, token, blank, …, token, blank. */
static bool align(const float *scores, size_t frames, size_t outputs, int blank, const int *tokens, int count,
                  int32_t *ids) {
  const size_t states = 2 * (size_t)count + 1;
  uint8_t *steps = malloc(frames * states);
  double *best = malloc(2 * states * sizeof *best);
  if (!steps || !best) {
    free(steps), free(best);
    return false;
  }
  double *now = best, *before = best + states;
  for (size_t s = 0; s < states; s++) before[s] = s == 0 ? 0 : -INFINITY;
  for (size_t f = 0; f < frames; f++) {
    for (size_t s = 0; s < states; s++) {
      const int token = s % 2 ? tokens[s / 2] : blank;
      const bool skips = s % 2 && s > 1 && tokens[s / 2] != tokens[s / 2 - 1];
      double value = f == 0 && s > 1 ? -INFINITY : before[s];
      uint8_t step = 0;
      if (s > 0 && before[s - 1] > value) value = before[s - 1], step = 1;
      if (skips && f > 0 && before[s - 2] > value) value = before[s - 2], step = 2;
      now[s] = value + scores[f * outputs + (size_t)token];
      steps[f * states + s] = step;
    }
    double *swap = now;
    now = before, before = swap;
  }
  size_t s = states - 1;
  if (count > 0 && before[states - 2] > before[s]) s = states - 2;
  for (size_t f = frames; f-- > 0;) {
    ids[f] = s % 2 ? tokens[s / 2] : blank;
    s -= steps[f * states + s];
  }
  free(steps), free(best);
  return true;
}

static double total_of(const float *scores, size_t outputs, const uint8_t *allowed, int blank) {
  double most = scores[blank], sum = 0;
  for (size_t n = 0; n < outputs; n++)
    if (allowed[n] && scores[n] > most) most = scores[n];
  for (size_t n = 0; n < outputs; n++)
    if (allowed[n]) sum += expf((float)(scores[n] - most));
  return most + log(sum);
}

bool beam_search(const beam_model *m, const float *scores, size_t frames, size_t outputs, const uint8_t *allowed,
                 int32_t *ids) {
  const int blank = m->blank;
  const size_t most = (size_t)WIDTH * (MOST_CANDIDATES + 1);
  tree t = {m, malloc(1024 * sizeof(node)), 1, 1024};
  hypothesis *lists = malloc(2 * most * sizeof *lists), *held = lists, *next = lists ? lists + most : NULL;
  int count = 1, *tokens = NULL, length = 0;
  bool is_done = t.nodes && lists;
  if (is_done) {
    t.nodes[0] = (node){NONE, NONE, NONE, NONE, 0, ngram_beginning(m->ngram), {0}, 0, NONE, 0};
    held[0] = (hypothesis){0, 0, -INFINITY, 0};
  }
  for (size_t f = 0; is_done && f < frames; f++) {
    candidate found[MOST_CANDIDATES];
    const float *row = scores + f * outputs;
    const int candidates = candidates_of(row, outputs, allowed, blank, total_of(row, outputs, allowed, blank), found);
    int made = 0;
    is_done = advance(&t, held, count, found, candidates, blank, next, &made, (int)f);
    count = is_done ? pruned(&t, next, made) : 0;
    hypothesis *swap = held;
    held = next, next = swap;
  }
  if (is_done) {
    tokens = tokens_of(&t, held[0].node, &length);
    is_done = tokens && align(scores, frames, outputs, blank, tokens, length, ids);
  }
  free(tokens), free(t.nodes), free(lists);
  return is_done;
}
