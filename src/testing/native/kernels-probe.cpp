// Runs the kernels of src/native/whisper/kernels/, compiled into this program, and compares them with sums in double
// precision. ggml's pool of threads is replaced by one of this program.
//
//   kernels-probe [amx | emulate-amx]
//
// With `amx` it asks the kernel for the processor's tiles first, as ggml's libraries do; with `emulate-amx` it needs none.
// Prints a line for each: what is computed, number of threads, and the error as root mean square, relative to that of
// the right result.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "shruti-functions.h"
#include "shruti-kernels.h"

extern "C" void          amx_emulate(void);
extern "C" unsigned long amx_emulated(void);

// What the kernels use of ggml's pool.
struct ggml_threadpool {
    pthread_barrier_t barrier;
    std::atomic<int>  chunk;
};
extern "C" void ggml_barrier(ggml_threadpool * pool) { pthread_barrier_wait(&pool->barrier); }
extern "C" void ggml_threadpool_chunk_set(ggml_threadpool * pool, int value) { pool->chunk = value; }
extern "C" int  ggml_threadpool_chunk_add(ggml_threadpool * pool, int value) { return pool->chunk.fetch_add(value); }

static float next_number() {
    static uint32_t state = 1;
    float           sum = 0;
    for (int i = 0; i < 4; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float) (state >> 8) / (1 << 23) - 1;
    }
    return sum;
}

static double error_of(const std::vector<double> & right, const float * found) {
    double error = 0, size = 0;
    for (size_t i = 0; i < right.size(); i++) {
        error += (found[i] - right[i]) * (found[i] - right[i]);
        size += right[i] * right[i];
    }
    return std::sqrt(error / size);
}

static void report(const char * what, int threads, double error) { printf("%s\t%d\t%.3g\n", what, threads, error); }

static void die(const char * what) {
    fprintf(stderr, "kernels-probe: %s\n", what);
    exit(1);
}

// Reports the error of a result. Ends the program where a bit of it depends on the number of threads; the first is 1.
static void check(const char * what, int threads, const std::vector<double> & right, const ggml_tensor * result) {
    static std::vector<char> of_one;
    const char *             bytes = (const char *) result->data;
    if (threads == 1) of_one.assign(bytes, bytes + ggml_nbytes(result));
    if (memcmp(of_one.data(), bytes, of_one.size()) != 0) die(what);
    report(what, threads, error_of(right, (const float *) result->data));
}

using Compute = std::function<bool(const ggml_compute_params *)>;

// Runs a kernel on threads with no more work memory than it asks for.
static void on_threads(int threads, size_t work_bytes, const Compute & compute) {
    ggml_threadpool pool;
    pthread_barrier_init(&pool.barrier, nullptr, threads);
    char *                   work = (char *) malloc(work_bytes);
    std::vector<std::thread> all;
    std::atomic<int>         refused{0};
    for (int i = 0; i < threads; i++) {
        all.emplace_back([&, i] {
            ggml_compute_params params = {};
            params.ith = i;
            params.nth = threads;
            params.wsize = work_bytes;
            params.wdata = work;
            params.threadpool = &pool;
            if (!compute(&params)) refused++;
        });
    }
    for (auto & thread : all) thread.join();
    free(work);
    pthread_barrier_destroy(&pool.barrier);
    if (refused != 0) die("a kernel does not take what it should");
}

static ggml_context * new_context() {
    ggml_init_params params = {64 << 20, nullptr, false};
    return ggml_init(params);
}

static void set_numbers(ggml_tensor * t, const std::vector<float> & values) {
    if (t->type == GGML_TYPE_F32)
        memcpy(t->data, values.data(), ggml_nbytes(t));
    else
        ggml_quantize_chunk(t->type, values.data(), t->data, 0, ggml_nrows(t), t->ne[0], nullptr);
}

static ggml_tensor * numbers(ggml_context * context, ggml_type type, int64_t n0, int64_t n1, int64_t n2 = 1, int64_t n3 = 1) {
    ggml_tensor *      t = ggml_new_tensor_4d(context, type, n0, n1, n2, n3);
    std::vector<float> values(ggml_nelements(t));
    for (float & x : values) x = next_number();
    set_numbers(t, values);
    return t;
}

