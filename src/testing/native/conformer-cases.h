// The operations of FastConformers for kernels-probe.cpp, which has what they are written with. Sounds have `counts` frames each, of
// as many as the longest has.
#include "conformer-functions.h"

using Counts = std::vector<int>;

static int longest_of(const Counts & counts) {
    int longest = 0;
    for (int count : counts) longest = std::max(longest, count);
    return longest;
}

static ggml_tensor * tensor_of(ggml_context * context, const Counts & counts) {
    ggml_tensor * t = ggml_new_tensor_1d(context, GGML_TYPE_I32, counts.size());
    std::copy(counts.begin(), counts.end(), (int32_t *) t->data);
    return t;
}

// Computes an operation on one thread and on several, with `bytes` of work memory for each, which is the last input.
static void check_operation(const char * what, shruti_operation operation, ggml_context * context, std::vector<ggml_tensor *> inputs, size_t bytes,
                            const std::vector<double> & right, int64_t n0, int64_t n1, int64_t n2 = 1, int64_t n3 = 1) {
    for (int threads : {1, 3}) {
        std::vector<ggml_tensor *> all = inputs;
        ggml_tensor                memory = {};
        // Of the very size, so that the checks of addresses find what is behind it.
        std::vector<char> work(bytes * threads);
        memory.data = work.data();
        if (bytes > 0) all.push_back(&memory);
        ggml_tensor * out = ggml_custom_4d(context, GGML_TYPE_F32, n0, n1, n2, n3, all.data(), (int) all.size(), operation, GGML_N_TASKS_MAX, nullptr);
        memset(out->data, 0xFF, ggml_nbytes(out));
        on_threads(threads, 64, [&](auto params) {
            operation(out, params->ith, params->nth, nullptr);
            return true;
        });
        check(what, threads, right, out);
    }
}

static void relative_attention(const shruti_conformer_functions & functions, int depth, int heads, const Counts & counts, float size = 1) {
    const int    frames = longest_of(counts), width = depth * heads, sounds = (int) counts.size();
    const size_t bytes = functions.attention_bytes(depth, frames);
    if (bytes == 0) return;
    char what[99];
    snprintf(what, sizeof what, "relative %d x %d x %d x %d, %g", depth, heads, frames, sounds, size);
    ggml_context * context = new_context();
    const int64_t  rows = (int64_t) frames * sounds;
    ggml_tensor *  q = numbers(context, GGML_TYPE_F32, width, rows), *k = numbers(context, GGML_TYPE_F32, width, rows);
    ggml_tensor *  v = numbers(context, GGML_TYPE_F32, width, rows), *positions = numbers(context, GGML_TYPE_F32, width, 2 * frames - 1);
    ggml_tensor *  u = numbers(context, GGML_TYPE_F32, depth, heads), *w = numbers(context, GGML_TYPE_F32, depth, heads);
    for (int64_t i = 0; i < width * rows; i++) ((float *) q->data)[i] *= size;
    const std::vector<float> qs = floats_of(q), ks = floats_of(k), vs = floats_of(v), ps = floats_of(positions), us = floats_of(u), ws = floats_of(w);
    std::vector<double>      right(width * rows);
    for (int s = 0; s < sounds; s++)
        for (int t = 0; t < counts[s]; t++)
            for (int h = 0; h < heads; h++) {
                std::vector<double> scores(counts[s]);
                double              largest = -1e300, sum = 0;
                for (int r = 0; r < counts[s]; r++) {
                    for (int d = 0; d < depth; d++) {
                        const double query = qs[(s * frames + t) * width + h * depth + d];
                        scores[r] += (query + us[h * depth + d]) * ks[(s * frames + r) * width + h * depth + d];
                        scores[r] += (query + ws[h * depth + d]) * ps[(frames - 1 - t + r) * width + h * depth + d];
                    }
                    scores[r] /= std::sqrt((double) depth);
                    largest = std::max(largest, scores[r]);
                }
                for (double & score : scores) sum += score = std::exp(score - largest);
                for (int r = 0; r < counts[s]; r++)
                    for (int d = 0; d < depth; d++)
                        right[(s * frames + t) * width + h * depth + d] += scores[r] / sum * vs[(s * frames + r) * width + h * depth + d];
            }
    check_operation(what, functions.attention, context, {q, k, v, positions, u, w, tensor_of(context, counts)}, bytes, right, width, rows);
    ggml_free(context);
}

