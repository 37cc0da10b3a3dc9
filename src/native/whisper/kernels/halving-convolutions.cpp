// The first two convolutions of a FastConformer, whose frames are the many ones of the features: rows of the first are computed when
// the second needs them, and stay in the second cache. Channels are side by side.
#include "conformer.h"
#include "vectors.h"

#include "ggml.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kTaps = 9, kSide = 3;

int64_t halved(int64_t count) { return (count - 1) / 2 + 1; }

// Work memory: both kernels with channels side by side, and three rows of the first convolution with a place before and behind.
struct Work {
    float *first, *second, *rows[kSide];
    Work(float * memory, int64_t bands, int64_t channels) : first(memory), second(memory + kTaps * channels) {
        for (int64_t n = 0; n < kSide; n++) rows[n] = second + kTaps * channels + n * row_floats(bands, channels);
    }
    static int64_t row_floats(int64_t bands, int64_t channels) { return (halved(bands) + 2) * channels; }
};

void transpose_taps(const ggml_tensor * kernel, int64_t channels, float * out) {
    for (int64_t k = 0; k < kTaps; k++)
        for (int64_t c = 0; c < channels; c++) out[k * channels + c] = ((const float *) kernel->data)[c * kTaps + k];
}

// The features of a sound and what is computed of them.
struct Sound {
    const float * features;
    int64_t       bands, frames, channels;
    int64_t       known;  // rows of the first convolution; those that follow count as 0
    const float * first_bias;
    const float * second_bias;

    float feature(int64_t frame, int64_t band) const {
        return frame < 0 || frame >= frames || band < 0 || band >= bands ? 0.0f : features[frame * bands + band];
    }
};

// Computes a row of the first convolution.
void first_row(const Sound & sound, int64_t row, const float * taps, float * out) {
    const int64_t channels = sound.channels, places = halved(sound.bands);
    if (row < 0 || row >= sound.known) {
        std::fill_n(out, (places + 2) * channels, 0.0f);
        return;
    }
    std::fill_n(out, channels, 0.0f);
    std::fill_n(out + (places + 1) * channels, channels, 0.0f);
    for (int64_t place = 0; place < places; place++) {
        Vec x[kTaps];
        for (int64_t k = 0; k < kTaps; k++) x[k] = fill(sound.feature(2 * row - 1 + k / kSide, 2 * place - 1 + k % kSide));
        float * to = out + (place + 1) * channels;
        for (int64_t c = 0; c < channels; c += kLanes) {
            Vec sum = load(sound.first_bias + c);
            SHRUTI_UNROLL_MANY
            for (int64_t k = 0; k < kTaps; k++) sum = fma(x[k], load(taps + k * channels + c), sum);
            store(to + c, max(sum, zero()));
        }
    }
}

// Computes a row of the second convolution of three of the first one.
void second_row(const Sound & sound, const float * const * rows, const float * taps, float * out) {
    const int64_t channels = sound.channels, places = halved(halved(sound.bands));
    for (int64_t place = 0; place < places; place++)
        for (int64_t c = 0; c < channels; c += kLanes) {
            Vec sum = load(sound.second_bias + c);
            SHRUTI_UNROLL_MANY
            for (int64_t k = 0; k < kTaps; k++)
                sum = fma(load(rows[k / kSide] + (2 * place + k % kSide) * channels + c), load(taps + k * channels + c), sum);
            store(out + place * channels + c, sum);
        }
}

}  // namespace

size_t halving_bytes(int64_t bands, int64_t channels) {
    return channels % kLanes == 0 ? (2 * kTaps * channels + kSide * Work::row_floats(bands, channels)) * sizeof(float) : 0;
}

void halving_convolutions(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * features = dst->src[0];
    const int64_t       channels = dst->ne[0], frames = dst->ne[2], sounds = dst->ne[3], bands = features->ne[0];
    const Work          work((float *) ((char *) dst->src[6]->data + ith * halving_bytes(bands, channels)), bands, channels);
    transpose_taps(dst->src[1], channels, work.first);
    transpose_taps(dst->src[3], channels, work.second);
    const int64_t all = frames * sounds, end = all * (ith + 1) / nth;
    int64_t       next = -1;  // the row of the first convolution that is computed next, of the same sound
    for (int64_t n = all * ith / nth; n < end; n++) {
        const int64_t number = n / frames, row = n % frames;
        const Sound   sound = {(const float *) ((const char *) features->data + number * features->nb[3]),
                               bands,
                               features->ne[1],
                               channels,
                               ((const int32_t *) dst->src[5]->data)[number],
                               (const float *) dst->src[2]->data,
                               (const float *) dst->src[4]->data};
        if (row == 0 || next < 0) next = 2 * row - 1;
        for (; next <= 2 * row + 1; next++) first_row(sound, next, work.first, work.rows[(next + kSide) % kSide]);
        const float * rows[kSide];
        for (int64_t k = 0; k < kSide; k++) rows[k] = work.rows[(2 * row - 1 + k + kSide) % kSide];
        second_row(sound, rows, work.second, (float *) ((char *) dst->data + number * dst->nb[3] + row * dst->nb[2]));
    }
}

}  // namespace shruti

#else

namespace shruti {

size_t halving_bytes(int64_t, int64_t) { return 0; }
void   halving_convolutions(ggml_tensor *, int, int, void *) {}

}  // namespace shruti

#endif
