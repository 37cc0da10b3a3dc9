#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"
#include "spectrum.h"

/*
 * The interface for JavaScript (src/native/onnx/onnx-addon.ts declares its types). Loading and running happen on threads
 * of the pool, with copies of what the caller gave. Everything else happens on JavaScript's thread.
 */

/* A loaded model. JavaScript and each run hold a reference; the last one to go frees it. */
typedef struct {
  onnx_session *session;
  int references;
} shared_session;

static void release(shared_session *shared) {
  if (--shared->references > 0) return;
  onnx_close_session(shared->session);
  free(shared);
}

static void finalize_session(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  release(data);
}

static napi_value throw_error(napi_env env, const char *message) {
  napi_throw_error(env, NULL, message);
  return NULL;
}

static void reject(napi_env env, napi_deferred deferred, const char *reason) {
  napi_value message, error;
  napi_create_string_utf8(env, reason, NAPI_AUTO_LENGTH, &message);
  napi_create_error(env, NULL, message, &error);
  napi_reject_deferred(env, deferred, error);
}

static void set_number(napi_env env, napi_value object, const char *name, double number) {
  napi_value value;
  napi_create_double(env, number, &value);
  napi_set_named_property(env, object, name, value);
}

/* --- openRuntime(library) --- */

enum { PATH_BYTES = 4096 };

static napi_value open_runtime(napi_env env, napi_callback_info info) {
  size_t count = 1, length = 0;
  napi_value argument, version;
  char path[PATH_BYTES], reason[ONNX_REASON];
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  if (count < 1 || napi_get_value_string_utf8(env, argument, path, sizeof path, &length) != napi_ok)
    return throw_error(env, "openRuntime takes a path");
  if (!onnx_open_runtime(path, reason)) return throw_error(env, reason);
  napi_create_string_utf8(env, onnx_runtime_version(), NAPI_AUTO_LENGTH, &version);
  return version;
}

/* --- open(path or bytes, threads, mapped) --- */

typedef struct {
  napi_async_work work;
  napi_deferred deferred;
  char path[PATH_BYTES];
  /* The content of the file, which `held` keeps; NULL: the path is read. */
  void *bytes;
  size_t length;
  napi_ref held;
  int threads;
  bool is_mapped;
  onnx_session *session;
  char reason[ONNX_REASON];
} open_job;

static void open_execute(napi_env env, void *data) {
  (void)env;
  open_job *job = data;
  job->session = onnx_open_session(job->path, job->bytes, job->length, job->threads, job->is_mapped, job->reason);
}

static void open_complete(napi_env env, napi_status result, void *data) {
  (void)result;
  open_job *job = data;
  shared_session *shared = job->session ? malloc(sizeof *shared) : NULL;
  napi_value external;
  if (shared) {
    *shared = (shared_session){job->session, 1};
    napi_create_external(env, shared, finalize_session, NULL, &external);
    napi_resolve_deferred(env, job->deferred, external);
  } else {
    reject(env, job->deferred, job->reason);
  }
  napi_delete_async_work(env, job->work);
  if (job->held) napi_delete_reference(env, job->held);
  free(job);
}

/* Reads a path, or the bytes of a file. */
static bool read_source(napi_env env, napi_value source, open_job *job) {
  size_t length = 0;
  bool are_bytes = false;
  napi_typedarray_type type;
  if (napi_is_typedarray(env, source, &are_bytes) != napi_ok) return false;
  if (!are_bytes) return napi_get_value_string_utf8(env, source, job->path, sizeof job->path, &length) == napi_ok;
  return napi_get_typedarray_info(env, source, &type, &job->length, &job->bytes, NULL, NULL) == napi_ok &&
         type == napi_uint8_array && job->length > 0 && napi_create_reference(env, source, 1, &job->held) == napi_ok;
}

