#include "operations.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "processor.h"
#include "layers.h"
#include "products.h"

/* Builds of layers.cpp, the slowest first. */
extern const layer_code layers_plain;
#ifdef __x86_64__
extern const layer_code layers_avx2, layers_avx512;
static const layer_code *const BUILDS[] = {&layers_plain, &layers_avx2, &layers_avx512};
/* Builds of products.cpp. */
extern const product_code products_plain, products_avx2, products_avx_vnni, products_avx512_vnni;
static const product_code *const PRODUCT_BUILDS[] = {&products_plain, &products_avx2, &products_avx_vnni, &products_avx512_vnni};
#else
static const layer_code *const BUILDS[] = {&layers_plain};
extern const product_code products_plain;
static const product_code *const PRODUCT_BUILDS[] = {&products_plain};
#endif
static const layer_code *layers;
static const product_code *products;

/* Positions of functions in onnxruntime's table: runtime.c. */
enum {
  CREATE_STATUS = 0,
  CREATE_DOMAIN = 26,
  ADD_TO_DOMAIN = 27,
  GET_TENSOR_DATA = 51,
  GET_DIMENSIONS_COUNT = 61,
  GET_DIMENSIONS = 62,
  GET_TENSOR_SHAPE = 65,
  GET_INPUT = 90,
  GET_OUTPUT = 91,
  RELEASE_SHAPE = 99,
};
enum { TYPE_FLOAT = 1, TYPE_UINT8 = 2, INVALID_ARGUMENT = 2 };
enum { MOST_DIMENSIONS = 4, MOST_INPUTS = 6, MOST_OUTPUTS = 3, OPERATION_VERSION = 16 };

typedef void (*function)(void);
typedef void *status;
static const function *api;
#define FN(position, ...) ((status(*)(__VA_ARGS__))api[position])

/* OrtCustomOp, as version 16 has it. Functions for what these operations do not have stay NULL. */
typedef struct operation operation;
struct operation {
  uint32_t version;
  void *(*create_1)(const operation *, const void *, const void *);
  const char *(*name)(const operation *);
  const char *(*provider)(const operation *);
  int (*input_type)(const operation *, size_t);
  size_t (*input_count)(const operation *);
  int (*output_type)(const operation *, size_t);
  size_t (*output_count)(const operation *);
  void (*compute_1)(void *, void *);
  void (*destroy)(void *);
  int (*input_characteristic)(const operation *, size_t);
  int (*output_characteristic)(const operation *, size_t);
  int (*input_memory)(const operation *, size_t);
  int (*variadic[4])(const operation *);
  status (*create)(const operation *, const void *, const void *, void **);
  status (*compute)(void *, void *);
  void (*unused[8])(void);
  /* Of this file. */
  const char *called;
  size_t inputs, outputs;
  int input_types[MOST_INPUTS], types[MOST_OUTPUTS];
};

typedef struct {
  void *data;
  float *numbers;
  size_t rank;
  int64_t dims[MOST_DIMENSIONS];
} tensor;

static status refuse(const char *reason) {
  return ((status(*)(int, const char *))api[CREATE_STATUS])(INVALID_ARGUMENT, reason);
}

static status read_input(void *context, size_t index, tensor *read) {
  const void *value = NULL;
  void *shape = NULL;
  status failed = FN(GET_INPUT, const void *, size_t, const void **)(context, index, &value);
  if (!failed) failed = FN(GET_TENSOR_SHAPE, const void *, void **)(value, &shape);
  if (!failed) failed = FN(GET_DIMENSIONS_COUNT, const void *, size_t *)(shape, &read->rank);
  if (!failed && read->rank > MOST_DIMENSIONS) failed = refuse("there are too many dimensions");
  if (!failed) failed = FN(GET_DIMENSIONS, const void *, int64_t *, size_t)(shape, read->dims, read->rank);
  if (!failed) failed = FN(GET_TENSOR_DATA, const void *, void **)(value, &read->data);
  read->numbers = read->data;
  if (shape) ((void (*)(void *))api[RELEASE_SHAPE])(shape);
  return failed;
}

