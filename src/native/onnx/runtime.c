#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"
#include "operations.h"

/*
 * onnxruntime's C interface is a table of functions. New versions only append to it, so these positions are fixed; the
 * version that is asked for has all of them.
 */
enum {
  INTERFACE_VERSION = 4,
  GET_ERROR_MESSAGE = 2,
  CREATE_ENV = 3,
  CREATE_SESSION = 7,
  CREATE_SESSION_FROM_BYTES = 8,
  RUN = 9,
  CREATE_SESSION_OPTIONS = 10,
  DISABLE_MEM_PATTERN = 17,
  SET_GRAPH_OPTIMIZATION = 23,
  SET_INTRA_OP_THREADS = 24,
  SET_INTER_OP_THREADS = 25,
  ADD_CUSTOM_OP_DOMAIN = 28,
  GET_INPUT_COUNT = 30,
  GET_OUTPUT_COUNT = 31,
  GET_INPUT_NAME = 36,
  GET_OUTPUT_NAME = 37,
  CREATE_RUN_OPTIONS = 39,
  RUN_OPTIONS_TERMINATE = 46,
  CREATE_TENSOR_WITH_DATA = 49,
  GET_TENSOR_DATA = 51,
  GET_ELEMENT_TYPE = 60,
  GET_DIMENSIONS_COUNT = 61,
  GET_DIMENSIONS = 62,
  GET_TENSOR_SHAPE = 65,
  CREATE_CPU_MEMORY = 69,
  GET_ALLOCATOR = 78,
  RELEASE_STATUS = 93,
  RELEASE_SESSION = 95,
  RELEASE_VALUE = 96,
  RELEASE_RUN_OPTIONS = 97,
  RELEASE_SHAPE = 99,
  RELEASE_SESSION_OPTIONS = 100,
  ADD_CONFIG_ENTRY = 130,
};
/* Values of its enumerations. */
enum {
  LOG_FATAL = 4,
  ALL_OPTIMIZATIONS = 99,
  TYPE_FLOAT = 1,
  TYPE_INT64 = 7,
  TYPE_BOOL = 9,
  ARENA = 1,
  MEMORY_DEFAULT = 0
};

typedef struct {
  const void *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} api_base;
typedef void (*function)(void);
/* NULL: success. */
typedef void *status;

static const api_base *base;
static const function *api;
static void *environment, *memory, *allocator, *operations;

#define FN(position, ...) ((status(*)(__VA_ARGS__))api[position])
#define RELEASE(position, object) ((void (*)(void *))api[position])(object)

/* Returns whether a call succeeded; else releases the status and copies its message. */
static bool succeeded(status failed, char *reason) {
  if (!failed) return true;
  const char *message = ((const char *(*)(const void *))api[GET_ERROR_MESSAGE])(failed);
  snprintf(reason, ONNX_REASON, "%s", message ? message : "unknown error");
  RELEASE(RELEASE_STATUS, failed);
  return false;
}

static bool fail(char *reason, const char *message) {
  snprintf(reason, ONNX_REASON, "%s", message);
  return false;
}

bool onnx_open_runtime(const char *library, char *reason) {
  if (environment) return true;
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fail(reason, dlerror());
  const api_base *(*get_base)(void) = (const api_base *(*)(void))dlsym(handle, "OrtGetApiBase");
  base = get_base ? get_base() : NULL;
  api = base ? base->get_api(INTERFACE_VERSION) : NULL;
  if (!api) return fail(reason, "the library is not onnxruntime");
  return succeeded(FN(CREATE_ENV, int, const char *, void **)(LOG_FATAL, "shruti", &environment), reason) &&
         succeeded(FN(CREATE_CPU_MEMORY, int, int, void **)(ARENA, MEMORY_DEFAULT, &memory), reason) &&
         succeeded(FN(GET_ALLOCATOR, void **)(&allocator), reason) &&
         succeeded(onnx_make_operations(api, &operations), reason);
}

const char *onnx_runtime_version(void) { return base ? base->get_version() : ""; }

enum { MOST_INPUTS = 2, MOST_OUTPUTS = ONNX_MOST_OUTPUTS };

struct onnx_session {
  void *session;
  size_t inputs, outputs;
  char *input_names[MOST_INPUTS];
  /* Of the first outputs. */
  char *output_names[MOST_OUTPUTS];
};

