#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ctc.h"

enum { FFT = 512, HALF = FFT / 2, WINDOW = 400, SHIFT = 160, MAX_BINS = 256 };
static const double PREEMPHASIS = 0.97;
static const double PI = 3.14159265358979323846;

/* Tables of the Fourier transform, and the windows of the two kinds of features. Written once. */
static double cosines[HALF], sines[HALF];
static double symmetric[WINDOW], periodic[WINDOW];
static int reversed[FFT];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
  for (int n = 0; n < HALF; n++) {
    cosines[n] = cos(2 * PI * n / FFT);
    sines[n] = -sin(2 * PI * n / FFT);
  }
  for (int n = 0, bits = 9; n < FFT; n++) {
    int mirrored = 0;
    for (int bit = 0; bit < bits; bit++)
      if (n & (1 << bit)) mirrored |= 1 << (bits - 1 - bit);
    reversed[n] = mirrored;
  }
  for (int n = 0; n < WINDOW; n++) {
    symmetric[n] = 0.5 - 0.5 * cos(2 * PI * n / (WINDOW - 1));
    periodic[n] = 0.5 - 0.5 * cos(2 * PI * n / WINDOW);
  }
}

/* Transforms FFT real numbers into the power of HALF + 1 frequencies. */
static void power_spectrum(const double *input, double *power) {
  double re[FFT], im[FFT] = {0};
  for (int n = 0; n < FFT; n++) re[reversed[n]] = input[n];
  for (int size = 2; size <= FFT; size *= 2) {
    const int step = FFT / size, half = size / 2;
    for (int start = 0; start < FFT; start += size) {
      for (int k = 0; k < half; k++) {
        const double c = cosines[k * step], s = sines[k * step];
        const int a = start + k, b = a + half;
        const double x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x, im[b] = im[a] - y;
        re[a] += x, im[a] += y;
      }
    }
  }
  for (int n = 0; n <= HALF; n++) power[n] = re[n] * re[n] + im[n] * im[n];
}

/* The mel scale of Slaney's Auditory Toolbox, which librosa uses: linear to 1000 Hz, then logarithmic. */
static double mel_of(double hz) { return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4); }
static double hz_of(double mel) { return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27); }

/* A triangle: `weights` are other than 0 from frequency `first` to `last`. */
typedef struct {
  int first, last;
  double weights[HALF + 1];
} filter;

/* Triangles of equal area between 0 Hz and half the rate. */
static filter *mel_filters(int bins) {
  filter *filters = calloc((size_t)bins, sizeof *filters);
  if (!filters) return NULL;
  const double top = mel_of(CTC_RATE / 2.0);
  for (int bin = 0; bin < bins; bin++) {
    const double left = hz_of(top * bin / (bins + 1)), middle = hz_of(top * (bin + 1) / (bins + 1)),
                 right = hz_of(top * (bin + 2) / (bins + 1));
    filter *f = &filters[bin];
    f->first = HALF + 1, f->last = -1;
    for (int n = 0; n <= HALF; n++) {
      const double hz = (double)n * CTC_RATE / FFT;
      const double weight = fmin((hz - left) / (middle - left), (right - hz) / (right - middle));
      if (weight <= 0) continue;
      if (n < f->first) f->first = n;
      f->last = n;
      f->weights[n] = weight * 2 / (right - left);
    }
  }
  return filters;
}

/* Returns the index at which reflection continues the sound beyond its ends. */
static size_t reflected(long index, size_t count, bool repeats_edge) {
  const long n = (long)count;
  if (index < 0) index = repeats_edge ? -index - 1 : -index;
  if (index >= n) index = repeats_edge ? 2 * n - 1 - index : 2 * n - 2 - index;
  return (size_t)(index < 0 ? 0 : index >= n ? n - 1 : index);
}

/*
 * Copies the windowed sound of a frame. NeMo centres the window in the transform, has a symmetric one, and filters the
 * whole sound before. Kaldi filters within the frame, and has a periodic window at the transform's beginning.
 */
static void frame_at(const float *samples, size_t count, size_t frame, enum ctc_input kind, double *out) {
  memset(out, 0, FFT * sizeof *out);
  if (kind == CTC_NEMO_MEL) {
    const long first = (long)frame * SHIFT - HALF;
    const int margin = (FFT - WINDOW) / 2;
    for (int n = 0; n < WINDOW; n++) {
      const size_t at = reflected(first + margin + n, count, false);
      const double filtered = at == 0 ? samples[0] : samples[at] - PREEMPHASIS * samples[at - 1];
      out[margin + n] = filtered * symmetric[n];
    }
    return;
  }
  const long first = (long)frame * SHIFT + SHIFT / 2 - WINDOW / 2;
  double before = samples[reflected(first, count, true)];
  for (int n = 0; n < WINDOW; n++) {
    const double sample = samples[reflected(first + n, count, true)];
    out[n] = (sample - PREEMPHASIS * before) * periodic[n];
    before = sample;
  }
}

/* Gives each row mean 0 and deviation 1. */
static void normalize_rows(float *rows, int count, size_t length, enum ctc_input kind) {
  const double freedom = kind == CTC_NEMO_MEL && length > 1 ? (double)length - 1 : (double)length;
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
  pthread_once(&tables_once, fill_tables);
  const size_t length = kind == CTC_NEMO_MEL ? count / SHIFT + 1 : (count + SHIFT / 2) / SHIFT;
  filter *filters = mel_filters(bins);
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
      const filter *f = &filters[bin];
      double energy = 0;
      for (int n = f->first; n <= f->last; n++) energy += power[n] * f->weights[n];
      const double least = 1.1920929e-07; /* of kaldi: the smallest step of a float near 1 */
      const double logarithm = kind == CTC_NEMO_MEL ? log(energy + 0x1p-24) : log(fmax(energy, least));
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
