#include <math.h>
#include <string.h>

#include "decoder.h"

/* Samples from here on are at full scale, within what codecs round. */
#define FULL_SCALE 0.99885f
#define HIGH_PASS_HZ 5000.0
#define MOMENT_S 0.05

/* ---- Vectors ---- */

#define LANES 4

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t LaneBits __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Returns the larger ones of sizes and of sizes of samples. Samples that are no numbers are not larger. */
static inline Lanes larger_size(Lanes largest, const float *samples) {
  Lanes sample;
  memcpy(&sample, samples, sizeof sample);
  Lanes size = (Lanes)((LaneBits)sample & INT32_MAX);
  LaneBits is_larger = size > largest;
  return (Lanes)(((LaneBits)size & is_larger) | ((LaneBits)largest & ~is_larger));
}

float largest_of(const float *samples, int count) {
  Lanes first = {0}, second = {0}, third = {0}, fourth = {0};
  int index = 0;
  for (; index + 4 * LANES <= count; index += 4 * LANES) {
    first = larger_size(first, samples + index);
    second = larger_size(second, samples + index + LANES);
    third = larger_size(third, samples + index + 2 * LANES);
    fourth = larger_size(fourth, samples + index + 3 * LANES);
  }
  float lanes[4 * LANES], largest = 0;
  memcpy(lanes, (Lanes[]){first, second, third, fourth}, sizeof lanes);
  for (int lane = 0; lane < 4 * LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
  for (; index < count; index++) {
    float size = fabsf(samples[index]);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/* ---- Sums ---- */

/* Sums over samples, and the samples that wait to be added, with their squares behind the high pass. */
typedef struct {
  double power, high, moment, loudest;
  const float *samples, *squares;
  int waiting;
} Sums;

/* Adds `count` of the waiting samples, one after the other: in another order, sums are rounded to other numbers. */
static inline void add_up(Sums *sums, int count) {
  const double forgotten = exp(-1 / (MOMENT_S * OUTPUT_RATE_HZ));
  for (int index = 0; index < count; index++) {
    float sample = sums->samples[index];
    sums->power += sample * sample;
    sums->high += sums->squares[index];
    sums->moment = sums->moment * forgotten + (1 - forgotten) * sample * sample;
    sums->loudest = sums->moment > sums->loudest ? sums->moment : sums->loudest;
  }
  sums->samples += count;
  sums->squares += count;
  sums->waiting -= count;
}

/* ---- High pass ---- */

/*
 * Filtering a sample needs the filter's state after the one before, and processors wait for that longer than they
 * compute. So four stretches of a block are filtered side by side, in the lanes of a vector. All but the first one
 * begin some samples early without a state: the filter forgets so fast that its state is the same, to the last bit,
 * where the stretch begins. A stretch of which that is not true is filtered again. So the result is that of filtering
 * one sample after the other.
 */
#define BLOCK_SAMPLES 4096
/* With 64 samples, 1 of 20,000 stretches of speech had to be filtered again; with 48, 1 of 60. */
#define EARLY_SAMPLES 64

typedef struct {
  Lanes z1[HIGH_PASS_STAGES], z2[HIGH_PASS_STAGES];
} Stages;

static inline Lanes high_passed(const HighPass *filter, Stages *stages, Lanes sample) {
  for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
    Lanes out = filter->b0 * sample + stages->z1[stage];
    stages->z1[stage] = filter->b1 * sample - filter->a1 * out + stages->z2[stage];
    stages->z2[stage] = filter->b2 * sample - filter->a2 * out;
    sample = out;
  }
  return sample;
}

static void load_state(const HighPass *filter, Stages *stages, int lane) {
  for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
    stages->z1[stage][lane] = filter->z1[stage];
    stages->z2[stage][lane] = filter->z2[stage];
  }
}

static void store_state(HighPass *filter, const Stages *stages, int lane) {
  for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
    filter->z1[stage] = stages->z1[stage][lane];
    filter->z2[stage] = stages->z2[stage][lane];
  }
}

/* States that are no numbers are never the same. */
static bool is_state(const HighPass *filter, const Stages *stages, int lane) {
  bool is_same = true;
  for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
    is_same &= filter->z1[stage] == stages->z1[stage][lane] && filter->z2[stage] == stages->z2[stage][lane];
  }
  return is_same;
}

/* Filters one sample after the other. */
static void filter_stretch(HighPass *filter, const float *samples, float *squares, int count) {
  Stages stages = {0};
  load_state(filter, &stages, 0);
  for (int index = 0; index < count; index++) {
    Lanes out = high_passed(filter, &stages, (Lanes){samples[index]});
    squares[index] = out[0] * out[0];
  }
  store_state(filter, &stages, 0);
}

static inline Lanes gather(const float *samples, int stride) {
  return (Lanes){samples[0], samples[stride], samples[2 * stride], samples[3 * stride]};
}