static bool set_options(void *options, int threads, bool is_mapped, char *reason) {
  typedef status (*set_number)(void *, int);
  return succeeded(((set_number)api[SET_INTRA_OP_THREADS])(options, threads), reason) &&
         succeeded(((set_number)api[SET_INTER_OP_THREADS])(options, 1), reason) &&
         succeeded(((set_number)api[SET_GRAPH_OPTIMIZATION])(options, ALL_OPTIMIZATIONS), reason) &&
         succeeded(FN(ADD_CUSTOM_OP_DOMAIN, void *, void *)(options, operations), reason) &&
         /* A pattern is kept for each length of sound, without end. */
         succeeded(FN(DISABLE_MEM_PATTERN, void *)(options), reason) &&
         /* Threads that wait must not keep a core busy: other chunks and requests need it. */
         succeeded(FN(ADD_CONFIG_ENTRY, void *, const char *, const char *)(options,
                                                                            "session.intra_op.allow_spinning", "0"),
                   reason) &&
         (!is_mapped || succeeded(FN(ADD_CONFIG_ENTRY, void *, const char *, const char *)(
                                      options, "session.disable_prepacking", "1"),
                                  reason));
}

static bool read_names(onnx_session *s, char *reason) {
  typedef status (*get_name)(const void *, size_t, void *, char **);
  if (!succeeded(FN(GET_INPUT_COUNT, const void *, size_t *)(s->session, &s->inputs), reason)) return false;
  if (!succeeded(FN(GET_OUTPUT_COUNT, const void *, size_t *)(s->session, &s->outputs), reason)) return false;
  if (s->inputs < 1 || s->inputs > MOST_INPUTS || s->outputs < 1)
    return fail(reason, "the model's inputs and outputs are not those of a supported model");
  if (s->outputs > MOST_OUTPUTS) s->outputs = MOST_OUTPUTS;
  for (size_t n = 0; n < s->inputs; n++) {
    if (!succeeded(((get_name)api[GET_INPUT_NAME])(s->session, n, allocator, &s->input_names[n]), reason))
      return false;
  }
  for (size_t n = 0; n < s->outputs; n++) {
    if (!succeeded(((get_name)api[GET_OUTPUT_NAME])(s->session, n, allocator, &s->output_names[n]), reason))
      return false;
  }
  return true;
}

static bool create_session(const char *path, const void *bytes, size_t length, const void *options, void **session, char *reason) {
  return succeeded(bytes ? FN(CREATE_SESSION_FROM_BYTES, void *, const void *, size_t, const void *, void **)(
                               environment, bytes, length, options, session)
                         : FN(CREATE_SESSION, void *, const char *, const void *, void **)(environment, path, options, session),
                   reason);
}

onnx_session *onnx_open_session(const char *path, const void *bytes, size_t length, int threads, bool is_mapped, char *reason) {
  void *options = NULL;
  onnx_session *s = calloc(1, sizeof *s);
  bool is_open = s && succeeded(FN(CREATE_SESSION_OPTIONS, void **)(&options), reason) &&
                 set_options(options, threads, is_mapped, reason) &&
                 create_session(path, bytes, length, options, &s->session, reason) && read_names(s, reason);
  if (options) RELEASE(RELEASE_SESSION_OPTIONS, options);
  if (is_open) return s;
  onnx_close_session(s);
  return NULL;
}

/* The few bytes of the names stay allocated, because a session lives as long as its process. */
void onnx_close_session(onnx_session *s) {
  if (s && s->session) RELEASE(RELEASE_SESSION, s->session);
  free(s);
}

void *onnx_new_ending(void) {
  void *options = NULL;
  char reason[ONNX_REASON];
  return succeeded(FN(CREATE_RUN_OPTIONS, void **)(&options), reason) ? options : NULL;
}

void onnx_end(void *ending) {
  char reason[ONNX_REASON];
  succeeded(FN(RUN_OPTIONS_TERMINATE, void *)(ending), reason);
}

void onnx_free_ending(void *ending) {
  if (ending) RELEASE(RELEASE_RUN_OPTIONS, ending);
}