static std::vector<float> floats_of(const ggml_tensor * t) {
    std::vector<float> values(ggml_nelements(t));
    if (t->type == GGML_TYPE_F32)
        memcpy(values.data(), t->data, ggml_nbytes(t));
    else
        ggml_get_type_traits(t->type)->to_float(t->data, values.data(), values.size());
    return values;
}

// Gives all rows the same numbers, 1 or -1. The products of two such matrices are positive, so no sum can be larger.
static void set_largest(ggml_tensor * t) {
    std::vector<float> values(ggml_nelements(t));
    for (size_t i = 0; i < values.size(); i++) values[i] = (uint32_t) (i % t->ne[0]) * 2654435761u >> 31 ? 1 : -1;
    set_numbers(t, values);
}

// What all keys have in common adds nothing to the weights.
static void add_to_all(ggml_tensor * t, float more) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        ggml_fp16_t & x = ((ggml_fp16_t *) t->data)[i];
        x = ggml_fp32_to_fp16(ggml_fp16_to_fp32(x) + more);
    }
}

// Gives every second row of f16 keys scores so low that their exponentials are below the range of floats.
static void set_apart(ggml_tensor * q, ggml_tensor * k) {
    for (int64_t i = 0; i < ggml_nrows(q); i++) ((float *) q->data)[i * q->ne[0]] = 16;
    for (int64_t i = 0; i < ggml_nrows(k); i++) ((ggml_fp16_t *) k->data)[i * k->ne[0]] = ggml_fp32_to_fp16(i / k->ne[1] % 2 ? -64 : 0);
}

enum Kind { PLAIN, IN_BYTES, SET_APART };

static void attention(ggml_type type, int width, int tokens, int rows, int heads, int windows, Kind kind = PLAIN) {
    static const char * const names[] = {"", "in bytes ", "set apart "};
    char                      what[99];
    snprintf(what, sizeof what, "attention %s%s %d x %d x %d x %d x %d", names[kind], ggml_type_name(type), width, tokens, rows, heads, windows);
    ggml_context * context = new_context();
    ggml_tensor *  q = numbers(context, GGML_TYPE_F32, width, heads, tokens, windows);
    ggml_tensor *  k = numbers(context, type, width, heads, rows, windows);
    ggml_tensor *  v = numbers(context, type, width, heads, rows, windows);
    if (kind == IN_BYTES) add_to_all(k, 1);
    if (kind == SET_APART) set_apart(q, k);
    const float    scale = 1 / std::sqrt((float) width);
    ggml_tensor *  out = ggml_flash_attn_ext(context, ggml_permute(context, q, 0, 2, 1, 3), ggml_permute(context, k, 0, 2, 1, 3),
                                             ggml_permute(context, v, 0, 2, 1, 3), nullptr, scale, 0, 0);
    out->op_params[SHRUTI_ATTENTION_IN_BYTES] = kind == IN_BYTES;
    const std::vector<float> qs = floats_of(q), ks = floats_of(k), vs = floats_of(v);
    std::vector<double>      right;
    for (int w = 0; w < windows; w++) {
        for (int t = 0; t < tokens; t++) {
            for (int h = 0; h < heads; h++) {
                std::vector<double> weights(rows), sums(width);
                double              largest = -1e300, sum = 0;
                for (int r = 0; r < rows; r++) {
                    double x = 0;
                    for (int d = 0; d < width; d++) x += (double) qs[((w * tokens + t) * heads + h) * width + d] * ks[((w * rows + r) * heads + h) * width + d];
                    weights[r] = x * scale;
                    largest = std::max(largest, weights[r]);
                }
                for (int r = 0; r < rows; r++) {
                    const double x = std::exp(weights[r] - largest);
                    sum += x;
                    for (int d = 0; d < width; d++) sums[d] += x * vs[((w * rows + r) * heads + h) * width + d];
                }
                for (double x : sums) right.push_back(x / sum);
            }
        }
    }
    for (int threads : {1, 3}) {
        memset(out->data, 0xFF, ggml_nbytes(out));
        on_threads(threads, shruti_work_size(threads, out), [&](auto params) { return shruti_flash_attention(params, out); });
        check(what, threads, right, out);
    }
    ggml_free(context);
}

static double silu_of(double x) { return x / (1 + std::exp(-x)); }

static double gelu_of(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))); }