static status make_output(void *context, size_t index, const int64_t *dims, size_t rank, void **data) {
  void *value = NULL;
  status failed = FN(GET_OUTPUT, void *, size_t, const int64_t *, size_t, void **)(context, index, dims, rank, &value);
  if (!failed) failed = FN(GET_TENSOR_DATA, void *, void **)(value, data);
  return failed;
}

static pthread_key_t work_key;
static pthread_once_t work_once = PTHREAD_ONCE_INIT;
static void make_work_key(void) { pthread_key_create(&work_key, free); }

/* Work space of a thread, and how many bytes it has. */
typedef struct {
  size_t bytes;
  _Alignas(64) char space[];
} work_space;

/*
 * Finds work space, which belongs to the thread and is used by its next operation, too. onnxruntime would keep an output that
 * nothing reads until all of the net has run.
 */
static status find_work(size_t bytes, void **found) {
  pthread_once(&work_once, make_work_key);
  work_space *own = pthread_getspecific(work_key);
  if (!own || own->bytes < bytes) {
    free(own);
    own = aligned_alloc(64, (sizeof *own + bytes + 63) / 64 * 64);
    pthread_setspecific(work_key, own);
    if (!own) return refuse("there is no memory");
    own->bytes = bytes;
  }
  *found = own->space;
  return NULL;
}

static bool has_dims(const tensor *of, int64_t a, int64_t b, int64_t c, int64_t d) {
  return of->rank == 4 && of->dims[0] == a && of->dims[1] == b && of->dims[2] == c && of->dims[3] == d;
}

static status compute_relative_softmax(void *kernel, void *context) {
  (void)kernel;
  tensor content, distance, scale;
  void *weights;
  status failed = read_input(context, 0, &content);
  if (!failed) failed = read_input(context, 1, &distance);
  if (!failed) failed = read_input(context, 2, &scale);
  if (failed) return failed;
  const int64_t frames = content.dims[3];
  if (content.rank != 4 || distance.rank != 4 || content.dims[2] != frames || distance.dims[2] != frames ||
      distance.dims[3] != 2 * frames - 1 || distance.dims[0] != content.dims[0] || distance.dims[1] != content.dims[1])
    return refuse("the scores do not fit together");
  failed = make_output(context, 0, content.dims, 4, &weights);
  if (!failed)
    layers->relative_softmax(content.numbers, distance.numbers, scale.numbers[0],
                           (size_t)(content.dims[0] * content.dims[1]), (size_t)frames, weights);
  return failed;
}

static status compute_relative_attention(void *kernel, void *context) {
  (void)kernel;
  tensor contents, keys, distances, positions, values, scale;
  void *result, *work;
  status failed = read_input(context, 0, &contents);
  if (!failed) failed = read_input(context, 1, &keys);
  if (!failed) failed = read_input(context, 2, &distances);
  if (!failed) failed = read_input(context, 3, &positions);
  if (!failed) failed = read_input(context, 4, &values);
  if (!failed) failed = read_input(context, 5, &scale);
  if (failed) return failed;
  if (contents.rank != 4) return refuse("the queries have other dimensions");
  const int64_t *of = contents.dims, batches = of[0], heads = of[1], frames = of[2], width = of[3];
  if (!has_dims(&keys, batches, heads, width, frames) || !has_dims(&distances, batches, heads, frames, width) ||
      !has_dims(&positions, 1, heads, width, 2 * frames - 1) || !has_dims(&values, batches, heads, frames, width) ||
      batches != 1)
    return refuse("the scores do not fit together");
  failed = make_output(context, 0, of, 4, &result);
  if (!failed) failed = find_work(layers->attention_work((size_t)frames) * sizeof(float), &work);
  if (!failed)
    layers->relative_attention(contents.numbers, keys.numbers, distances.numbers, positions.numbers, values.numbers,
                               scale.numbers[0], (size_t)heads, (size_t)frames, (size_t)width, work, result);
  return failed;
}

