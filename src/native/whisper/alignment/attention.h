#ifndef SHRUTI_ATTENTION_H
#define SHRUTI_ATTENTION_H

#include <vector>

/**
 * Adds to `sum` what a head's attention says about where each token is: how far its weight in a frame is above the mean of
 * all tokens there, in standard deviations. So did the authors of Whisper (openai/whisper, `timing.py`).
 *
 * @param weights a row of `frames` weights for each token, each of which sums to 1
 * @param sum as many numbers
 */
void AddAttention(const std::vector<float>& weights, int rows, int frames, float* sum);

/** Replaces each number by the median of seven frames around it. */
void Smooth(std::vector<float>& attention, int rows, int frames);

#endif