// Multiplies rows by weights, and adds a number for each column unless `bias` is null.
static std::vector<double> linear(const std::vector<double> & x, const ggml_tensor * weights, const ggml_tensor * bias) {
    const std::vector<float> ws = floats_of(weights), bs = bias ? floats_of(bias) : std::vector<float>(weights->ne[1]);
    const size_t             depth = weights->ne[0], columns = weights->ne[1];
    std::vector<double>      out;
    for (size_t row = 0; row < x.size() / depth; row++) {
        for (size_t c = 0; c < columns; c++) {
            double sum = 0;
            for (size_t i = 0; i < depth; i++) sum += x[row * depth + i] * ws[c * depth + i];
            out.push_back(sum + bs[c]);
        }
    }
    return out;
}

enum After { NOTHING, BIAS, BIAS_GELU, BIAS_ADD_IN_PLACE, SILU, BIAS_SILU, SIGMOID, BIAS_RELU };

enum Numbers { ANY, LARGEST };

static void product(ggml_type type, ggml_type input, int depth, int columns, int rows, After after, const char * name = "product",
                    Numbers kind = ANY) {
    static const char * const names[] = {"", " + bias", " + bias, gelu", " + bias + input", ", silu", " + bias, silu", ", sigmoid", " + bias, relu"};
    char                      what[99];
    snprintf(what, sizeof what, "%s %s %s %d x %d x %d%s%s", name, ggml_type_name(type), ggml_type_name(input), depth, columns, rows, names[after],
             kind == LARGEST ? ", largest sums" : "");
    ggml_context * context = new_context();
    ggml_tensor *  w = numbers(context, type, depth, columns);
    ggml_tensor *  x = numbers(context, input, depth, rows);
    if (kind == LARGEST) {
        set_largest(w);
        set_largest(x);
    }
    // Larger sums would have sigmoids of 0 and 1, but where their sign is in doubt.
    for (int64_t i = 0; after == SIGMOID && i < ggml_nelements(x); i++) ((float *) x->data)[i] /= 16;
    ggml_tensor *  bias = numbers(context, GGML_TYPE_F32, columns, 1);
    ggml_tensor *  before = numbers(context, GGML_TYPE_F32, columns, rows);
    ggml_tensor *  node = ggml_mul_mat(context, w, x);
    ggml_tensor *  last = node;
    const bool   is_biased = after != NOTHING && after != SILU && after != SIGMOID;
    const bool   is_silu = after == SILU || after == BIAS_SILU;
    if (is_biased) last = ggml_add(context, last, bias);
    if (after == BIAS_GELU) last = ggml_gelu(context, last);
    if (is_silu) last = ggml_silu(context, last);
    if (after == SIGMOID) last = ggml_sigmoid(context, last);
    if (after == BIAS_RELU) last = ggml_relu(context, last);
    if (after == BIAS_ADD_IN_PLACE) last = ggml_add(context, last, before);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, last);
    const std::vector<float> xs = floats_of(x), added = floats_of(before);
    std::vector<double>      right = linear({xs.begin(), xs.end()}, w, is_biased ? bias : nullptr);
    for (size_t i = 0; i < right.size(); i++) {
        if (after == BIAS_GELU) right[i] = gelu_of(right[i]);
        if (is_silu) right[i] = silu_of(right[i]);
        if (after == SIGMOID) right[i] = 1 / (1 + std::exp(-right[i]));
        if (after == BIAS_RELU) right[i] = std::max(0.0, right[i]);
        if (after == BIAS_ADD_IN_PLACE) right[i] += added[i];
    }
    for (int threads : {1, 3}) {
        memset(last->data, 0xFF, ggml_nbytes(last));
        if (after == BIAS_ADD_IN_PLACE) {
            memcpy(before->data, added.data(), ggml_nbytes(before));
            last->data = before->data;
        }
        int first = 0;
        while (graph->nodes[first] != node) first++;
        on_threads(threads, shruti_work_size(threads, node), [&](auto params) {
            const int done = shruti_fuse(params, graph, first);
            return after == NOTHING ? done == 0 && shruti_product(params, node) : done == graph->n_nodes - first - 1;
        });
        check(what, threads, right, last);
    }
    ggml_free(context);
}

