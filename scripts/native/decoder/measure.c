#include <math.h>

#include "decoder.h"

/* Samples from here on are at full scale, within what codecs round. */
#define FULL_SCALE 0.99885f
#define HIGH_PASS_HZ 5000.0
#define MOMENT_S 0.05

void measure_open(Levels *levels) {
  *levels = (Levels){0};
  /* Second-order high pass with Q = 1/sqrt(2): Robert Bristow-Johnson, "Audio EQ Cookbook". */
  double w = 2 * M_PI * HIGH_PASS_HZ / OUTPUT_RATE_HZ, alpha = sin(w) * M_SQRT1_2, a0 = 1 + alpha;
  float edge = (1 + cos(w)) / 2 / a0;
  for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
    levels->high_pass[stage] = (Biquad){
        .b0 = edge, .b1 = -2 * edge, .b2 = edge, .a1 = -2 * cos(w) / a0, .a2 = (1 - alpha) / a0};
  }
}

void measure_source(Levels *levels, const float *samples, int count) {
  float peak = levels->peak;
  int full_scale = 0;
  for (int index = 0; index < count; index++) {
    float size = fabsf(samples[index]);
    peak = size > peak ? size : peak;
    full_scale += size >= FULL_SCALE;
  }
  levels->peak = peak;
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

static float high_passed(Biquad *stage, float in) {
  float out = stage->b0 * in + stage->z1;
  stage->z1 = stage->b1 * in - stage->a1 * out + stage->z2;
  stage->z2 = stage->b2 * in - stage->a2 * out;
  return out;
}

void measure_mix(Levels *levels, const float *samples, int count) {
  double power = 0, high = 0;
  for (int index = 0; index < count; index++) {
    float sample = samples[index];
    power += sample * sample;
    for (int stage = 0; stage < HIGH_PASS_STAGES; stage++) {
      sample = high_passed(&levels->high_pass[stage], sample);
    }
    high += sample * sample;
  }
  levels->mix.power += power;
  levels->high.power += high;
  levels->mix.samples += count;
  levels->high.samples += count;
}

void measure_silence(Levels *levels, int64_t count) {
  levels->mix.samples += count;
  levels->high.samples += count;
}

void measure_track(TrackLevels *levels, const float *samples, int count) {
  const double forgotten = exp(-1 / (MOMENT_S * OUTPUT_RATE_HZ));
  for (int index = 0; index < count; index++) {
    float size = fabsf(samples[index]);
    if (size > levels->peak) levels->peak = size;
    levels->moment = levels->moment * forgotten + (1 - forgotten) * size * size;
    if (levels->moment > levels->loudest) levels->loudest = levels->moment;
  }
}

double amplitude_db(double amplitude) {
  if (!(amplitude > 1e-6)) return SILENCE_DB;
  return amplitude >= 1 ? 0 : 20 * log10(amplitude);
}

double power_db(Power power) {
  return power.samples == 0 ? SILENCE_DB : amplitude_db(sqrt(power.power / power.samples));
}