static void gated_convolution(const shruti_conformer_functions & functions, int width, int taps, const Counts & counts) {
    const int frames = longest_of(counts), sounds = (int) counts.size();
    char      what[99];
    snprintf(what, sizeof what, "gated %d x %d x %d x %d", width, taps, frames, sounds);
    if (!functions.takes_gated_convolution(width, taps)) die(what);
    ggml_context *           context = new_context();
    ggml_tensor *            x = numbers(context, GGML_TYPE_F32, 2 * width, frames * sounds);
    ggml_tensor *            kernel = numbers(context, GGML_TYPE_F32, taps, width), *bias = numbers(context, GGML_TYPE_F32, width, 1);
    const std::vector<float> xs = floats_of(x), ks = floats_of(kernel), bs = floats_of(bias);
    std::vector<double>      right;
    for (int s = 0; s < sounds; s++)
        for (int t = 0; t < frames; t++)
            for (int c = 0; c < width; c++) {
                double sum = bs[c];
                for (int k = 0; k < taps; k++) {
                    const int at = t + k - taps / 2;
                    if (at < 0 || at >= counts[s]) continue;
                    const float * row = &xs[(size_t) (s * frames + at) * 2 * width];
                    sum += ks[c * taps + k] * row[c] / (1 + std::exp(-(double) row[width + c]));
                }
                right.push_back(silu_of(sum));
            }
    check_operation(what, functions.gated_convolution, context, {x, kernel, bias, tensor_of(context, counts)}, 0, right, width, frames * sounds);
    ggml_free(context);
}

// `counts`: of the features.
static void halving_convolutions(const shruti_conformer_functions & functions, int bands, int channels, const Counts & counts) {
    const auto   half = [](int count) { return (count - 1) / 2 + 1; };
    const int    frames = longest_of(counts), sounds = (int) counts.size(), wide = half(bands), narrow = half(wide), many = half(frames), few = half(many);
    const size_t bytes = functions.halving_bytes(bands, channels);
    char         what[99];
    snprintf(what, sizeof what, "halving %d x %d x %d x %d", bands, channels, frames, sounds);
    if (bytes == 0) die(what);
    ggml_context * context = new_context();
    ggml_tensor *  x = numbers(context, GGML_TYPE_F32, bands, frames, 1, sounds);
    ggml_tensor *  kernels[] = {numbers(context, GGML_TYPE_F32, 3, 3, 1, channels), numbers(context, GGML_TYPE_F32, 3, 3, 1, channels)};
    ggml_tensor *  biases[] = {numbers(context, GGML_TYPE_F32, channels, 1), numbers(context, GGML_TYPE_F32, channels, 1)};
    Counts         halves;
    for (int s = 0; s < sounds; s++) {
        halves.push_back(half(counts[s]));
        float * rest = (float *) x->data + (s * frames + counts[s]) * bands;
        std::fill(rest, rest + (frames - counts[s]) * bands, 0.0f);
    }
    const std::vector<float> xs = floats_of(x), k1 = floats_of(kernels[0]), k2 = floats_of(kernels[1]), b1 = floats_of(biases[0]), b2 = floats_of(biases[1]);
    std::vector<double>      first(sounds * many * wide * channels), right;
    for (int s = 0; s < sounds; s++)
        for (int t = 0; t < halves[s]; t++)
            for (int b = 0; b < wide; b++)
                for (int c = 0; c < channels; c++) {
                    double sum = b1[c];
                    for (int k = 0; k < 9; k++) {
                        const int frame = 2 * t - 1 + k / 3, band = 2 * b - 1 + k % 3;
                        if (frame >= 0 && frame < frames && band >= 0 && band < bands) sum += (double) k1[c * 9 + k] * xs[(s * frames + frame) * bands + band];
                    }
                    first[((s * many + t) * wide + b) * channels + c] = std::max(0.0, sum);
                }
    for (int s = 0; s < sounds; s++)
        for (int t = 0; t < few; t++)
            for (int b = 0; b < narrow; b++)
                for (int c = 0; c < channels; c++) {
                    double sum = b2[c];
                    for (int k = 0; k < 9; k++) {
                        const int row = 2 * t - 1 + k / 3, place = 2 * b - 1 + k % 3;
                        if (row >= 0 && row < many && place >= 0 && place < wide) sum += k2[c * 9 + k] * first[((s * many + row) * wide + place) * channels + c];
                    }
                    right.push_back(sum);
                }
    check_operation(what, functions.halving_convolutions, context, {x, kernels[0], biases[0], kernels[1], biases[1], tensor_of(context, halves)}, bytes,
                    right, channels, narrow, few, sounds);
    ggml_free(context);
}

static void conformer_operations() {
    const auto   get = (shruti_conformer_functions_t) shruti_proc_address("shruti_conformer_functions");
    const auto & functions = *get();
    relative_attention(functions, 128, 2, {70});
    relative_attention(functions, 64, 3, {33, 1, 20});
    relative_attention(functions, 24, 2, {131, 64});
    relative_attention(functions, 16, 1, {1});
    relative_attention(functions, 80, 2, {50}, 8);
    gated_convolution(functions, 96, 9, {70});
    gated_convolution(functions, 64, 31, {5, 40, 33});
    gated_convolution(functions, 16, 1, {3});
    halving_convolutions(functions, 80, 16, {41});
    halving_convolutions(functions, 17, 48, {3, 22, 1});
}