// Both layers of a feed-forward network at once, with the addition of their input.
static void feed_forward(ggml_type type, int depth, int rows) {
    char what[99];
    snprintf(what, sizeof what, "layers %s %d x %d", ggml_type_name(type), depth, rows);
    ggml_context * context = new_context();
    ggml_tensor *  weights[] = {numbers(context, type, depth, 4 * depth), numbers(context, type, 4 * depth, depth)};
    ggml_tensor *  biases[] = {numbers(context, GGML_TYPE_F32, 4 * depth, 1), numbers(context, GGML_TYPE_F32, depth, 1)};
    ggml_tensor *  x = numbers(context, GGML_TYPE_F32, depth, rows);
    ggml_tensor *  first = ggml_mul_mat(context, weights[0], x);
    ggml_tensor *  between = ggml_gelu(context, ggml_add(context, first, biases[0]));
    ggml_tensor *  last = ggml_add(context, ggml_add(context, ggml_mul_mat(context, weights[1], between), biases[1]), x);
    ggml_cgraph *  graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, last);
    const std::vector<float> xs = floats_of(x);
    std::vector<double>      middle = linear({xs.begin(), xs.end()}, weights[0], biases[0]);
    for (double & value : middle) value = gelu_of(value);
    std::vector<double> right = linear(middle, weights[1], biases[1]);
    for (size_t i = 0; i < right.size(); i++) right[i] += xs[i];
    int place = 0;
    while (graph->nodes[place] != first) place++;
    for (int threads : {1, 3}) {
        memset(last->data, 0xFF, ggml_nbytes(last));
        on_threads(threads, shruti_work_size(threads, first), [&](auto params) { return shruti_fuse(params, graph, place) == 5; });
        check(what, threads, right, last);
    }
    ggml_free(context);
}

// Both layers of a feed-forward network whose result is halved before a bias and the input are added to it.
static void feed_forward_silu(ggml_type type, int depth, int rows, bool is_biased) {
    char what[99];
    snprintf(what, sizeof what, "layers %s %d x %d, silu%s", ggml_type_name(type), depth, rows, is_biased ? " + bias" : "");
    ggml_context * context = new_context();
    ggml_tensor *  weights[] = {numbers(context, type, depth, 4 * depth), numbers(context, type, 4 * depth, depth)};
    ggml_tensor *  bias = numbers(context, GGML_TYPE_F32, depth, 1);
    ggml_tensor *  x = numbers(context, GGML_TYPE_F32, depth, rows);
    ggml_tensor *  first = ggml_mul_mat(context, weights[0], x);
    ggml_tensor *  last = ggml_scale(context, ggml_mul_mat(context, weights[1], ggml_silu(context, first)), 0.5f);
    if (is_biased) last = ggml_add(context, last, bias);
    last = ggml_add(context, last, x);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, last);
    const std::vector<float> xs = floats_of(x), bs = floats_of(bias);
    std::vector<double>      middle = linear({xs.begin(), xs.end()}, weights[0], nullptr);
    for (double & value : middle) value = silu_of(value);
    std::vector<double> right = linear(middle, weights[1], nullptr);
    for (size_t i = 0; i < right.size(); i++) right[i] = right[i] / 2 + (is_biased ? bs[i % depth] : 0) + xs[i];
    int place = 0;
    while (graph->nodes[place] != first) place++;
    for (int threads : {1, 3}) {
        memset(last->data, 0xFF, ggml_nbytes(last));
        on_threads(threads, shruti_work_size(threads, first),
                   [&](auto params) { return shruti_fuse(params, graph, place) == (is_biased ? 5 : 4); });
        check(what, threads, right, last);
    }
    ggml_free(context);
}

