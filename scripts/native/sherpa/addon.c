// The part of sherpa-onnx that Shruti uses, as a Node-API addon over its C interface. The published addon needs a newer
// glibc and C++ run time than its own libraries do.
//
//   open(segmentation path, embedding path, threads, seconds on, seconds off)   a handle, or null for unusable weights
//   sampleRate(handle)                                                          in Hz
//   process(handle, samples, clusters, threshold)                               [{ start, end, speaker }], in seconds
#include <node_api.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The C interface of sherpa-onnx 1.13.8 (sherpa-onnx/c-api/c-api.h); its npm package has no header.
typedef struct {
  struct {
    struct {
      const char *model;
      float window_shift_ratio;
    } pyannote;
    int32_t threads, debug;
    const char *provider;
  } segmentation;
  struct {
    const char *model;
    int32_t threads, debug;
    const char *provider;
  } embedding;
  struct {
    int32_t clusters;
    float threshold;
    // 0: its default.
    int32_t further;
  } clustering;
  float seconds_on, seconds_off;
} Config;
typedef struct {
  float start, end;
  int32_t speaker;
  float confidence;
} Segment;

// Of the published library, whose own addon reads and writes these places.
_Static_assert(sizeof(Config) == 80 && offsetof(Config, seconds_on) == 68 && sizeof(Segment) == 16, "another layout");
typedef struct Diarization Diarization;
typedef struct Result Result;
const Diarization *SherpaOnnxCreateOfflineSpeakerDiarization(const Config *);
void SherpaOnnxDestroyOfflineSpeakerDiarization(const Diarization *);
int32_t SherpaOnnxOfflineSpeakerDiarizationGetSampleRate(const Diarization *);
// Reads the clustering alone.
void SherpaOnnxOfflineSpeakerDiarizationSetConfig(const Diarization *, const Config *);
const Result *SherpaOnnxOfflineSpeakerDiarizationProcess(const Diarization *, const float *, int32_t);
int32_t SherpaOnnxOfflineSpeakerDiarizationResultGetNumSegments(const Result *);
const Segment *SherpaOnnxOfflineSpeakerDiarizationResultSortByStartTime(const Result *);
void SherpaOnnxOfflineSpeakerDiarizationDestroySegment(const Segment *);
void SherpaOnnxOfflineSpeakerDiarizationDestroyResult(const Result *);

enum { MOST_ARGUMENTS = 5 };

// sherpa-onnx's default: the next window begins after this part of a window.
#define WINDOW_SHIFT_RATIO 0.1f

// Returns from the calling function after a failure, with an exception for JavaScript.
#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    if ((call) != napi_ok) return fail(env, "wrong arguments");                                                        \
  } while (0)

static napi_value fail(napi_env env, const char *message) {
  bool is_pending = false;
  napi_is_exception_pending(env, &is_pending);
  if (!is_pending) napi_throw_error(env, NULL, message);
  return NULL;
}

static napi_status read_arguments(napi_env env, napi_callback_info info, size_t wanted, napi_value *arguments) {
  size_t count = MOST_ARGUMENTS;
  napi_status status = napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  return status == napi_ok && count < wanted ? napi_invalid_arg : status;
}

static napi_status read_float(napi_env env, napi_value value, float *number) {
  double wide = 0;
  napi_status status = napi_get_value_double(env, value, &wide);
  *number = (float)wide;
  return status;
}

// Returns a copy, which the caller frees, or NULL when the value is not a string.
static char *read_string(napi_env env, napi_value value) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) return NULL;
  char *text = malloc(length + 1);
  if (text != NULL) napi_get_value_string_utf8(env, value, text, length + 1, &length);
  return text;
}

static void destroy(napi_env env, void *diarization, void *hint) {
  (void)env;
  (void)hint;
  SherpaOnnxDestroyOfflineSpeakerDiarization(diarization);
}