static napi_value open_session(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value arguments[3], name, promise;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  open_job *job = calloc(1, sizeof *job);
  if (!job) return throw_error(env, "there is no memory");
  if (count < 3 || napi_get_value_int32(env, arguments[1], &job->threads) != napi_ok || job->threads < 1 ||
      napi_get_value_bool(env, arguments[2], &job->is_mapped) != napi_ok || !read_source(env, arguments[0], job)) {
    free(job);
    return throw_error(env, "open takes a path or bytes, a number of threads, and whether weights are mapped");
  }
  napi_create_promise(env, &job->deferred, &promise);
  napi_create_string_utf8(env, "onnx open", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, open_execute, open_complete, job, &job->work);
  napi_queue_async_work(env, job->work);
  return promise;
}

/* --- openNgram(path, texts, ends) --- */

/* An n-gram model with the texts of the tokens that it judges. Held and freed as sessions are. */
typedef struct {
  ngram_model *model;
  char *texts;
  int32_t *ends;
  size_t tokens;
  int references;
} shared_ngram;

static void release_ngram(shared_ngram *shared) {
  if (--shared->references > 0) return;
  ngram_close(shared->model);
  free(shared->texts), free(shared->ends), free(shared);
}

static void finalize_ngram(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  release_ngram(data);
}

static void *copy_of(napi_env env, napi_value value, napi_typedarray_type expected, size_t width, size_t *count);

static napi_value open_ngram(napi_env env, napi_callback_info info) {
  size_t count = 3, length = 0, bytes = 0;
  napi_value arguments[3], external;
  char path[PATH_BYTES], reason[NGRAM_REASON];
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (count < 3 || napi_get_value_string_utf8(env, arguments[0], path, sizeof path, &length) != napi_ok)
    return throw_error(env, "openNgram takes a path, texts and where they end");
  shared_ngram *shared = calloc(1, sizeof *shared);
  if (!shared) return throw_error(env, "there is no memory");
  shared->references = 1;
  shared->texts = copy_of(env, arguments[1], napi_uint8_array, 1, &bytes);
  shared->ends = copy_of(env, arguments[2], napi_int32_array, sizeof(int32_t), &shared->tokens);
  bool are_right = shared->texts && shared->ends;
  for (size_t n = 0; are_right && n < shared->tokens; n++)
    are_right = shared->ends[n] >= (n == 0 ? 0 : shared->ends[n - 1]) && (size_t)shared->ends[n] <= bytes;
  if (!are_right) {
    release_ngram(shared);
    return throw_error(env, "openNgram takes texts and where they end");
  }
  shared->model = ngram_open(path, reason);
  if (!shared->model) {
    release_ngram(shared);
    return throw_error(env, reason);
  }
  napi_create_external(env, shared, finalize_ngram, NULL, &external);
  return external;
}

/* --- runs, and abort(number) --- */

/* A run of one of three kinds. Those of CTC models have `allowed`, those over tokens `ids`. */
typedef struct run_job {
  struct run_job *next;
  napi_async_work work;
  napi_deferred deferred;
  double number;
  shared_session *shared;
  /* The second net of a CTC model; NULL: it has one. */
  shared_session *head;
  /* NULL: the best token of each frame is taken. */
  shared_ngram *ngram;
  double weight, bonus;
  int blank;
  void *ending;
  float *samples;
  uint8_t *allowed;
  size_t count, outputs;
  int input, bins;
  bool is_done;
  ctc_best best;
  bool has_sound;
  speaker_sound sound;
  size_t wanted;
  onnx_numbers numbers;
  int32_t *ids;
  token_labels labels;
  char reason[ONNX_REASON];
} run_job;

/* Runs that have not settled, for `abort`. */
static run_job *running;
static double runs;

static void run_execute(napi_env env, void *data) {
  (void)env;
  run_job *job = data;
  onnx_session *session = job->shared->session;
  if (job->allowed) {
    const shared_ngram *ngram = job->ngram;
    const beam_model beam = {ngram ? ngram->model : NULL, ngram ? ngram->texts : NULL, ngram ? ngram->ends : NULL,
                             job->weight, job->bonus, job->blank};
    job->is_done = ctc_run(session, job->head ? job->head->session : NULL, job->ending, job->samples, job->count,
                           job->input, job->bins, job->allowed, job->outputs, ngram ? &beam : NULL, &job->best,
                           job->reason);
  } else if (job->ids) {
    job->is_done = token_run(session, job->ending, job->ids, job->count, &job->labels, job->reason);
  } else {
    job->is_done = speaker_run(session, job->ending, job->samples, job->count, job->has_sound ? &job->sound : NULL,
                               job->wanted, &job->numbers, job->reason);
  }
}