// A product of several pairs, as the heads of attention have them: rows of a head are not side by side. Two heads of the right side
// share one of the left where `shared` says so.
static void pairs(int depth, int columns, int rows, int heads, int sounds, int shared = 1) {
    char what[99];
    snprintf(what, sizeof what, "pairs f32 %d x %d x %d x %d x %d / %d", depth, columns, rows, heads, sounds, shared);
    ggml_context *           context = new_context();
    ggml_tensor *            w = numbers(context, GGML_TYPE_F32, depth, heads / shared, columns, 1);
    ggml_tensor *            x = numbers(context, GGML_TYPE_F32, depth, heads, rows, sounds);
    const std::vector<float> ws = floats_of(w), xs = floats_of(x);
    ggml_tensor *            node = ggml_mul_mat(context, ggml_permute(context, w, 0, 2, 1, 3), ggml_permute(context, x, 0, 2, 1, 3));
    std::vector<double>      right;
    for (int s = 0; s < sounds; s++)
        for (int h = 0; h < heads; h++)
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < columns; c++) {
                    double sum = 0;
                    for (int i = 0; i < depth; i++)
                        sum += (double) xs[((s * rows + r) * heads + h) * depth + i] * ws[(c * (heads / shared) + h / shared) * depth + i];
                    right.push_back(sum);
                }
    for (int threads : {1, 3}) {
        memset(node->data, 0xFF, ggml_nbytes(node));
        on_threads(threads, shruti_work_size(threads, node), [&](auto params) { return shruti_product(params, node); });
        check(what, threads, right, node);
    }
    ggml_free(context);
}

#include "conformer-cases.h"

static void convolution(int length, int channels, int step) {
    char what[99];
    snprintf(what, sizeof what, "convolution %d x %d / %d", length, channels, step);
    ggml_context *           context = new_context();
    ggml_tensor *            kernel = numbers(context, GGML_TYPE_F16, 3, channels, 4);
    ggml_tensor *            x = numbers(context, GGML_TYPE_F32, length, channels);
    ggml_tensor *            rows = ggml_im2col(context, kernel, x, step, 0, 1, 0, 1, 0, false, GGML_TYPE_F16);
    ggml_cgraph *            graph = ggml_new_graph(context);
    const std::vector<float> xs = floats_of(x);
    const int                count = (int) rows->ne[1];
    std::vector<double>      right;
    for (int r = 0; r < count; r++) {
        for (int c = 0; c < channels; c++) {
            for (int i = 0; i < 3; i++) {
                const int at = r * step + i - 1;
                right.push_back(at < 0 || at >= length ? 0 : ggml_fp16_to_fp32(ggml_fp32_to_fp16(xs[c * length + at])));
            }
        }
    }
    ggml_build_forward_expand(graph, ggml_reshape_2d(context, rows, rows->ne[0], count));
    int first = 0;
    while (graph->nodes[first] != rows) first++;
    for (int threads : {1, 3}) {
        memset(rows->data, 0xFF, ggml_nbytes(rows));
        on_threads(threads, 64, [&](auto params) { return shruti_fuse(params, graph, first) == 1; });
        report(what, threads, error_of(right, floats_of(rows).data()));
    }
    ggml_free(context);
}

static void gelu() {
    ggml_context *           context = new_context();
    ggml_tensor *            x = numbers(context, GGML_TYPE_F32, 37, 9);
    const std::vector<float> edges = {-INFINITY, -1e30f, -100, -10, 0, 10, 100, 1e30f, INFINITY};
    memcpy(x->data, edges.data(), edges.size() * sizeof(float));
    ggml_tensor *            out = ggml_gelu(context, x);
    std::vector<double>      right;
    const std::vector<float> xs = floats_of(x);
    for (int threads : {1, 3}) {
        on_threads(threads, 64, [&](auto params) { return shruti_gelu(params, out); });
        const float * found = (const float *) out->data;
        for (size_t i = 0; i < edges.size(); i++) {
            const float expected = edges[i] <= -10 ? 0 : edges[i];
            // The least number has no limit of x times its share; ggml's table has 0 there.
            if (edges[i] == -INFINITY) continue;
            if (std::fabs(found[i] - expected) > 1e-6f * std::fabs(expected) + 1e-6f) die("gelu at the edges");
        }
        right.clear();
        for (size_t i = edges.size(); i < xs.size(); i++)
            right.push_back(gelu_of(xs[i]));
        report("gelu", threads, error_of(right, found + edges.size()));
    }
    ggml_free(context);
}

