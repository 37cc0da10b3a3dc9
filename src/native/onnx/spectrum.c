#include "spectrum.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { FFT = MEL_FFT, HALF = MEL_HALF };
static const double PI = 3.14159265358979323846;

/* Tables of the Fourier transform. Written once. */
static double cosines[HALF], sines[HALF];
static int reversed[HALF];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
  for (int n = 0; n < HALF; n++) {
    cosines[n] = cos(2 * PI * n / FFT);
    sines[n] = -sin(2 * PI * n / FFT);
  }
  for (int n = 0, bits = 8; n < HALF; n++) {
    int mirrored = 0;
    for (int bit = 0; bit < bits; bit++)
      if (n & (1 << bit)) mirrored |= 1 << (bits - 1 - bit);
    reversed[n] = mirrored;
  }
}

/* Real samples are transformed in pairs, as the parts of half as many complex numbers. */
void power_spectrum(const double *input, double *power) {
  double re[HALF + 1], im[HALF + 1];
  pthread_once(&tables_once, fill_tables);
  for (int n = 0; n < HALF; n++) re[reversed[n]] = input[2 * n], im[reversed[n]] = input[2 * n + 1];
  for (int size = 2; size <= HALF; size *= 2) {
    const int step = FFT / size, half = size / 2;
    for (int start = 0; start < HALF; start += size) {
      for (int k = 0; k < half; k++) {
        const double c = cosines[k * step], s = sines[k * step];
        const int a = start + k, b = a + half;
        const double x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x, im[b] = im[a] - y;
        re[a] += x, im[a] += y;
      }
    }
  }
  re[HALF] = re[0], im[HALF] = im[0];
  power[HALF] = (re[0] - im[0]) * (re[0] - im[0]);
  for (int n = 0; n < HALF; n++) {
    const int mirrored = HALF - n;
    const double even_re = (re[n] + re[mirrored]) / 2, even_im = (im[n] - im[mirrored]) / 2;
    const double odd_re = (im[n] + im[mirrored]) / 2, odd_im = (re[mirrored] - re[n]) / 2;
    const double x = even_re + odd_re * cosines[n] - odd_im * sines[n];
    const double y = even_im + odd_re * sines[n] + odd_im * cosines[n];
    power[n] = x * x + y * y;
  }
}

static double mel_of(double hz, enum mel_scale scale) {
  if (scale == MEL_KALDI) return 1127 * log(1 + hz / 700);
  return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double hz_of(double mel, enum mel_scale scale) {
  if (scale == MEL_KALDI) return 700 * (exp(mel / 1127) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

/* Fills a triangle between three corners, which are Hz or mel as the scale wants. */
static void fill_filter(mel_filter *f, double left, double middle, double right, enum mel_scale scale) {
  /* Kaldi leaves the last frequency out. */
  const int last = scale == MEL_KALDI ? HALF - 1 : HALF;
  f->first = HALF + 1, f->last = -1;
  for (int n = 0; n <= last; n++) {
    const double hz = (double)n * MEL_RATE / FFT;
    const double at = scale == MEL_KALDI ? mel_of(hz, scale) : hz;
    const double weight = fmin((at - left) / (middle - left), (right - at) / (right - middle));
    if (weight <= 0) continue;
    if (n < f->first) f->first = n;
    f->last = n;
    f->weights[n] = scale == MEL_KALDI ? weight : weight * 2 / (right - left);
  }
}

mel_filter *mel_filters(int bins, double low, double high, enum mel_scale scale) {
  mel_filter *filters = calloc((size_t)bins, sizeof *filters);
  if (!filters) return NULL;
  const double bottom = mel_of(low, scale), step = (mel_of(high, scale) - bottom) / (bins + 1);
  for (int bin = 0; bin < bins; bin++) {
    double corners[3];
    for (int n = 0; n < 3; n++) {
      const double mel = bottom + (bin + n) * step;
      corners[n] = scale == MEL_KALDI ? mel : hz_of(mel, scale);
    }
    fill_filter(&filters[bin], corners[0], corners[1], corners[2], scale);
  }
  return filters;
}

double mel_energy(const mel_filter *filter, const double *power) {
  double energy = 0;
  for (int n = filter->first; n <= filter->last; n++) energy += power[n] * filter->weights[n];
  return energy;
}

size_t mel_reflected(long index, size_t count, bool repeats_edge) {
  const long n = (long)count;
  if (index < 0) index = repeats_edge ? -index - 1 : -index;
  if (index >= n) index = repeats_edge ? 2 * n - 1 - index : 2 * n - 2 - index;
  return (size_t)(index < 0 ? 0 : index >= n ? n - 1 : index);
}
