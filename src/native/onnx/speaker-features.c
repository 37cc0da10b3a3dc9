#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"
#include "spectrum.h"

static const double PREEMPHASIS = 0.97;
static const double PI = 3.14159265358979323846;
/* Where the bands end. NeMo's begin at 0 Hz. */
static const double LOWEST_HZ = 20, HIGHEST_HZ = 7600;

static double window_at(enum speaker_window kind, int n, int length) {
  const double turn = 2 * PI * n;
  switch (kind) {
  case SPEAKER_HANN:
    return 0.5 - 0.5 * cos(turn / length);
  case SPEAKER_HANNING:
    return 0.5 - 0.5 * cos(turn / (length - 1));
  case SPEAKER_HAMMING:
    return 0.54 - 0.46 * cos(turn / (length - 1));
  default:
    return pow(0.5 - 0.5 * cos(turn / (length - 1)), 0.85);
  }
}

size_t speaker_frames(const speaker_sound *sound, size_t count) {
  if (!sound->is_nemo) return (count + (size_t)sound->shift / 2) / (size_t)sound->shift;
  return count < (size_t)sound->window ? 0 : 1 + (count - (size_t)sound->window) / (size_t)sound->shift;
}

/* Copies the windowed sound of a frame, filtered within the frame. */
static void frame_at(const speaker_sound *sound, const double *window, const float *samples, size_t count, size_t frame,
                     double *out) {
  const int length = sound->window;
  const long first = (long)frame * sound->shift + (sound->is_nemo ? 0 : (long)(sound->shift / 2 - length / 2));
  const double scale = sound->is_scaled ? 32768 : 1;
  double mean = 0;
  memset(out, 0, MEL_FFT * sizeof *out);
  for (int n = 0; n < length; n++) {
    out[n] = samples[mel_reflected(first + n, count, true)] * scale;
    mean += out[n];
  }
  mean = sound->is_nemo ? 0 : mean / length;
  double before = out[0] - mean;
  for (int n = 0; n < length; n++) {
    const double sample = out[n] - mean;
    out[n] = (sample - PREEMPHASIS * before) * window[n];
    before = sample;
  }
}

/* Gives each band mean 0, and deviation 1 if that is wanted. `stride` is the distance between two frames of a band. */
static void normalize_band(float *values, size_t frames, size_t stride, enum speaker_normalization kind) {
  double sum = 0, squares = 0;
  for (size_t n = 0; n < frames; n++) {
    const double value = values[n * stride];
    sum += value, squares += value * value;
  }
  const double mean = sum / (double)frames;
  double scale = 1;
  if (kind == SPEAKER_DEVIATION) scale = 1 / (sqrt(fmax(squares / (double)frames - mean * mean, 1e-5)) + 1e-5);
  for (size_t n = 0; n < frames; n++) values[n * stride] = (float)((values[n * stride] - mean) * scale);
}

float *speaker_features(const speaker_sound *sound, const float *samples, size_t count) {
  const size_t frames = speaker_frames(sound, count), bins = (size_t)sound->bins;
  const double low = sound->is_nemo ? 0 : LOWEST_HZ;
  mel_filter *filters = mel_filters(sound->bins, low, HIGHEST_HZ, sound->is_nemo ? MEL_SLANEY : MEL_KALDI);
  float *features = malloc(bins * frames * sizeof *features);
  double window[MEL_FFT], power[MEL_HALF + 1], values[MEL_FFT];
  if (!filters || !features) {
    free(filters), free(features);
    return NULL;
  }
  for (int n = 0; n < sound->window; n++) window[n] = window_at(sound->shape, n, sound->window);
  /* NeMo's nets read bands x frames, the others frames x bands. */
  const size_t of_frame = sound->is_nemo ? 1 : bins, of_band = sound->is_nemo ? frames : 1;
  for (size_t frame = 0; frame < frames; frame++) {
    frame_at(sound, window, samples, count, frame, values);
    power_spectrum(values, power);
    for (size_t bin = 0; bin < bins; bin++) {
      const double energy = mel_energy(&filters[bin], power);
      features[bin * of_band + frame * of_frame] = (float)log(fmax(energy, MEL_LEAST));
    }
  }
  free(filters);
  for (size_t bin = 0; bin < bins && sound->normalization != SPEAKER_AS_IS; bin++)
    normalize_band(features + bin * of_band, frames, of_frame, sound->normalization);
  return features;
}