static napi_value open_diarization(napi_env env, napi_callback_info info) {
  napi_value arguments[MOST_ARGUMENTS], handle = NULL;
  int32_t threads = 1;
  Config config;
  memset(&config, 0, sizeof config);
  CHECK(read_arguments(env, info, 5, arguments));
  CHECK(napi_get_value_int32(env, arguments[2], &threads));
  CHECK(read_float(env, arguments[3], &config.seconds_on));
  CHECK(read_float(env, arguments[4], &config.seconds_off));
  char *segmentation = read_string(env, arguments[0]), *embedding = read_string(env, arguments[1]);
  const Diarization *diarization = NULL;
  if (segmentation != NULL && embedding != NULL) {
    config.segmentation.pyannote.model = segmentation;
    config.segmentation.pyannote.window_shift_ratio = WINDOW_SHIFT_RATIO;
    config.embedding.model = embedding;
    config.segmentation.threads = config.embedding.threads = threads;
    config.segmentation.provider = config.embedding.provider = "cpu";
    config.clustering.clusters = -1;
    config.clustering.threshold = 0.5f;
    diarization = SherpaOnnxCreateOfflineSpeakerDiarization(&config);
  }
  bool is_wrong = segmentation == NULL || embedding == NULL;
  free(segmentation);
  free(embedding);
  if (is_wrong) return fail(env, "wrong arguments");
  if (diarization == NULL) {
    CHECK(napi_get_null(env, &handle));
    return handle;
  }
  if (napi_create_external(env, (void *)diarization, destroy, NULL, &handle) != napi_ok) {
    destroy(env, (void *)diarization, NULL);
    return fail(env, "no handle could be made");
  }
  return handle;
}

static napi_value sample_rate(napi_env env, napi_callback_info info) {
  napi_value arguments[MOST_ARGUMENTS], rate = NULL;
  void *diarization = NULL;
  CHECK(read_arguments(env, info, 1, arguments));
  CHECK(napi_get_value_external(env, arguments[0], &diarization));
  CHECK(napi_create_int32(env, SherpaOnnxOfflineSpeakerDiarizationGetSampleRate(diarization), &rate));
  return rate;
}

static napi_status set_number(napi_env env, napi_value object, const char *name, double number) {
  napi_value value = NULL;
  napi_status status = napi_create_double(env, number, &value);
  return status == napi_ok ? napi_set_named_property(env, object, name, value) : status;
}

static napi_value segments_of(napi_env env, const Segment *segments, int32_t count) {
  napi_value list = NULL;
  CHECK(napi_create_array_with_length(env, (size_t)count, &list));
  for (int32_t i = 0; i < count; i++) {
    napi_value object = NULL;
    CHECK(napi_create_object(env, &object));
    CHECK(set_number(env, object, "start", segments[i].start));
    CHECK(set_number(env, object, "end", segments[i].end));
    CHECK(set_number(env, object, "speaker", segments[i].speaker));
    CHECK(napi_set_element(env, list, (uint32_t)i, object));
  }
  return list;
}

static napi_value process_samples(napi_env env, napi_callback_info info) {
  napi_value arguments[MOST_ARGUMENTS];
  void *diarization = NULL, *samples = NULL;
  napi_typedarray_type type;
  size_t count = 0;
  Config config;
  memset(&config, 0, sizeof config);
  CHECK(read_arguments(env, info, 4, arguments));
  CHECK(napi_get_value_external(env, arguments[0], &diarization));
  CHECK(napi_get_typedarray_info(env, arguments[1], &type, &count, &samples, NULL, NULL));
  if (type != napi_float32_array || count > INT32_MAX) return fail(env, "wrong arguments");
  CHECK(napi_get_value_int32(env, arguments[2], &config.clustering.clusters));
  CHECK(read_float(env, arguments[3], &config.clustering.threshold));
  SherpaOnnxOfflineSpeakerDiarizationSetConfig(diarization, &config);
  const Result *result = SherpaOnnxOfflineSpeakerDiarizationProcess(diarization, samples, (int32_t)count);
  if (result == NULL) return fail(env, "sherpa-onnx gave no result");
  int32_t found = SherpaOnnxOfflineSpeakerDiarizationResultGetNumSegments(result);
  // Without segments the library has no list to sort.
  const Segment *segments = found > 0 ? SherpaOnnxOfflineSpeakerDiarizationResultSortByStartTime(result) : NULL;
  napi_value list = segments_of(env, segments, segments == NULL ? 0 : found);
  if (segments != NULL) SherpaOnnxOfflineSpeakerDiarizationDestroySegment(segments);
  SherpaOnnxOfflineSpeakerDiarizationDestroyResult(result);
  return list;
}

NAPI_MODULE_INIT() {
  const napi_property_descriptor functions[] = {
      {"open", NULL, open_diarization, NULL, NULL, NULL, napi_enumerable, NULL},
      {"sampleRate", NULL, sample_rate, NULL, NULL, NULL, napi_enumerable, NULL},
      {"process", NULL, process_samples, NULL, NULL, NULL, napi_enumerable, NULL},
  };
  CHECK(napi_define_properties(env, exports, sizeof functions / sizeof *functions, functions));
  return exports;
}
