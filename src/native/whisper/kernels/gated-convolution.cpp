// The middle of a FastConformer's convolution: a gate, a convolution of each channel over frames, a bias and SiLU, in one pass over
// memory. Channels are side by side.
#include "blocks.h"
#include "conformer.h"

#include "ggml.h"

#include <algorithm>

#ifdef SHRUTI_VECTORS

namespace shruti {
namespace {

constexpr int64_t kMostTaps = 64;
constexpr int64_t kVectors = 4, kTogether = kVectors * kLanes;  // channels
constexpr int64_t kFrames = 32;                                 // that are written before the next ones are gated

// Some channels of a sound.
struct Task {
    int64_t width, taps, frames;
    int64_t known;             // frames of the sound; those that follow count as 0
    int64_t channel, vectors;  // the first channel, and how many vectors of them
    const char * from;         // the first row
    size_t       from_stride;
    char *       to;
    size_t       to_stride;

    // Writes a frame's numbers after the gate.
    void gate(int64_t frame, float * out) const {
        if (frame < 0 || frame >= known) {
            std::fill_n(out, kTogether, 0.0f);
            return;
        }
        const float * row = (const float *) (from + frame * from_stride) + channel;
        for (int64_t v = 0; v < vectors; v++)
            store(out + v * kLanes, over_logistic(load(row + v * kLanes), load(row + width + v * kLanes)));
    }
};

void convolve(const Task & task, const float * taps, const float * bias) {
    const int64_t     before = (task.taps - 1) / 2;
    alignas(64) float gated[kFrames + kMostTaps][kTogether], factors[kMostTaps][kTogether];
    for (int64_t k = 0; k < task.taps; k++)
        for (int64_t c = 0; c < task.vectors * kLanes; c++) factors[k][c] = taps[(task.channel + c) * task.taps + k];
    // Row 0 of `gated` is the first one that frame `first` needs.
    for (int64_t n = 0; n < task.taps - 1; n++) task.gate(n - before, gated[n]);
    for (int64_t first = 0; first < task.frames; first += kFrames) {
        const int64_t here = std::min(kFrames, task.frames - first);
        for (int64_t n = 0; n < here; n++) task.gate(first + n + task.taps - 1 - before, gated[task.taps - 1 + n]);
        for (int64_t n = 0; n < here; n++) {
            float * to = (float *) (task.to + (first + n) * task.to_stride) + task.channel;
            for (int64_t v = 0; v < task.vectors; v++) {
                Vec sum = load(bias + task.channel + v * kLanes);
                for (int64_t k = 0; k < task.taps; k++) sum = fma(load(factors[k] + v * kLanes), load(gated[n + k] + v * kLanes), sum);
                store(to + v * kLanes, over_logistic(sum, sum));
            }
        }
        for (int64_t n = 0; n < task.taps - 1; n++) std::copy_n(gated[here + n], kTogether, gated[n]);
    }
}

}  // namespace

bool takes_gated_convolution(int64_t width, int64_t taps) { return width % kLanes == 0 && taps <= kMostTaps && taps % 2 == 1; }

void gated_convolution(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor *x = dst->src[0], *taps = dst->src[1];
    const int32_t *    known = (const int32_t *) dst->src[3]->data;
    const int64_t      sounds = dst->src[3]->ne[0], width = dst->ne[0], frames = dst->ne[1] / sounds;
    const int64_t      groups = (width + kTogether - 1) / kTogether;
    for (int64_t n = ith; n < sounds * groups; n += nth) {
        const int64_t sound = n / groups, channel = n % groups * kTogether, first = sound * frames;
        const Task    task = {width, taps->ne[0], frames, known[sound], channel, std::min(kVectors, (width - channel) / kLanes),
                              (const char *) x->data + first * x->nb[1], x->nb[1], (char *) dst->data + first * dst->nb[1], dst->nb[1]};
        convolve(task, (const float *) taps->data, (const float *) dst->src[2]->data);
    }
}

}  // namespace shruti

#else

namespace shruti {

bool takes_gated_convolution(int64_t, int64_t) { return false; }
void gated_convolution(ggml_tensor *, int, int, void *) {}

}  // namespace shruti

#endif
