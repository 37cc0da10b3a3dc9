#ifndef SHRUTI_TDT_FEATURES_H
#define SHRUTI_TDT_FEATURES_H

#include <cstddef>
#include <vector>

/** Samples between two frames of features, of 16 kHz. */
constexpr size_t kTdtShift = 160;

/**
 * Computes what NeMo's models hear (its `FilterbankFeatures`): pre-emphasis, frames of the window in the middle of 512 samples,
 * the power in bands, its logarithm, and for each band mean 0 and deviation 1 over the sound.
 *
 * @param window at most 512 samples
 * @param filters rows of 257 frequencies, one for each band
 * @param reflects_ends beyond its ends the sound is its mirror image, as in releases before 2.5; else there is silence
 * @returns frames × bands; one frame for each whole 10 ms, and one more with mirror images
 */
std::vector<float> TdtFeatures(const std::vector<float>& samples, const std::vector<float>& window,
                               const std::vector<float>& filters, bool reflects_ends);

#endif
