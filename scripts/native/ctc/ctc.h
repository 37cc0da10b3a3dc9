/*
 * Recognition with a CTC model: features of the sound, the net, and the best token of each frame.
 *
 * All functions but `ctc_open_runtime` may be called from several threads at once.
 */
#ifndef SHRUTI_CTC_H
#define SHRUTI_CTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CTC_RATE 16000
/* Space for the reason of a failure. */
#define CTC_REASON 512

/* What the net receives. */
enum ctc_input {
  /* Log-mel features as NeMo computes them for training. */
  CTC_NEMO_MEL,
  /* Log-mel features as kaldi-native-fbank approximates NeMo's; sherpa-onnx uses them. */
  CTC_KALDI_MEL,
  /* Samples with mean 0 and variance 1. */
  CTC_SAMPLES,
};

/* --- features.c --- */

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

/* --- runtime.c --- */

typedef struct ctc_session ctc_session;

/* Loads onnxruntime once. Returns false with a reason when it cannot be used. */
bool ctc_open_runtime(const char *library, char *reason);
const char *ctc_runtime_version(void);

/* Loads a model; threads: those of one run. Returns NULL with a reason when it cannot be used. */
ctc_session *ctc_open_session(const char *path, int threads, char *reason);
void ctc_close_session(ctc_session *session);

/* Lets a run be ended from another thread. NULL without memory. */
void *ctc_new_ending(void);
/* Ends the run as soon as possible, also one that has not begun yet. */
void ctc_end(void *ending);
void ctc_free_ending(void *ending);

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
 * allowed: for each output of the net 1, or 0 when it must not be chosen
 * Returns false with a reason. A model that does not fit is a reason, too.
 */
bool ctc_run(ctc_session *session, void *ending, const float *samples, size_t count, enum ctc_input kind, int bins,
             const uint8_t *allowed, size_t outputs, ctc_best *best, char *reason);
void ctc_free_best(ctc_best *best);

#endif