static void free_job(napi_env env, run_job *job) {
  for (run_job **link = &running; *link; link = &(*link)->next) {
    if (*link != job) continue;
    *link = job->next;
    break;
  }
  if (job->work) napi_delete_async_work(env, job->work);
  if (job->shared) release(job->shared);
  if (job->head) release(job->head);
  if (job->ngram) release_ngram(job->ngram);
  onnx_free_ending(job->ending);
  ctc_free_best(&job->best);
  token_free_labels(&job->labels);
  free(job->numbers.numbers), free(job->samples), free(job->allowed), free(job->ids), free(job);
}

/* Copies numbers into a typed array of JavaScript. */
static napi_value typed_array(napi_env env, napi_typedarray_type type, const void *numbers, size_t count) {
  napi_value buffer, array;
  void *bytes = NULL;
  napi_create_arraybuffer(env, count * 4, &bytes, &buffer);
  if (count > 0) memcpy(bytes, numbers, count * 4);
  napi_create_typedarray(env, type, count, buffer, 0, &array);
  return array;
}

/* Makes a list with the values of each output and their number for a token. */
static napi_value labels_of(napi_env env, const token_labels *labels, size_t count) {
  napi_value list;
  napi_create_array_with_length(env, labels->outputs, &list);
  for (size_t n = 0; n < labels->outputs; n++) {
    napi_value output;
    napi_create_object(env, &output);
    napi_set_named_property(env, output, "values",
                            typed_array(env, napi_int32_array, labels->values[n], count * labels->widths[n]));
    set_number(env, output, "width", (double)labels->widths[n]);
    napi_set_element(env, list, (uint32_t)n, output);
  }
  return list;
}

static napi_value result_of(napi_env env, const run_job *job) {
  napi_value result;
  if (job->ids) return labels_of(env, &job->labels, job->count);
  napi_create_object(env, &result);
  if (job->allowed) {
    const ctc_best *best = &job->best;
    napi_set_named_property(env, result, "ids", typed_array(env, napi_int32_array, best->ids, best->frames));
    napi_set_named_property(env, result, "probabilities",
                            typed_array(env, napi_float32_array, best->probabilities, best->frames));
    set_number(env, result, "inputFrames", (double)best->input_frames);
    return result;
  }
  const onnx_numbers *numbers = &job->numbers;
  napi_set_named_property(env, result, "numbers",
                          typed_array(env, napi_float32_array, numbers->numbers, numbers->count));
  set_number(env, result, "rows", (double)numbers->rows);
  set_number(env, result, "columns", (double)numbers->columns);
  return result;
}

static void run_complete(napi_env env, napi_status result, void *data) {
  (void)result;
  run_job *job = data;
  if (job->is_done)
    napi_resolve_deferred(env, job->deferred, result_of(env, job));
  else
    reject(env, job->deferred, job->reason);
  free_job(env, job);
}

/* Copies a typed array of the expected type; NULL when it is another one or there is no memory. */
static void *copy_of(napi_env env, napi_value value, napi_typedarray_type expected, size_t width, size_t *count) {
  napi_typedarray_type type;
  void *numbers;
  bool is_typed = false;
  if (napi_is_typedarray(env, value, &is_typed) != napi_ok || !is_typed) return NULL;
  if (napi_get_typedarray_info(env, value, &type, count, &numbers, NULL, NULL) != napi_ok) return NULL;
  if (type != expected || *count == 0) return NULL;
  void *copy = malloc(*count * width);
  if (copy) memcpy(copy, numbers, *count * width);
  return copy;
}

