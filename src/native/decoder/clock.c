#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/samplefmt.h>

#include "decoder.h"

/* Time stamps that differ less than this from the count of samples mean no gap: containers round, clocks drift. */
#define TOLERANCE_S 0.1
/* The first frame's time is exact: it says where the audio begins relative to other streams. */
#define FIRST_TOLERANCE_S 0.001
/* A jump counts when frames of this much sound agree on it. Single broken time stamps change nothing. */
#define CONFIRMED_AFTER_S 1.0
#define MAX_HELD_FRAMES 256
#define MAX_HELD_BYTES (64 * 1024 * 1024)
/* A longer jump is not a pause of the recording: the stream then has the clock of another recorder. */
#define LONGEST_GAP_S (24 * 3600.0)

Failure clock_open(Clock *clock, Tracks *tracks) {
  *clock = (Clock){
      .tracks = tracks,
      .held = calloc(MAX_HELD_FRAMES, sizeof(AVFrame *)),
      .held_jump_s = calloc(MAX_HELD_FRAMES, sizeof(double)),
  };
  return clock->held && clock->held_jump_s ? DECODED : NO_MEMORY;
}

void clock_close(Clock *clock) {
  for (int index = 0; index < clock->held_count; index++) av_frame_free(&clock->held[index]);
  free(clock->held);
  free(clock->held_jump_s);
  *clock = (Clock){0};
}

Failure clock_begin_part(Clock *clock, double start_s) {
  Failure failure = clock_settle(clock);
  clock->base_s = clock->at_s - start_s;
  clock->is_started = false;
  return failure;
}

void clock_resume(Clock *clock, double at_s, double base_s) {
  clock->at_s = at_s;
  clock->base_s = base_s;
  clock->is_started = true;
}

static double frame_s(const AVFrame *frame) { return (double)frame->nb_samples / frame->sample_rate; }

static Failure lay(Clock *clock, AVFrame *frame) {
  clock->is_started = true;
  clock->at_s += frame_s(frame);
  Failure failure = tracks_take(clock->tracks, frame);
  av_frame_free(&frame);
  return failure;
}

static int64_t frame_bytes(const AVFrame *frame) {
  return (int64_t)frame->nb_samples * frame->ch_layout.nb_channels * av_get_bytes_per_sample(frame->format);
}

/* Returns the jump that the held frames from `first` on agree on, which is their smallest one; 0 when they do not agree. */
static double agreed_jump_s(const Clock *clock, int first) {
  double forward = INFINITY, backward = -INFINITY;
  for (int index = first; index < clock->held_count; index++) {
    double jump_s = clock->held_jump_s[index];
    if (isnan(jump_s)) continue;
    if (jump_s < forward) forward = jump_s;
    if (jump_s > backward) backward = jump_s;
  }
  double tolerance_s = clock->is_started ? TOLERANCE_S : FIRST_TOLERANCE_S;
  if (forward > tolerance_s && isfinite(forward)) return forward;
  return backward < -tolerance_s && isfinite(backward) ? backward : 0;
}

/* Lays the gap of a jump, which the held frames from `first` on have behind them then. */
static Failure jump(Clock *clock, int first, double jump_s) {
  for (int index = first; index < clock->held_count; index++) clock->held_jump_s[index] -= jump_s;
  if (jump_s > 0 && jump_s <= LONGEST_GAP_S) {
    clock->at_s += jump_s;
    return tracks_skip(clock->tracks, jump_s);
  }
  /* No sound is dropped: frames whose time stamps run backwards follow the sound before them. */
  clock->base_s -= jump_s;
  return DECODED;
}

/* Drops the first held frames, which were laid, from the list. */
static void forget(Clock *clock, int count) {
  clock->held_count -= count;
  memmove(clock->held, clock->held + count, clock->held_count * sizeof *clock->held);
  memmove(clock->held_jump_s, clock->held_jump_s + count, clock->held_count * sizeof *clock->held_jump_s);
}

/*
 * Decides about held frames: all, or with `may_wait` at least the first one, until a further jump is not confirmed yet.
 * In a pause that some recorders write as one frame every 400 ms, each frame jumps further than the one before.
 */
static Failure settle(Clock *clock, bool may_wait) {
  Failure failure = DECODED;
  int done = 0;
  for (; done < clock->held_count && failure == DECODED; done++) {
    double jump_s = agreed_jump_s(clock, done);
    bool is_confirmed = done == 0 || !may_wait || clock->held_s >= CONFIRMED_AFTER_S;
    if (jump_s != 0 && !is_confirmed) break;
    if (jump_s != 0) failure = jump(clock, done, jump_s);
    AVFrame *frame = clock->held[done];
    clock->held_s -= frame_s(frame);
    clock->held_bytes -= frame_bytes(frame);
    if (failure == DECODED) failure = lay(clock, frame);
    else av_frame_free(&frame);
  }
  forget(clock, done);
  return failure;
}

Failure clock_settle(Clock *clock) { return settle(clock, false); }

/* The first frames wait because the recording begins some milliseconds late: they are no part of a later jump. */
static bool waits_for_start(const Clock *clock) {
  if (clock->is_started || clock->held_count == 0) return false;
  return fabs(agreed_jump_s(clock, 0)) <= TOLERANCE_S;
}

static double jump_to_s(const Clock *clock, double time_s) {
  return time_s + clock->base_s - (clock->at_s + clock->held_s);
}

Failure clock_take(Clock *clock, AVFrame *frame, double time_s) {
  if (isnan(clock->base_s)) clock->base_s = clock->at_s + clock->held_s - time_s;
  double jump_s = jump_to_s(clock, time_s);
  if (fabs(jump_s) > TOLERANCE_S && waits_for_start(clock)) {
    Failure failure = clock_settle(clock);
    if (failure != DECODED) {
      av_frame_free(&frame);
      return failure;
    }
    jump_s = jump_to_s(clock, time_s);
  }
  bool agrees = isnan(jump_s) || fabs(jump_s) <= (clock->is_started ? TOLERANCE_S : FIRST_TOLERANCE_S);
  if (clock->held_count == 0 && agrees) return lay(clock, frame);
  int at = clock->held_count++;
  clock->held[at] = frame;
  clock->held_jump_s[at] = jump_s;
  clock->held_s += frame_s(frame);
  clock->held_bytes += frame_bytes(frame);
  bool is_back = agrees && !isnan(jump_s);
  bool is_full = clock->held_count == MAX_HELD_FRAMES || clock->held_bytes > MAX_HELD_BYTES;
  return is_back || is_full || clock->held_s >= CONFIRMED_AFTER_S ? settle(clock, true) : DECODED;
}
