// Multiplies matrices of every type of weights with one of ggml's libraries for a family of processors, and compares the
// results with sums in double precision over the same weights.
//
//   weights-probe LIBGGML-CPU-….so [emulate-amx]
//
// Prints a line for each: type of weights, buffer (CPU, or a buffer in which the library keeps weights in its own order),
// number of columns, and the root mean square of the error, relative to that of the correct result. Then, for each type that
// the library's kernels multiply by tokens: `tokens`, type, number of columns, how many results have other bits than the
// kernel's product with that column alone, how many have other bits than such a product of whisper.cpp's own code, and the
// largest difference from that one, relative to the root mean square of its results.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "shruti-functions.h"

void          amx_emulate(void);
unsigned long amx_emulated(void);

enum { WIDTH = 512, ROWS = 96, MOST_COLUMNS = 70, THREADS = 2 };

static const enum ggml_type TYPES[] = {
    GGML_TYPE_F16,  GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
    GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
};
// One column is a token of the decoder. 70 columns are two whole blocks of the tiles and a remainder.
static const int COLUMNS[] = {1, 5, 32, 70};
// Rows of products with tokens: several groups of 16, and a remainder.
enum { MOST_TOKENS = 31, TOKEN_ROWS = 89 };

static float weights[ROWS * WIDTH], inputs[MOST_COLUMNS * WIDTH], exact_weights[ROWS * WIDTH];
static float outputs[MOST_COLUMNS * ROWS];
static char  packed[ROWS * WIDTH * sizeof(float)];

static void die(const char *what) {
    fprintf(stderr, "weights-probe: %s\n", what);
    exit(1);
}

// Returns nearly normally distributed numbers, the same in every run.
static float next_number(void) {
    static uint32_t state = 1;
    float           sum = 0;
    for (int i = 0; i < 4; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) / (1 << 23) - 1;
    }
    return sum;
}

static double relative_error(int columns) {
    double error = 0, size = 0;
    for (int column = 0; column < columns; column++) {
        for (int row = 0; row < ROWS; row++) {
            double right = 0;
            for (int i = 0; i < WIDTH; i++)
                right += (double)exact_weights[row * WIDTH + i] * inputs[column * WIDTH + i];
            const double difference = outputs[column * ROWS + row] - right;
            error += difference * difference;
            size += right * right;
        }
    }
    return sqrt(error / size);
}

static struct ggml_context *new_context(void) {
    struct ggml_init_params params = {ggml_tensor_overhead() * 16 + ggml_graph_overhead(), NULL, true};
    struct ggml_context    *context = ggml_init(params);
    if (context == NULL) die("no context");
    return context;
}

// Nothing is printed for a buffer that does not take such weights.
static void probe(ggml_backend_t backend, ggml_backend_buffer_type_t kind, enum ggml_type type, int columns) {
    struct ggml_context  *stored = new_context(), *computed = new_context();
    struct ggml_tensor   *matrix = ggml_new_tensor_2d(stored, type, WIDTH, ROWS);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(stored, kind);
    if (buffer == NULL) die("no buffer");
    struct ggml_tensor *input = ggml_new_tensor_2d(computed, GGML_TYPE_F32, WIDTH, columns);
    struct ggml_tensor *product = ggml_mul_mat(computed, matrix, input);
    if (ggml_backend_dev_supports_op(ggml_backend_get_device(backend), product)) {
        ggml_backend_tensor_set(matrix, packed, 0, ggml_nbytes(matrix));
        struct ggml_cgraph *graph = ggml_new_graph(computed);
        ggml_build_forward_expand(graph, product);
        ggml_backend_buffer_t work = ggml_backend_alloc_ctx_tensors(computed, backend);
        ggml_backend_tensor_set(input, inputs, 0, ggml_nbytes(input));
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) die("not computed");
        ggml_backend_tensor_get(product, outputs, 0, ggml_nbytes(product));
        printf("%s %s %d %.6f\n", ggml_type_name(type), ggml_backend_buft_name(kind), columns, relative_error(columns));
        fflush(stdout);
        ggml_backend_buffer_free(work);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(computed);
    ggml_free(stored);
}