static status compute_gated_convolution(void *kernel, void *context) {
  (void)kernel;
  tensor gates, kernels, step, bias;
  void *result, *work;
  status failed = read_input(context, 0, &gates);
  if (!failed) failed = read_input(context, 1, &kernels);
  if (!failed) failed = read_input(context, 2, &step);
  if (!failed) failed = read_input(context, 3, &bias);
  if (failed) return failed;
  const int64_t taps = kernels.dims[0], channels = kernels.dims[1];
  /* All batches would be rounded alike. */
  if (gates.rank != 3 || kernels.rank != 2 || gates.dims[0] != 1 || gates.dims[2] != 2 * channels)
    return refuse("the gates are not those of one batch");
  const int64_t dims[] = {1, gates.dims[1], channels};
  failed = make_output(context, 0, dims, 3, &result);
  if (!failed) failed = find_work((size_t)(dims[1] * channels) * sizeof(float), &work);
  if (!failed)
    layers->gated_convolution(gates.numbers, kernels.numbers, step.numbers[0], bias.numbers, (size_t)dims[1],
                            (size_t)channels, (size_t)taps, (size_t)(taps / 2), work, result);
  return failed;
}

static status compute_rounded_swish(void *kernel, void *context) {
  (void)kernel;
  tensor values;
  void *bytes, *step, *zero;
  status failed = read_input(context, 0, &values);
  if (failed) return failed;
  size_t count = 1;
  for (size_t n = 0; n < values.rank; n++) count *= (size_t)values.dims[n];
  failed = make_output(context, 0, values.dims, values.rank, &bytes);
  if (!failed) failed = make_output(context, 1, NULL, 0, &step);
  if (!failed) failed = make_output(context, 2, NULL, 0, &zero);
  if (!failed) layers->rounded_swish(values.numbers, count, bytes, step, zero);
  return failed;
}

static status compute_first_convolution(void *kernel, void *context) {
  (void)kernel;
  tensor values, kernels, step, bias;
  void *rounded, *rounded_step, *zero, *work;
  status failed = read_input(context, 0, &values);
  if (!failed) failed = read_input(context, 1, &kernels);
  if (!failed) failed = read_input(context, 2, &step);
  if (!failed) failed = read_input(context, 3, &bias);
  if (failed) return failed;
  const int64_t frames = values.dims[2], bands = values.dims[3], channels = kernels.dims[1];
  if (values.rank != 4 || values.dims[0] != 1 || values.dims[1] != 1 || kernels.rank != 2)
    return refuse("the bands are not those of one batch");
  const int64_t dims[] = {1, (frames + 1) / 2, (bands + 1) / 2, channels};
  failed = make_output(context, 0, dims, 4, &rounded);
  if (!failed) failed = make_output(context, 1, NULL, 0, &rounded_step);
  if (!failed) failed = make_output(context, 2, NULL, 0, &zero);
  if (!failed) failed = find_work((size_t)((frames + 2) * (bands + 2)) * sizeof(float), &work);
  if (failed) return failed;
  *(uint8_t *)zero = 0;
  layers->first_convolution(values.numbers, kernels.numbers, step.numbers[0], bias.numbers, (size_t)frames,
                            (size_t)bands, (size_t)channels, work, rounded, rounded_step);
  return NULL;
}

static status compute_separate_convolution(void *kernel, void *context) {
  (void)kernel;
  tensor values, value_step, value_zero, kernels, step, bias;
  void *rounded, *rounded_step, *zero;
  status failed = read_input(context, 0, &values);
  if (!failed) failed = read_input(context, 1, &value_step);
  if (!failed) failed = read_input(context, 2, &value_zero);
  if (!failed) failed = read_input(context, 3, &kernels);
  if (!failed) failed = read_input(context, 4, &step);
  if (!failed) failed = read_input(context, 5, &bias);
  if (failed) return failed;
  const int64_t frames = values.dims[1], bands = values.dims[2], channels = kernels.dims[1];
  if (values.rank != 4 || values.dims[0] != 1 || values.dims[3] != channels || kernels.rank != 2)
    return refuse("the bands are not those of one batch");
  const int64_t dims[] = {1, (frames + 1) / 2, (bands + 1) / 2, channels};
  failed = make_output(context, 0, dims, 4, &rounded);
  if (!failed) failed = make_output(context, 1, NULL, 0, &rounded_step);
  if (!failed) failed = make_output(context, 2, NULL, 0, &zero);
  if (!failed)
    layers->separate_convolution(values.data, value_step.numbers[0], *(uint8_t *)value_zero.data, kernels.numbers,
                                 step.numbers[0], bias.numbers, (size_t)frames, (size_t)bands, (size_t)channels,
                                 rounded, rounded_step, zero);
  return failed;
}

