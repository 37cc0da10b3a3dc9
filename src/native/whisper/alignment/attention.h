#ifndef SHRUTI_ATTENTION_H
#define SHRUTI_ATTENTION_H

#include <vector>

/**
 * Adds to `sum` what a head's attention says about where each token is: how far its weight in a frame is above the mean of
 * all tokens there, in standard deviations, and the median of that over seven frames. So did the authors of Whisper
 * (openai/whisper, `timing.py`).
 *
 * @param weights a row of `frames` weights for each token, each of which sums to 1; it is changed
 * @param sum as many numbers
 */
void AddAttention(std::vector<float>& weights, int rows, int frames, float* sum);

#endif