/* Filters four stretches of `count` samples. Meanwhile adds samples that wait for the sums, which takes as long. */
static void filter_side_by_side(HighPass *filter, const float *samples, float *squares, int count, Sums *sums) {
  Stages stages = {0};
  Sums adding = *sums;
  for (int index = count - EARLY_SAMPLES; index < count; index++) {
    high_passed(filter, &stages, (Lanes){0, samples[index], samples[count + index], samples[2 * count + index]});
  }
  load_state(filter, &stages, 0);
  Stages begun = stages;
  for (int index = 0; index < count; index++) {
    Lanes out = high_passed(filter, &stages, gather(samples + index, count));
    Lanes square = out * out;
    for (int lane = 0; lane < LANES; lane++) squares[lane * count + index] = square[lane];
    if (adding.waiting >= LANES) add_up(&adding, LANES);
  }
  *sums = adding;
  store_state(filter, &stages, 0);
  for (int lane = 1; lane < LANES; lane++) {
    if (is_state(filter, &begun, lane)) store_state(filter, &stages, lane);
    else filter_stretch(filter, samples + lane * count, squares + lane * count, count);
  }
}

/* Filters a block, and adds all samples that wait for the sums. */
static void filter_block(HighPass *filter, const float *samples, float *squares, int count, Sums *sums) {
  int stretch = count / LANES, done = 0;
  if (stretch > EARLY_SAMPLES) {
    filter_side_by_side(filter, samples, squares, stretch, sums);
    done = stretch * LANES;
  }
  filter_stretch(filter, samples + done, squares + done, count - done);
  add_up(sums, sums->waiting);
}

/* ---- Levels ---- */

void measure_open(Levels *levels) {
  *levels = (Levels){0};
  /* Second-order high pass with Q = 1/sqrt(2): Robert Bristow-Johnson, "Audio EQ Cookbook". */
  double w = 2 * M_PI * HIGH_PASS_HZ / OUTPUT_RATE_HZ, alpha = sin(w) * M_SQRT1_2, a0 = 1 + alpha;
  float edge = (1 + cos(w)) / 2 / a0;
  levels->high_pass =
      (HighPass){.b0 = edge, .b1 = -2 * edge, .b2 = edge, .a1 = -2 * cos(w) / a0, .a2 = (1 - alpha) / a0};
}

void measure_source(Levels *levels, const float *samples, int count) {
  float peak = largest_of(samples, count);
  int full_scale = 0;
  if (peak >= FULL_SCALE) {
    for (int index = 0; index < count; index++) full_scale += fabsf(samples[index]) >= FULL_SCALE;
  }
  if (peak > levels->peak) levels->peak = peak;
  levels->samples += count;
  levels->full_scale += full_scale;
}

void measure_sides(Levels *levels, const float *left, const float *right, int count) {
  double power = 0;
  for (int index = 0; index < count; index++) {
    float side = 0.5f * (left[index] - right[index]);
    power += side * side;
  }
  levels->sides.power += power;
  levels->sides.samples += count;
}

void measure_mix(Levels *levels, TrackLevels *track, const float *samples, int count) {
  static float squares[2][BLOCK_SAMPLES];
  Sums sums = {.samples = samples, .squares = squares[0]};
  if (track) sums.moment = track->moment, sums.loudest = track->loudest;
  for (int done = 0, block = 0, part; done < count; done += part, block++) {
    part = count - done < BLOCK_SAMPLES ? count - done : BLOCK_SAMPLES;
    filter_block(&levels->high_pass, samples + done, squares[block % 2], part, &sums);
    sums.samples = samples + done, sums.squares = squares[block % 2], sums.waiting = part;
  }
  add_up(&sums, sums.waiting);
  levels->mix.power += sums.power;
  levels->high.power += sums.high;
  levels->mix.samples += count;
  levels->high.samples += count;
  if (!track) return;
  float peak = largest_of(samples, count);
  if (peak > track->peak) track->peak = peak;
  track->moment = sums.moment;
  track->loudest = sums.loudest;
}

void measure_silence(Levels *levels, int64_t count) {
  levels->mix.samples += count;
  levels->high.samples += count;
}

void measure_track(TrackLevels *levels, const float *samples, int count) {
  const double forgotten = exp(-1 / (MOMENT_S * OUTPUT_RATE_HZ));
  double moment = levels->moment, loudest = levels->loudest;
  float peak = largest_of(samples, count);
  for (int index = 0; index < count; index++) {
    moment = moment * forgotten + (1 - forgotten) * samples[index] * samples[index];
    loudest = moment > loudest ? moment : loudest;
  }
  if (peak > levels->peak) levels->peak = peak;
  levels->moment = moment;
  levels->loudest = loudest;
}

double amplitude_db(double amplitude) {
  if (!(amplitude > 1e-6)) return SILENCE_DB;
  return amplitude >= 1 ? 0 : 20 * log10(amplitude);
}

double power_db(Power power) {
  return power.samples == 0 ? SILENCE_DB : amplitude_db(sqrt(power.power / power.samples));
}