/* Computes into the output of index 0, or rounds into those of 0 to 2. */
static status normalize(void *context, bool is_rounded) {
  tensor values, scale, bias, epsilon;
  void *result, *rounded = NULL, *step = NULL, *zero = NULL;
  status failed = read_input(context, 0, &values);
  if (!failed) failed = read_input(context, 1, &scale);
  if (!failed) failed = read_input(context, 2, &bias);
  if (!failed) failed = read_input(context, 3, &epsilon);
  if (failed) return failed;
  const int64_t width = values.rank ? values.dims[values.rank - 1] : 0;
  if (scale.rank != 1 || bias.rank != 1 || scale.dims[0] != width || bias.dims[0] != width)
    return refuse("the rows and factors do not fit together");
  size_t rows = 1;
  for (size_t n = 0; n + 1 < values.rank; n++) rows *= (size_t)values.dims[n];
  if (is_rounded) failed = find_work(rows * (size_t)width * sizeof(float), &result);
  if (!failed) failed = make_output(context, 0, values.dims, values.rank, is_rounded ? &rounded : &result);
  if (!failed && is_rounded) failed = make_output(context, 1, NULL, 0, &step);
  if (!failed && is_rounded) failed = make_output(context, 2, NULL, 0, &zero);
  if (!failed)
    layers->normalized(values.numbers, scale.numbers, bias.numbers, epsilon.numbers[0], rows, (size_t)width, result,
                       rounded, step, zero);
  return failed;
}

static status compute_normalized(void *kernel, void *context) { return (void)kernel, normalize(context, false); }
static status compute_normalized_rounded(void *kernel, void *context) { return (void)kernel, normalize(context, true); }

/* A product that is to be computed, its result but for the columns, and the shape of the result. */
typedef struct {
  product of;
  size_t rank;
  int64_t dims[MOST_DIMENSIONS];
} rounded_product;