/* Finds for each frame the best output among those allowed, and its share of the probability of all allowed ones. */
static bool choose(const float *scores, size_t frames, const uint8_t *allowed, size_t outputs, const beam_model *beam,
                   ctc_best *best) {
  best->ids = malloc((frames + 1) * sizeof *best->ids);
  best->probabilities = malloc((frames + 1) * sizeof *best->probabilities);
  if (!best->ids || !best->probabilities) return false;
  best->frames = frames;
  if (beam && !beam_search(beam, scores, frames, outputs, allowed, best->ids)) return false;
  for (size_t frame = 0; frame < frames; frame++, scores += outputs) {
    int32_t id = beam ? best->ids[frame] : -1;
    for (size_t n = 0; !beam && n < outputs; n++) {
      if (allowed[n] && scores[n] == scores[n] && (id < 0 || scores[n] > scores[id])) id = (int32_t)n;
    }
    double sum = 0;
    for (size_t n = 0; id >= 0 && n < outputs; n++) {
      if (allowed[n] && scores[n] == scores[n]) sum += expf(scores[n] - scores[id]);
    }
    best->ids[frame] = id;
    best->probabilities[frame] = sum > 0 ? (float)(1 / sum) : 0;
  }
  return true;
}

/* Reads the net's output: one batch x frames x outputs, floats. */
static bool read_output(void *output, const uint8_t *allowed, size_t outputs, const beam_model *beam, ctc_best *best,
                        char *reason) {
  void *shape = NULL;
  int type = 0;
  size_t rank = 0;
  int64_t dims[3] = {0};
  float *scores = NULL;
  bool is_read = succeeded(FN(GET_TENSOR_SHAPE, const void *, void **)(output, &shape), reason) &&
                 succeeded(FN(GET_ELEMENT_TYPE, const void *, int *)(shape, &type), reason) &&
                 succeeded(FN(GET_DIMENSIONS_COUNT, const void *, size_t *)(shape, &rank), reason) &&
                 (rank == 3 || fail(reason, "the model's output has not three dimensions")) &&
                 succeeded(FN(GET_DIMENSIONS, const void *, int64_t *, size_t)(shape, dims, 3), reason) &&
                 succeeded(FN(GET_TENSOR_DATA, void *, void **)(output, (void **)&scores), reason);
  if (shape) RELEASE(RELEASE_SHAPE, shape);
  if (!is_read) return false;
  if (type != TYPE_FLOAT || dims[0] != 1 || dims[1] < 0 || dims[2] != (int64_t)outputs) {
    snprintf(reason, ONNX_REASON, "the model's output has %lld x %lld numbers of type %d, not frames x %zu floats",
             (long long)dims[1], (long long)dims[2], type, outputs);
    return false;
  }
  return choose(scores, (size_t)dims[1], allowed, outputs, beam, best) || fail(reason, "there is no memory");
}

/* What a net reads: numbers in `rank` dimensions, and their length in time for a second input. */
typedef struct {
  float *numbers;
  size_t count, rank;
  int64_t dims[3], length;
} net_input;

/* Runs the net and returns one of its outputs, to be released; NULL with a reason. */
static void *run_net(onnx_session *s, const void *ending, net_input *input, size_t wanted, char *reason) {
  typedef status (*make_tensor)(const void *, void *, size_t, const int64_t *, size_t, int, void **);
  typedef status (*run_model)(void *, const void *, const char *const *, const void *const *, size_t,
                              const char *const *, size_t, void **);
  const make_tensor make = (make_tensor)api[CREATE_TENSOR_WITH_DATA];
  const int64_t one = 1;
  void *inputs[MOST_INPUTS] = {NULL}, *output = NULL;
  const char *names[] = {s->output_names[wanted]};
  const bool is_made =
      succeeded(make(memory, input->numbers, input->count * sizeof *input->numbers, input->dims, input->rank,
                     TYPE_FLOAT, &inputs[0]),
                reason) &&
      (s->inputs < 2 ||
       succeeded(make(memory, &input->length, sizeof input->length, &one, 1, TYPE_INT64, &inputs[1]), reason));
  if (is_made)
    succeeded(((run_model)api[RUN])(s->session, ending, (const char *const *)s->input_names,
                                    (const void *const *)inputs, s->inputs, names, 1, &output),
              reason);
  for (size_t n = 0; n < MOST_INPUTS; n++)
    if (inputs[n]) RELEASE(RELEASE_VALUE, inputs[n]);
  return output;
}

