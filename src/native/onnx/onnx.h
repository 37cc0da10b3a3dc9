/*
 * ONNX models on the ONNX runtime. Recognition with a CTC model: features of the sound, the net, and the best token of
 * each frame. Distinguishing speakers: a net over samples, and nets over features, with all their numbers. Punctuation: a
 * net over tokens.
 *
 * All functions but `onnx_open_runtime` may be called from several threads at once.
 */
#ifndef SHRUTI_ONNX_H
#define SHRUTI_ONNX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctc-beam.h"

/* Space for the reason of a failure. */
#define ONNX_REASON 512

/* What the net receives. */
enum ctc_input {
  /* Log-mel features as NeMo computes them for training, up to 2.4. */
  CTC_NEMO_MEL,
  /* Log-mel features as kaldi-native-fbank approximates NeMo's; sherpa-onnx uses them. */
  CTC_KALDI_MEL,
  /* Samples with mean 0 and variance 1. */
  CTC_SAMPLES,
  /* Log-mel features as NeMo computes them from 2.5 on. */
  CTC_NEMO_25_MEL,
};

/* --- ctc-features.c --- */

/*
 * Computes normalised log-mel features.
 *
 * samples: 16 kHz mono within -1 to 1, at least CTC_LEAST_SAMPLES
 * bins: number of mel bins, 1 to 256
 * frames: receives the number of frames of 10 ms
 *
 * Returns bins x frames numbers, each bin in one row, to be freed; NULL without memory.
 */
float *ctc_mel(const float *samples, size_t count, enum ctc_input kind, int bins, size_t *frames);
/* Returns a copy of the samples with mean 0 and variance 1, to be freed; NULL without memory. */
float *ctc_normalized(const float *samples, size_t count);
#define CTC_LEAST_SAMPLES 1600

/* --- speaker-features.c --- */

enum speaker_window { SPEAKER_POVEY, SPEAKER_HANN, SPEAKER_HANNING, SPEAKER_HAMMING };
enum speaker_normalization {
  SPEAKER_AS_IS,
  /* Each band has the mean 0. */
  SPEAKER_MEAN,
  /* And the deviation 1. */
  SPEAKER_DEVIATION,
};

/* How the sound becomes the input of a speaker model, as kaldi-native-fbank computes it. */
typedef struct {
  /* NeMo's bands and frames; else Kaldi's. */
  bool is_nemo;
  /* Samples are multiplied by 32768. */
  bool is_scaled;
  /* 1 to SPEAKER_MOST_BINS. */
  int bins;
  /* Samples of a frame, MEL_FFT / 2 + 1 to MEL_FFT, and between the beginnings of two, from 1. */
  int window, shift;
  enum speaker_window shape;
  enum speaker_normalization normalization;
} speaker_sound;
#define SPEAKER_MOST_BINS 128

/* Returns the number of frames of a sound. */
size_t speaker_frames(const speaker_sound *sound, size_t count);
/* Computes the logarithms of all bands, to be freed; NULL without memory. The sound has at least one frame. */
float *speaker_features(const speaker_sound *sound, const float *samples, size_t count);

/* --- runtime.c --- */

typedef struct onnx_session onnx_session;

/* Loads onnxruntime once. Returns false with a reason when it cannot be used. */
bool onnx_open_runtime(const char *library, char *reason);
const char *onnx_runtime_version(void);

/*
 * Loads a model.
 *
 * bytes: the content of the file, of `length` bytes; NULL: it is read. onnxruntime keeps a copy
 * threads: those of one run
 * is_mapped: weights in files beside the model stay there, mapped into memory; else matrices are copied into an order that
 *   is a little faster
 * Returns NULL with a reason when it cannot be used.
 */
onnx_session *onnx_open_session(const char *path, const void *bytes, size_t length, int threads, bool is_mapped, char *reason);
void onnx_close_session(onnx_session *session);

/* Lets a run be ended from another thread. NULL without memory. */
void *onnx_new_ending(void);
/* Ends the run as soon as possible, also one that has not begun yet. */
void onnx_end(void *ending);
void onnx_free_ending(void *ending);

typedef struct {
  /* For each frame of the net the best token and its probability among those allowed. */
  int32_t *ids;
  float *probabilities;
  size_t frames;
  /* Frames of features, or samples, that the net received. */
  size_t input_frames;
} ctc_best;

/*
 * Runs the net.
 *
 * head: a second net, which makes the scores of what the first one computes; NULL: the first one makes them
 * allowed: for each output of the net 1, or 0 when it must not be chosen
 * beam: NULL: each frame has its best token; else the tokens are those of the best text, with an n-gram model
 * Returns false with a reason. A model that does not fit is a reason, too.
 */
bool ctc_run(onnx_session *session, onnx_session *head, void *ending, const float *samples, size_t count,
             enum ctc_input kind, int bins, const uint8_t *allowed, size_t outputs,
             const beam_model *beam, ctc_best *best, char *reason);
void ctc_free_best(ctc_best *best);

typedef struct {
  float *numbers;
  size_t count;
  /* The last two dimensions; the one before them is 1. The first is 1 where there is one only. */
  size_t rows, columns;
} onnx_numbers;

/*
 * Runs a net for speakers.
 *
 * sound: how the samples become features; NULL: the net reads 1 x 1 x samples
 * output: index of the output that is wanted
 * Returns false with a reason. A model that does not fit is a reason, too.
 */
bool speaker_run(onnx_session *session, void *ending, const float *samples, size_t count, const speaker_sound *sound,
                 size_t output, onnx_numbers *numbers, char *reason);

/* Most outputs that a net over tokens may have. */
#define ONNX_MOST_OUTPUTS 4

typedef struct {
  /* The values of each output in their order, and how many there are for one token. */
  int32_t *values[ONNX_MOST_OUTPUTS];
  size_t widths[ONNX_MOST_OUTPUTS];
  size_t outputs;
} token_labels;

/*
 * Runs a net whose only input are the numbers of tokens (1 x tokens, 64-bit integers) and whose outputs are integers or
 * truth values for each token.
 *
 * Returns false with a reason. A model that does not fit is a reason, too. The values are to be freed in either case.
 */
bool token_run(onnx_session *session, void *ending, const int32_t *ids, size_t count, token_labels *labels, char *reason);
void token_free_labels(token_labels *labels);

#endif