static void normalization(int width, int rows) {
    ggml_context * context = new_context();
    ggml_tensor *  x = numbers(context, GGML_TYPE_F32, width, rows);
    ggml_tensor *  factors = numbers(context, GGML_TYPE_F32, width, 1);
    ggml_tensor *  added = numbers(context, GGML_TYPE_F32, width, 1);
    const float    least = 1e-5f;
    for (int i = 0; i < width; i++) ((float *) x->data)[i] += 40;
    ggml_tensor * norm = ggml_norm(context, x, least);
    ggml_tensor * last = ggml_add(context, ggml_mul(context, norm, factors), added);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, last);
    const std::vector<float> xs = floats_of(x), fs = floats_of(factors), as = floats_of(added);
    std::vector<double>      right;
    for (int r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < width; i++) mean += (double) xs[r * width + i] / width;
        for (int i = 0; i < width; i++) variance += (xs[r * width + i] - mean) * (xs[r * width + i] - mean) / width;
        for (int i = 0; i < width; i++) right.push_back((xs[r * width + i] - mean) / std::sqrt(variance + least) * fs[i] + as[i]);
    }
    for (int threads : {1, 3}) {
        memset(last->data, 0xFF, ggml_nbytes(last));
        int first = 0;
        while (graph->nodes[first] != norm) first++;
        on_threads(threads, 64, [&](auto params) { return shruti_fuse(params, graph, first) == 2; });
        report("normalization", threads, error_of(right, (const float *) last->data));
    }
    ggml_free(context);
}

static void mel(const shruti_functions & functions) {
    const int          frames = 37, mels = 5, frequencies = 201, samples = 160 * (frames - 1) + 250;
    std::vector<float> window(400), sound(samples), filters(mels * frequencies), out(mels * frames, 99.0f);
    for (float & x : window) x = 0.5f + 0.1f * next_number();
    for (float & x : sound) x = next_number();
    for (int m = 0; m < mels; m++)
        for (int k = 40 * m; k < 40 * m + 41; k++) filters[m * frequencies + k] = std::fabs(next_number());
    std::fill(filters.begin() + 3 * frequencies, filters.begin() + 4 * frequencies, 0.0f);
    std::vector<double> right(mels * frames);
    for (int f = 0; f < frames; f++) {
        std::vector<double> power(frequencies);
        for (int k = 0; k < frequencies; k++) {
            double re = 0, im = 0;
            for (int j = 0; j < 400; j++) {
                const double x = 160 * f + j < samples ? (double) window[j] * sound[160 * f + j] : 0;
                re += x * std::cos(2 * M_PI * k * j / 400);
                im -= x * std::sin(2 * M_PI * k * j / 400);
            }
            power[k] = re * re + im * im;
        }
        for (int m = 0; m < mels; m++) {
            double sum = 0;
            for (int k = 0; k < frequencies; k++) sum += power[k] * filters[m * frequencies + k];
            right[m * frames + f] = std::log10(std::max(sum, 1e-10));
        }
    }
    const shruti_mel_task task = {window.data(), sound.data(), samples, filters.data(), mels, out.data(), frames};
    functions.mel_frames(&task, 0, 20);
    functions.mel_frames(&task, 20, frames - 20);
    report("mel", 1, error_of(right, out.data()));
    functions.finish_mel(out.data(), (int) out.size(), -3);
    for (double & x : right) x = (std::max(x, -3.0) + 4) / 4;
    report("mel, finished", 1, error_of(right, out.data()));
}

static void probabilities(const shruti_functions & functions) {
    for (int count : {1, 15, 16, 1501, 51865}) {
        std::vector<float> x(count), logarithms(count), found(count);
        for (float & value : x) value = 5 * next_number();
        for (int i = 1; i < count; i += 7) x[i] = -INFINITY;
        x[count - 1] = 20;
        double sum = 0;
        for (float value : x) sum += std::exp((double) value);
        std::vector<double> right;
        for (float value : x) right.push_back(std::exp((double) value) / sum);
        if (functions.largest(x.data(), count) != 20) die("the largest number");
        if (std::fabs(functions.log_sum_exp(x.data(), count) - std::log(sum)) > 1e-5) die("the logarithm of the sum");
        functions.log_softmax(x.data(), count, logarithms.data());
        functions.exponentials(logarithms.data(), count, found.data());
        for (int i = 0; i < count; i++) {
            if (x[i] != -INFINITY) continue;
            if (logarithms[i] != -INFINITY || found[i] != 0) die("a token that is ruled out has a probability");
        }
        report("probabilities", 1, error_of(right, found.data()));
        std::fill(x.begin(), x.end(), -INFINITY);
        if (functions.log_sum_exp(x.data(), count) != -INFINITY) die("the logarithm of no sum");
    }
}

