#include "attention.h"

#include <algorithm>
#include <cmath>

namespace {

/** Frames on either side of one whose median is taken. */
constexpr int kReach = 3;
constexpr int kMedianOf = 2 * kReach + 1;

/** Puts the smaller one first. */
inline void Order(float& a, float& b) {
    const float least = std::min(a, b);
    b = std::max(a, b);
    a = least;
}

/**
 * Returns the median. Of five numbers neither the least nor the largest can be it, nor of those that are left and one more. Pairs
 * are ordered without a branch, so that the compiler computes several frames at once.
 */
inline float MedianOf(const float* from) {
    float left[kReach + 2];
    for (int i = 0; i < kReach + 2; i++) left[i] = from[i];
    for (int count = kReach + 2; count >= 3; count--) {
        for (int i = 1; i < count; i++) Order(left[0], left[i]);
        for (int i = 1; i < count - 1; i++) Order(left[i], left[count - 1]);
        if (count > 3) left[0] = from[kMedianOf + 3 - count];
    }
    return left[1];
}

}  // namespace

void AddAttention(const std::vector<float>& weights, int rows, int frames, float* sum) {
    std::vector<float> mean(frames, 0.0f), factor(frames, 0.0f);
    for (int row = 0; row < rows; row++) {
        const float* of = weights.data() + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) mean[at] += of[at];
    }
    for (float& total : mean) total /= rows;
    for (int row = 0; row < rows; row++) {
        const float* of = weights.data() + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) factor[at] += (of[at] - mean[at]) * (of[at] - mean[at]);
    }
    for (float& squares : factor) squares = 1.0f / std::sqrt(squares / rows + 1e-18f);
    for (int row = 0; row < rows; row++) {
        const size_t begin = static_cast<size_t>(row) * frames;
        const float* of = weights.data() + begin;
        for (int at = 0; at < frames; at++) sum[begin + at] += (of[at] - mean[at]) * factor[at];
    }
}

void Smooth(std::vector<float>& attention, int rows, int frames) {
    std::vector<float> padded(frames + 2 * kReach);
    for (int row = 0; row < rows; row++) {
        float* of = attention.data() + static_cast<size_t>(row) * frames;
        std::copy(of, of + frames, padded.begin() + kReach);
        // Reflected at both ends.
        for (int i = 1; i <= kReach; i++) {
            padded[kReach - i] = of[std::min(i, frames - 1)];
            padded[kReach + frames - 1 + i] = of[std::max(frames - 1 - i, 0)];
        }
        for (int at = 0; at < frames; at++) of[at] = MedianOf(padded.data() + at);
    }
}