// Multiplies the first rows of the weights by some of the columns.
static void multiply(ggml_backend_t backend, enum ggml_type type, int first, int count, float *out) {
    struct ggml_context *stored = new_context(), *computed = new_context();
    struct ggml_tensor  *matrix = ggml_new_tensor_2d(stored, type, WIDTH, TOKEN_ROWS);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(stored, backend);
    ggml_backend_tensor_set(matrix, packed, 0, ggml_nbytes(matrix));
    struct ggml_tensor *input = ggml_new_tensor_2d(computed, GGML_TYPE_F32, WIDTH, count);
    struct ggml_tensor *product = ggml_mul_mat(computed, matrix, input);
    struct ggml_cgraph *graph = ggml_new_graph(computed);
    ggml_build_forward_expand(graph, product);
    ggml_backend_buffer_t work = ggml_backend_alloc_ctx_tensors(computed, backend);
    ggml_backend_tensor_set(input, inputs + first * WIDTH, 0, ggml_nbytes(input));
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) die("not computed");
    ggml_backend_tensor_get(product, out, 0, ggml_nbytes(product));
    ggml_backend_buffer_free(work);
    ggml_backend_buffer_free(buffer);
    ggml_free(computed);
    ggml_free(stored);
}

static int differing(const float *a, const float *b, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) found += memcmp(&a[i], &b[i], sizeof(float)) != 0;
    return found;
}

static double largest_difference(const float *results, const float *right, int count) {
    double largest = 0, size = 0;
    for (int i = 0; i < count; i++) {
        const double difference = fabs((double)results[i] - right[i]);
        if (isnan(difference)) return difference;
        largest = fmax(largest, difference);
        size += (double)right[i] * right[i];
    }
    return largest / sqrt(size / count);
}

// Compares products with several tokens with those with one, and these with whisper.cpp's own code for one.
static void compare_tokens(ggml_backend_t backend, enum ggml_type type, void (*set_fast)(bool)) {
    static float plain[MOST_TOKENS * TOKEN_ROWS], alone[MOST_TOKENS * TOKEN_ROWS], together[MOST_TOKENS * TOKEN_ROWS];
    set_fast(false);
    for (int token = 0; token < MOST_TOKENS; token++) multiply(backend, type, token, 1, plain + token * TOKEN_ROWS);
    set_fast(true);
    for (int token = 0; token < MOST_TOKENS; token++) multiply(backend, type, token, 1, alone + token * TOKEN_ROWS);
    for (int count = 1; count <= MOST_TOKENS; count++) {
        const int results = count * TOKEN_ROWS;
        multiply(backend, type, 0, count, together);
        printf("tokens %s %d %d %d %.3g\n", ggml_type_name(type), count, differing(alone, together, results),
               differing(plain, together, results), largest_difference(together, plain, results));
    }
}

int main(int argc, char **argv) {
    if (argc < 2) die("the name of a library is missing");
    const int emulates = argc > 2 && strcmp(argv[2], "emulate-amx") == 0;
    if (emulates) amx_emulate();
    ggml_backend_reg_t registry = ggml_backend_load(argv[1]);
    if (registry == NULL) die("the library cannot be used on this processor");
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(registry, 0);
    ggml_backend_t     backend = ggml_backend_dev_init(device, NULL);
    ggml_backend_set_n_threads_t set_threads =
        (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads");
    set_threads(backend, THREADS);
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts");

    void (*set_fast)(bool) = (void (*)(bool))ggml_backend_reg_get_proc_address(registry, "shruti_set_fast");
    const struct shruti_functions *kernels =
        ((shruti_functions_t)ggml_backend_reg_get_proc_address(registry, "shruti_functions"))();

    for (int i = 0; i < ROWS * WIDTH; i++) weights[i] = next_number() * 0.05f;
    for (int i = 0; i < MOST_COLUMNS * WIDTH; i++) inputs[i] = next_number();
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        ggml_quantize_chunk(TYPES[t], weights, packed, 0, ROWS, WIDTH, NULL);
        const struct ggml_type_traits *traits = ggml_get_type_traits(TYPES[t]);
        for (int row = 0; row < ROWS; row++)
            traits->to_float(packed + row * ggml_row_size(TYPES[t], WIDTH), exact_weights + row * WIDTH, WIDTH);
        for (size_t c = 0; c < sizeof COLUMNS / sizeof *COLUMNS; c++) {
            probe(backend, ggml_backend_dev_buffer_type(device), TYPES[t], COLUMNS[c]);
            ggml_backend_buffer_type_t *kinds = extra == NULL ? NULL : extra(device);
            for (; kinds != NULL && *kinds != NULL; kinds++) probe(backend, *kinds, TYPES[t], COLUMNS[c]);
        }
        if (kernels->multiplies) compare_tokens(backend, TYPES[t], set_fast);
    }
    if (emulates) printf("emulated %lu\n", amx_emulated());
    return 0;
}
