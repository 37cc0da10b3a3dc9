#include "attention.h"

#include <algorithm>
#include <cmath>

namespace {

/** Frames on either side of one whose median is taken. */
constexpr int kReach = 3;
constexpr int kMedianOf = 2 * kReach + 1;

/** Makes each frame's weights of all rows a distribution with mean 0 and standard deviation 1. */
void Standardize(std::vector<float>& weights, int rows, int frames) {
    std::vector<float> mean(frames, 0.0f), squares(frames, 0.0f);
    for (int row = 0; row < rows; row++) {
        const float* of = weights.data() + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) mean[at] += of[at];
    }
    for (float& sum : mean) sum /= rows;
    for (int row = 0; row < rows; row++) {
        const float* of = weights.data() + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) squares[at] += (of[at] - mean[at]) * (of[at] - mean[at]);
    }
    for (float& sum : squares) sum = 1.0f / std::sqrt(sum / rows + 1e-18f);
    for (int row = 0; row < rows; row++) {
        float* of = weights.data() + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) of[at] = (of[at] - mean[at]) * squares[at];
    }
}

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

void AddAttention(std::vector<float>& weights, int rows, int frames, float* sum) {
    Standardize(weights, rows, frames);
    std::vector<float> padded(frames + 2 * kReach);
    for (int row = 0; row < rows; row++) {
        const float* of = weights.data() + static_cast<size_t>(row) * frames;
        std::copy(of, of + frames, padded.begin() + kReach);
        // Reflected at both ends.
        for (int i = 1; i <= kReach; i++) {
            padded[kReach - i] = of[std::min(i, frames - 1)];
            padded[kReach + frames - 1 + i] = of[std::max(frames - 1 - i, 0)];
        }
        float* to = sum + static_cast<size_t>(row) * frames;
        for (int at = 0; at < frames; at++) to[at] += MedianOf(padded.data() + at);
    }
}