/* Reads what all runs take first: the session. */
static bool read_session(napi_env env, napi_value value, run_job *job) {
  void *shared = NULL;
  if (napi_get_value_external(env, value, &shared) != napi_ok) return false;
  job->ending = onnx_new_ending();
  if (!job->ending) return false;
  job->shared = shared;
  job->shared->references++;
  return true;
}

/* Reads what all runs over sound take first: the session and the samples. */
static bool read_subject(napi_env env, const napi_value *arguments, run_job *job) {
  job->samples = copy_of(env, arguments[1], napi_float32_array, sizeof(float), &job->count);
  return job->samples && read_session(env, arguments[0], job);
}

/* Starts a job and returns its promise with its number. */
static napi_value start(napi_env env, run_job *job) {
  napi_value name, promise, started;
  job->next = running;
  running = job;
  job->number = ++runs;
  napi_create_promise(env, &job->deferred, &promise);
  napi_create_object(env, &started);
  napi_set_named_property(env, started, "promise", promise);
  set_number(env, started, "number", job->number);
  napi_create_string_utf8(env, "onnx run", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, run_execute, run_complete, job, &job->work);
  napi_queue_async_work(env, job->work);
  return started;
}

static napi_value abort_run(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  double number = 0;
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  if (count < 1 || napi_get_value_double(env, argument, &number) != napi_ok)
    return throw_error(env, "abort takes the number of a run");
  for (run_job *job = running; job; job = job->next)
    if (job->number == number) onnx_end(job->ending);
  return NULL;
}

/* --- run(session, samples, input, bins, allowed, head, beam) --- */

/* Reads an n-gram model with its weights, or null. */
static bool read_beam(napi_env env, napi_value object, run_job *job) {
  napi_valuetype type;
  napi_value value;
  void *ngram = NULL;
  if (napi_typeof(env, object, &type) != napi_ok) return false;
  if (type == napi_null) return true;
  if (napi_get_named_property(env, object, "ngram", &value) != napi_ok ||
      napi_get_value_external(env, value, &ngram) != napi_ok)
    return false;
  job->ngram = ngram;
  job->ngram->references++;
  return napi_get_named_property(env, object, "weight", &value) == napi_ok &&
         napi_get_value_double(env, value, &job->weight) == napi_ok &&
         napi_get_named_property(env, object, "bonus", &value) == napi_ok &&
         napi_get_value_double(env, value, &job->bonus) == napi_ok &&
         napi_get_named_property(env, object, "blank", &value) == napi_ok &&
         napi_get_value_int32(env, value, &job->blank) == napi_ok && job->blank >= 0 &&
         (size_t)job->blank < job->outputs && job->ngram->tokens == job->outputs;
}

/* Reads a second net, or null. */
static bool read_head(napi_env env, napi_value value, run_job *job) {
  napi_valuetype type;
  void *head = NULL;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_null) return true;
  if (napi_get_value_external(env, value, &head) != napi_ok) return false;
  job->head = head;
  job->head->references++;
  return true;
}

static bool read_run(napi_env env, const napi_value *arguments, run_job *job) {
  if (napi_get_value_int32(env, arguments[2], &job->input) != napi_ok) return false;
  if (napi_get_value_int32(env, arguments[3], &job->bins) != napi_ok) return false;
  if (job->input < CTC_NEMO_MEL || job->input > CTC_NEMO_25_MEL || job->bins < 1 || job->bins > 256) return false;
  job->allowed = copy_of(env, arguments[4], napi_uint8_array, 1, &job->outputs);
  return job->allowed && read_head(env, arguments[5], job) && read_beam(env, arguments[6], job) &&
         read_subject(env, arguments, job) &&
         job->count >= CTC_LEAST_SAMPLES;
}

static napi_value run(napi_env env, napi_callback_info info) {
  size_t count = 7;
  napi_value arguments[7];
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  run_job *job = calloc(1, sizeof *job);
  if (!job) return throw_error(env, "there is no memory");
  if (count == 7 && read_run(env, arguments, job)) return start(env, job);
  free_job(env, job);
  return throw_error(env, "run takes a session, 1600 samples or more, the input, bins, the allowed outputs, a head or null, and a beam or null");
}

