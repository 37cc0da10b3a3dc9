#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"
#include "spectrum.h"

enum { FFT = MEL_FFT, HALF = MEL_HALF, WINDOW = 400, SHIFT = 160, MAX_BINS = 256 };
static const double PREEMPHASIS = 0.97;
static const double PI = 3.14159265358979323846;

/* Windows of the two kinds of features. Written once. */
static double symmetric[WINDOW], periodic[WINDOW];
static pthread_once_t windows_once = PTHREAD_ONCE_INIT;

static void fill_windows(void) {
  for (int n = 0; n < WINDOW; n++) {
    symmetric[n] = 0.5 - 0.5 * cos(2 * PI * n / (WINDOW - 1));
    periodic[n] = 0.5 - 0.5 * cos(2 * PI * n / WINDOW);
  }
}

static bool is_nemo(enum ctc_input kind) { return kind == CTC_NEMO_MEL || kind == CTC_NEMO_25_MEL; }

/*
 * Copies the windowed sound of a frame. NeMo centres the window in the transform, has a symmetric one, and filters the
 * whole sound before. What lies before and behind the sound is its reflection, and silence from NeMo 2.5 on. Kaldi filters within the frame, and has a periodic window at the transform's beginning.
 */
static void frame_at(const float *samples, size_t count, size_t frame, enum ctc_input kind, double *out) {
  memset(out, 0, FFT * sizeof *out);
  if (is_nemo(kind)) {
    const long first = (long)frame * SHIFT - HALF;
    const int margin = (FFT - WINDOW) / 2;
    for (int n = 0; n < WINDOW; n++) {
      const long place = first + margin + n;
      if (kind == CTC_NEMO_25_MEL && (place < 0 || (size_t)place >= count)) continue;
      const size_t at = mel_reflected(place, count, false);
      const double filtered = at == 0 ? samples[0] : samples[at] - PREEMPHASIS * samples[at - 1];
      out[margin + n] = filtered * symmetric[n];
    }
    return;
  }
  const long first = (long)frame * SHIFT + SHIFT / 2 - WINDOW / 2;
  double before = samples[mel_reflected(first, count, true)];
  for (int n = 0; n < WINDOW; n++) {
    const double sample = samples[mel_reflected(first + n, count, true)];
    out[n] = (sample - PREEMPHASIS * before) * periodic[n];
    before = sample;
  }
}

/* Gives each row mean 0 and deviation 1. */
static void normalize_rows(float *rows, int count, size_t length, enum ctc_input kind) {
  const double freedom = is_nemo(kind) && length > 1 ? (double)length - 1 : (double)length;
  for (int row = 0; row < count; row++) {
    float *values = rows + (size_t)row * length;
    double sum = 0, squares = 0;
    for (size_t n = 0; n < length; n++) sum += values[n];
    const double mean = sum / (double)length;
    for (size_t n = 0; n < length; n++) squares += (values[n] - mean) * (values[n] - mean);
    const double deviation = sqrt(squares / freedom) + 1e-5;
    for (size_t n = 0; n < length; n++) values[n] = (float)((values[n] - mean) / deviation);
  }
}

float *ctc_mel(const float *samples, size_t count, enum ctc_input kind, int bins, size_t *frames) {
  if (count < CTC_LEAST_SAMPLES || bins < 1 || bins > MAX_BINS) return NULL;
  pthread_once(&windows_once, fill_windows);
  /* From 2.5 on, NeMo leaves out the last frame, whose middle is at the end of the sound. */
  const size_t length = kind == CTC_NEMO_25_MEL ? count / SHIFT
                        : kind == CTC_NEMO_MEL  ? count / SHIFT + 1
                                                : (count + SHIFT / 2) / SHIFT;
  mel_filter *filters = mel_filters(bins, 0, MEL_RATE / 2.0, MEL_SLANEY);
  float *features = malloc((size_t)bins * length * sizeof *features);
  if (!filters || !features) {
    free(filters), free(features);
    return NULL;
  }
  for (size_t frame = 0; frame < length; frame++) {
    double sound[FFT], power[HALF + 1];
    frame_at(samples, count, frame, kind, sound);
    power_spectrum(sound, power);
    for (int bin = 0; bin < bins; bin++) {
      const double energy = mel_energy(&filters[bin], power);
      const double logarithm = is_nemo(kind) ? log(energy + 0x1p-24) : log(fmax(energy, MEL_LEAST));
      features[(size_t)bin * length + frame] = (float)logarithm;
    }
  }
  free(filters);
  normalize_rows(features, bins, length, kind);
  *frames = length;
  return features;
}

float *ctc_normalized(const float *samples, size_t count) {
  float *copy = malloc(count * sizeof *copy);
  if (!copy) return NULL;
  double sum = 0, squares = 0;
  for (size_t n = 0; n < count; n++) sum += samples[n];
  const double mean = sum / (double)count;
  for (size_t n = 0; n < count; n++) squares += (samples[n] - mean) * (samples[n] - mean);
  const double scale = 1 / sqrt(squares / (double)count + 1e-5);
  for (size_t n = 0; n < count; n++) copy[n] = (float)((samples[n] - mean) * scale);
  return copy;
}