static status read_product(void *context, rounded_product *read) {
  tensor rows, step, zero, panels, steps, biases;
  status failed = read_input(context, 0, &rows);
  if (!failed) failed = read_input(context, 1, &step);
  if (!failed) failed = read_input(context, 2, &zero);
  if (!failed) failed = read_input(context, 3, &panels);
  if (!failed) failed = read_input(context, 4, &steps);
  if (!failed) failed = read_input(context, 5, &biases);
  if (failed) return failed;
  if (rows.rank < 1 || panels.rank != 2 || biases.rank != 1) return refuse("the rows and weights have other dimensions");
  const int64_t depth = rows.dims[rows.rank - 1], columns = biases.dims[0];
  if (panels.dims[1] != (int64_t)product_panel_bytes((size_t)depth) ||
      panels.dims[0] != (columns + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS)
    return refuse("the rows and weights do not fit together");
  int64_t count = 1;
  for (size_t n = 0; n + 1 < rows.rank; n++) count *= read->dims[n] = rows.dims[n];
  read->dims[rows.rank - 1] = columns;
  read->rank = rows.rank;
  read->of = (product){
      .rows = rows.data, .step = step.numbers[0], .zero = *(uint8_t *)zero.data, .panels = panels.data,
      .column_steps = steps.numbers, .has_steps = steps.rank == 1 && steps.dims[0] == columns, .biases = biases.numbers,
      .count = (size_t)count, .depth = (size_t)depth, .columns = (size_t)columns,
  };
  return NULL;
}

static status compute_byte_products(void *kernel, void *context) {
  (void)kernel;
  rounded_product read;
  void *result, *work;
  status failed = read_product(context, &read);
  if (!failed) failed = make_output(context, 0, read.dims, read.rank, &result);
  if (!failed) failed = find_work(products->work_bytes(read.of.count, read.of.depth), &work);
  if (!failed) products->multiply(&read.of, work, result, NULL);
  return failed;
}

static status compute_byte_products_swish(void *kernel, void *context) {
  (void)kernel;
  rounded_product read;
  void *bytes, *step, *zero, *work;
  swish_limits limits;
  status failed = read_product(context, &read);
  if (failed) return failed;
  const size_t count = read.of.count * read.of.columns;
  failed = make_output(context, 0, read.dims, read.rank, &bytes);
  if (!failed) failed = make_output(context, 1, NULL, 0, &step);
  if (!failed) failed = make_output(context, 2, NULL, 0, &zero);
  if (!failed) failed = find_work(count * sizeof(float) + products->work_bytes(read.of.count, read.of.depth), &work);
  if (failed) return failed;
  float *values = work;
  products->multiply(&read.of, values + count, values, &limits);
  layers->limited_swish(values, count, limits, bytes, step, zero);
  return NULL;
}

static const char *name_of(const operation *o) { return o->called; }
static const char *provider_of(const operation *o) { return (void)o, "CPUExecutionProvider"; }
static int input_type(const operation *o, size_t index) {
  return o->input_types[index] ? o->input_types[index] : TYPE_FLOAT;
}
static int output_type(const operation *o, size_t index) { return o->types[index]; }
static size_t input_count(const operation *o) { return o->inputs; }
static size_t output_count(const operation *o) { return o->outputs; }
/* Each input and output is required, and in the default memory. */
static int zero_of(const operation *o, size_t index) { return (void)o, (void)index, 0; }
static status create(const operation *o, const void *table, const void *info, void **kernel) {
  (void)table, (void)info;
  *kernel = (void *)o;
  return NULL;
}
static void destroy(void *kernel) { (void)kernel; }

#define COMMON                                                                                                        \
  .version = OPERATION_VERSION, .name = name_of, .provider = provider_of, .input_type = input_type,                   \
  .input_count = input_count, .output_type = output_type, .output_count = output_count, .destroy = destroy,           \
  .input_characteristic = zero_of, .output_characteristic = zero_of, .input_memory = zero_of, .create = create
/* Rounded values come with their step and zero. */
#define ROUNDED {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}
#define ROUNDED_AND_PANELS {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8, TYPE_UINT8}
static const operation OPERATIONS[] = {
    {COMMON, .compute = compute_relative_softmax, .called = "RelativeSoftmax", .inputs = 3, .outputs = 1,
     .types = {TYPE_FLOAT}},
    {COMMON, .compute = compute_relative_attention, .called = "RelativeAttention", .inputs = 6, .outputs = 1,
     .types = {TYPE_FLOAT}},
    {COMMON, .compute = compute_gated_convolution, .called = "GatedConvolution", .inputs = 4, .outputs = 1,
     .types = {TYPE_FLOAT}},
    {COMMON, .compute = compute_rounded_swish, .called = "RoundedSwish", .inputs = 1, .outputs = 3,
     .types = {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}},
    {COMMON, .compute = compute_first_convolution, .called = "FirstConvolution", .inputs = 4, .outputs = 3,
     .types = {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}},
    {COMMON, .compute = compute_separate_convolution, .called = "SeparateConvolution", .inputs = 6, .outputs = 3,
     .input_types = ROUNDED, .types = {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}},
    {COMMON, .compute = compute_normalized, .called = "Normalized", .inputs = 4, .outputs = 1, .types = {TYPE_FLOAT}},
    {COMMON, .compute = compute_normalized_rounded, .called = "NormalizedRounded", .inputs = 4, .outputs = 3,
     .types = {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}},
    {COMMON, .compute = compute_byte_products, .called = "ByteProducts", .inputs = 6, .outputs = 1,
     .input_types = ROUNDED_AND_PANELS, .types = {TYPE_FLOAT}},
    {COMMON, .compute = compute_byte_products_swish, .called = "ByteProductsSwish", .inputs = 6, .outputs = 3,
     .input_types = ROUNDED_AND_PANELS, .types = {TYPE_UINT8, TYPE_FLOAT, TYPE_UINT8}},
};

void *onnx_make_operations(const void *table, void **domain) {
  api = table;
  layers = BUILDS[best_for_processor()];
  products = PRODUCT_BUILDS[best_for_products()];
  status failed = FN(CREATE_DOMAIN, const char *, void **)("shruti", domain);
  for (size_t n = 0; !failed && n < sizeof OPERATIONS / sizeof *OPERATIONS; n++)
    failed = FN(ADD_TO_DOMAIN, void *, const void *)(*domain, &OPERATIONS[n]);
  return failed;
}