#ifdef __x86_64__
// Asks the kernel for the registers of AMX (arch_prctl(2), ARCH_REQ_XCOMP_PERM). True: they may be used.
static bool may_use_tiles() {
    const long request = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

static const ggml_type kQuantized[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                       GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

// Products with few tokens, and the largest sums.
static void products_of(ggml_type type) {
    const int block = std::max<int>(64, ggml_blck_size(type));
    for (int tokens : {1, 2, 3, 4, 7, 31}) product(type, GGML_TYPE_F32, block * tokens, 30 + tokens, tokens, NOTHING, "tokens");
    for (int tokens : {5, 6, 12, 13}) product(type, GGML_TYPE_F32, tokens == 5 ? 2048 : 512, tokens == 5 ? 101 : 52, tokens, NOTHING, "tokens");
    product(type, GGML_TYPE_F32, 512, 96, 33, NOTHING, "product", LARGEST);
    product(type, GGML_TYPE_F32, 512, 96, 5, NOTHING, "tokens", LARGEST);
}

int main(int argc, char ** argv) {
#ifdef __x86_64__
    const char * tiles = argc > 1 ? argv[1] : "";
    const bool   emulates = strcmp(tiles, "emulate-amx") == 0;
    if (emulates) amx_emulate();
    if (strcmp(tiles, "amx") == 0 && !may_use_tiles()) die("the kernel does not let this program use AMX");
#endif
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        for (int width : {32, 64}) {
            attention(type, width, 1, 1536, 3, 1);
            attention(type, width, 5, 512, 2, 2);
            attention(type, width, 17, 512, 2, 2);
            attention(type, width, 150, 768, 2, 1);
        }
    }
    for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16}) product(type, GGML_TYPE_F32, 768, 96, 70, NOTHING);
    for (ggml_type type : kQuantized) product(type, GGML_TYPE_F32, 768, 96, 70, NOTHING);
    product(GGML_TYPE_F16, GGML_TYPE_F16, 240, 150, 33, NOTHING);
    product(GGML_TYPE_F32, GGML_TYPE_F16, 50, 33, 101, NOTHING);
    product(GGML_TYPE_F16, GGML_TYPE_F32, 384, 300, 150, BIAS);
    product(GGML_TYPE_Q5_0, GGML_TYPE_F32, 1024, 200, 90, BIAS_GELU);
    product(GGML_TYPE_Q8_0, GGML_TYPE_F32, 1280, 128, 64, BIAS_ADD_IN_PLACE);
    convolution(150, 5, 1);
    convolution(131, 7, 2);
    convolution(3, 2, 1);
    gelu();
    const shruti_functions_t functions = (shruti_functions_t) shruti_proc_address("shruti_functions");
    mel(*functions());
    probabilities(*functions());
    products_of(GGML_TYPE_F16);
    for (ggml_type type : kQuantized) products_of(type);
    normalization(512, 1);
    normalization(128, 11);
    attention(GGML_TYPE_F16, 64, 3, 512, 2, 1, SET_APART);
    attention(GGML_TYPE_F16, 64, 40, 512, 2, 1, SET_APART);
    attention(GGML_TYPE_F16, 64, 17, 512, 2, 2, IN_BYTES);
    attention(GGML_TYPE_F16, 64, 101, 1536, 2, 1, IN_BYTES);
    attention(GGML_TYPE_F16, 32, 20, 512, 1, 1, IN_BYTES);
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0}) feed_forward(type, 128, 101);
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) feed_forward(type, 768, 33);
    product(GGML_TYPE_Q8_0, GGML_TYPE_F32, 256, 96, 70, SILU);
    product(GGML_TYPE_F16, GGML_TYPE_F32, 256, 150, 33, BIAS_SILU);
    product(GGML_TYPE_Q5_0, GGML_TYPE_F32, 256, 64, 40, SIGMOID);
    product(GGML_TYPE_F32, GGML_TYPE_F32, 256, 64, 40, BIAS_RELU);
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_0}) feed_forward_silu(type, 128, 101, type != GGML_TYPE_Q8_0);
    pairs(128, 70, 61, 3, 2);
    pairs(256, 33, 101, 4, 2, 2);
    pairs(128, 64, 40, 2, 1);
    conformer_operations();
#ifdef __x86_64__
    if (emulates) printf("emulated\t%lu\n", amx_emulated());
#endif
    return 0;
}