/* --- runSpeakers(session, samples, output, sound) --- */

/* Reads a value of an object within bounds. */
static bool read_field(napi_env env, napi_value object, const char *name, int least, int most, int *number) {
  napi_value value;
  return napi_get_named_property(env, object, name, &value) == napi_ok &&
         napi_get_value_int32(env, value, number) == napi_ok && *number >= least && *number <= most;
}

static bool read_sound(napi_env env, napi_value object, speaker_sound *sound) {
  int is_nemo, is_scaled, shape, normalization;
  const bool is_read = read_field(env, object, "nemo", 0, 1, &is_nemo) &&
                       read_field(env, object, "scaled", 0, 1, &is_scaled) &&
                       read_field(env, object, "bins", 1, SPEAKER_MOST_BINS, &sound->bins) &&
                       read_field(env, object, "window", MEL_HALF + 1, MEL_FFT, &sound->window) &&
                       read_field(env, object, "shift", 1, MEL_FFT, &sound->shift) &&
                       read_field(env, object, "shape", SPEAKER_POVEY, SPEAKER_HAMMING, &shape) &&
                       read_field(env, object, "normalization", SPEAKER_AS_IS, SPEAKER_DEVIATION, &normalization);
  if (!is_read) return false;
  sound->is_nemo = is_nemo, sound->is_scaled = is_scaled;
  sound->shape = (enum speaker_window)shape;
  sound->normalization = (enum speaker_normalization)normalization;
  return true;
}

static bool read_speakers(napi_env env, const napi_value *arguments, run_job *job) {
  napi_valuetype type;
  int wanted;
  if (napi_get_value_int32(env, arguments[2], &wanted) != napi_ok || wanted < 0) return false;
  if (napi_typeof(env, arguments[3], &type) != napi_ok) return false;
  job->wanted = (size_t)wanted;
  job->has_sound = type == napi_object;
  if (job->has_sound && !read_sound(env, arguments[3], &job->sound)) return false;
  return read_subject(env, arguments, job);
}

static napi_value run_speakers(napi_env env, napi_callback_info info) {
  size_t count = 4;
  napi_value arguments[4];
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  run_job *job = calloc(1, sizeof *job);
  if (!job) return throw_error(env, "there is no memory");
  if (count == 4 && read_speakers(env, arguments, job)) return start(env, job);
  free_job(env, job);
  return throw_error(env, "runSpeakers takes a session, samples, an output and the sound or null");
}

/* --- runTokens(session, ids) --- */

static napi_value run_tokens(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  run_job *job = calloc(1, sizeof *job);
  if (!job) return throw_error(env, "there is no memory");
  if (count == 2) job->ids = copy_of(env, arguments[1], napi_int32_array, sizeof(int32_t), &job->count);
  if (job->ids && read_session(env, arguments[0], job)) return start(env, job);
  free_job(env, job);
  return throw_error(env, "runTokens takes a session and the numbers of tokens");
}

NAPI_MODULE_INIT() {
  const napi_property_descriptor properties[] = {
      {"openRuntime", NULL, open_runtime, NULL, NULL, NULL, napi_enumerable, NULL},
      {"open", NULL, open_session, NULL, NULL, NULL, napi_enumerable, NULL},
      {"openNgram", NULL, open_ngram, NULL, NULL, NULL, napi_enumerable, NULL},
      {"run", NULL, run, NULL, NULL, NULL, napi_enumerable, NULL},
      {"runSpeakers", NULL, run_speakers, NULL, NULL, NULL, napi_enumerable, NULL},
      {"runTokens", NULL, run_tokens, NULL, NULL, NULL, napi_enumerable, NULL},
      {"abort", NULL, abort_run, NULL, NULL, NULL, napi_enumerable, NULL},
  };
  napi_define_properties(env, exports, sizeof properties / sizeof *properties, properties);
  return exports;
}