/* Gives the output of one net to another one, and returns the first output of that, to be released; NULL with a reason. */
static void *run_head(onnx_session *s, const void *ending, void *input, char *reason) {
  typedef status (*run_model)(void *, const void *, const char *const *, const void *const *, size_t,
                              const char *const *, size_t, void **);
  const void *inputs[] = {input};
  void *output = NULL;
  if (s->inputs != 1) {
    fail(reason, "the second net has not one input");
    return NULL;
  }
  succeeded(((run_model)api[RUN])(s->session, ending, (const char *const *)s->input_names, inputs, 1,
                                  (const char *const *)s->output_names, 1, &output),
            reason);
  return output;
}

bool ctc_run(onnx_session *s, onnx_session *head, void *ending, const float *samples, size_t count,
             enum ctc_input kind, int bins, const uint8_t *allowed, size_t outputs,
             const beam_model *beam, ctc_best *best, char *reason) {
  memset(best, 0, sizeof *best);
  const bool is_mel = kind != CTC_SAMPLES;
  size_t frames = count;
  float *features = is_mel ? ctc_mel(samples, count, kind, bins, &frames) : ctc_normalized(samples, count);
  if (!features) return fail(reason, "there is no memory");
  const int64_t length = (int64_t)frames;
  net_input input = {features, frames * (is_mel ? (size_t)bins : 1), 2, {1, length}, length};
  if (is_mel) input.rank = 3, input.dims[1] = bins, input.dims[2] = length;
  void *output = run_net(s, ending, &input, 0, reason);
  if (output && head) {
    void *scores = run_head(head, ending, output, reason);
    RELEASE(RELEASE_VALUE, output);
    output = scores;
  }
  const bool is_run = output && read_output(output, allowed, outputs, beam, best, reason);
  best->input_frames = frames;
  if (output) RELEASE(RELEASE_VALUE, output);
  free(features);
  if (!is_run) ctc_free_best(best);
  return is_run;
}

void ctc_free_best(ctc_best *best) {
  free(best->ids), free(best->probabilities);
  best->ids = NULL, best->probabilities = NULL;
}

enum { MOST_DIMENSIONS = 4 };

/* Copies an output of one batch: floats in one to three further dimensions, of which all but the last two are 1. */
static bool copy_output(void *output, onnx_numbers *numbers, char *reason) {
  void *shape = NULL;
  int type = 0;
  size_t rank = 0;
  int64_t dims[MOST_DIMENSIONS] = {0};
  float *values = NULL;
  bool is_read = succeeded(FN(GET_TENSOR_SHAPE, const void *, void **)(output, &shape), reason) &&
                 succeeded(FN(GET_ELEMENT_TYPE, const void *, int *)(shape, &type), reason) &&
                 succeeded(FN(GET_DIMENSIONS_COUNT, const void *, size_t *)(shape, &rank), reason) &&
                 ((rank >= 2 && rank <= MOST_DIMENSIONS) || fail(reason, "the model's output has other dimensions")) &&
                 succeeded(FN(GET_DIMENSIONS, const void *, int64_t *, size_t)(shape, dims, rank), reason) &&
                 succeeded(FN(GET_TENSOR_DATA, void *, void **)(output, (void **)&values), reason);
  if (shape) RELEASE(RELEASE_SHAPE, shape);
  if (!is_read) return false;
  int64_t leading = dims[0];
  for (size_t n = 1; n + 2 < rank; n++) leading *= dims[n];
  const int64_t rows = rank > 2 ? dims[rank - 2] : 1, columns = dims[rank - 1];
  if (type != TYPE_FLOAT || leading != 1 || rows < 1 || columns < 1)
    return fail(reason, "the model's output has not the numbers of one batch");
  numbers->rows = (size_t)rows, numbers->columns = (size_t)columns;
  numbers->count = (size_t)(rows * columns);
  numbers->numbers = malloc(numbers->count * sizeof *values);
  if (!numbers->numbers) return fail(reason, "there is no memory");
  memcpy(numbers->numbers, values, numbers->count * sizeof *values);
  return true;
}

bool speaker_run(onnx_session *s, void *ending, const float *samples, size_t count, const speaker_sound *sound,
                 size_t wanted, onnx_numbers *numbers, char *reason) {
  memset(numbers, 0, sizeof *numbers);
  if (wanted >= s->outputs) return fail(reason, "the model has too few outputs");
  const int64_t length = (int64_t)(sound ? speaker_frames(sound, count) : count), bins = sound ? sound->bins : 1;
  if (length < 1) return fail(reason, "the sound is too short");
  float *features = sound ? speaker_features(sound, samples, count) : NULL;
  if (sound && !features) return fail(reason, "there is no memory");
  net_input input = {features ? features : (float *)samples, (size_t)(length * bins), 3, {1, bins, length}, length};
  if (sound && !sound->is_nemo) input.dims[1] = length, input.dims[2] = bins;
  void *output = run_net(s, ending, &input, wanted, reason);
  const bool is_run = output && copy_output(output, numbers, reason);
  if (output) RELEASE(RELEASE_VALUE, output);
  free(features);
  return is_run;
}

