/* What the features of all models share: the power spectrum of a frame, and bands of the mel scale. */
#ifndef SHRUTI_SPECTRUM_H
#define SHRUTI_SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>

#define MEL_RATE 16000
/* Samples of a transform; frequencies of a spectrum besides 0 Hz. */
#define MEL_FFT 512
#define MEL_HALF (MEL_FFT / 2)
/* The smallest step of a float near 1, below which Kaldi lets no energy fall. */
#define MEL_LEAST 1.1920929e-07

/* Computes the power of MEL_HALF + 1 frequencies from MEL_FFT samples. */
void power_spectrum(const double *input, double *power);

/* A triangle: `weights` are other than 0 from frequency `first` to `last`. */
typedef struct {
  int first, last;
  double weights[MEL_HALF + 1];
} mel_filter;

enum mel_scale {
  /* Of Slaney's Auditory Toolbox, which librosa uses: linear to 1000 Hz, then logarithmic. Triangles over Hz of equal area. */
  MEL_SLANEY,
  /* Kaldi's: logarithmic. Triangles over mel of equal height. */
  MEL_KALDI,
};

/* Returns triangles between two frequencies in Hz, to be freed; NULL without memory. */
mel_filter *mel_filters(int bins, double low, double high, enum mel_scale scale);
double mel_energy(const mel_filter *filter, const double *power);

/* Returns the index at which reflection continues the sound beyond its ends. */
size_t mel_reflected(long index, size_t count, bool repeats_edge);

#endif