/* Copies an output of one batch: 64-bit integers or truth values, as many for each of the tokens. */
static bool copy_labels(void *output, size_t count, int32_t **values, size_t *width, char *reason) {
  void *shape = NULL, *data = NULL;
  int type = 0;
  size_t rank = 0;
  int64_t dims[3] = {0};
  const bool is_read = succeeded(FN(GET_TENSOR_SHAPE, const void *, void **)(output, &shape), reason) &&
                       succeeded(FN(GET_ELEMENT_TYPE, const void *, int *)(shape, &type), reason) &&
                       succeeded(FN(GET_DIMENSIONS_COUNT, const void *, size_t *)(shape, &rank), reason) &&
                       (rank == 2 || rank == 3 || fail(reason, "an output has not two or three dimensions")) &&
                       succeeded(FN(GET_DIMENSIONS, const void *, int64_t *, size_t)(shape, dims, rank), reason) &&
                       succeeded(FN(GET_TENSOR_DATA, void *, void **)(output, &data), reason);
  if (shape) RELEASE(RELEASE_SHAPE, shape);
  if (!is_read) return false;
  const int64_t wide = rank == 3 ? dims[2] : 1;
  if (dims[0] != 1 || dims[1] != (int64_t)count || wide < 1 || wide > 1024)
    return fail(reason, "an output has not the labels of the tokens");
  if (type != TYPE_INT64 && type != TYPE_BOOL)
    return fail(reason, "an output has neither 64-bit integers nor truth values");
  const size_t numbers = count * (size_t)wide;
  int32_t *copy = malloc(numbers * sizeof *copy);
  if (!copy) return fail(reason, "there is no memory");
  for (size_t n = 0; n < numbers; n++) {
    const int64_t value = type == TYPE_INT64 ? ((const int64_t *)data)[n] : ((const uint8_t *)data)[n] != 0;
    /* A label of the caller is a small number. Others are all equally wrong. */
    copy[n] = value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
  }
  *values = copy;
  *width = (size_t)wide;
  return true;
}

bool token_run(onnx_session *s, void *ending, const int32_t *ids, size_t count, token_labels *labels, char *reason) {
  typedef status (*make_tensor)(const void *, void *, size_t, const int64_t *, size_t, int, void **);
  typedef status (*run_model)(void *, const void *, const char *const *, const void *const *, size_t,
                              const char *const *, size_t, void **);
  memset(labels, 0, sizeof *labels);
  if (s->inputs != 1) return fail(reason, "the net has not one input");
  int64_t *wide = malloc(count * sizeof *wide);
  if (!wide) return fail(reason, "there is no memory");
  for (size_t n = 0; n < count; n++) wide[n] = ids[n];
  const int64_t dims[] = {1, (int64_t)count};
  void *input = NULL, *outputs[MOST_OUTPUTS] = {NULL};
  bool is_run =
      succeeded(((make_tensor)api[CREATE_TENSOR_WITH_DATA])(memory, wide, count * sizeof *wide, dims, 2, TYPE_INT64,
                                                            &input),
                reason);
  const void *inputs[] = {input};
  is_run = is_run && succeeded(((run_model)api[RUN])(s->session, ending, (const char *const *)s->input_names, inputs, 1,
                                                     (const char *const *)s->output_names, s->outputs, outputs),
                               reason);
  labels->outputs = s->outputs;
  for (size_t n = 0; is_run && n < s->outputs; n++)
    is_run = copy_labels(outputs[n], count, &labels->values[n], &labels->widths[n], reason);
  for (size_t n = 0; n < MOST_OUTPUTS; n++)
    if (outputs[n]) RELEASE(RELEASE_VALUE, outputs[n]);
  if (input) RELEASE(RELEASE_VALUE, input);
  free(wide);
  return is_run;
}

void token_free_labels(token_labels *labels) {
  for (size_t n = 0; n < ONNX_MOST_OUTPUTS; n++) free(labels->values[n]);
  memset(labels, 0, sizeof *labels);
}
