#include "tdt-features.h"

#include <cmath>

extern "C" {
#include "../onnx/spectrum.h"
}

namespace {

constexpr int    kFrequencies = MEL_HALF + 1;
constexpr double kPreemphasis = 0.97;
/** Keeps logarithms finite. */
constexpr double kLeastEnergy = 0x1p-24;
constexpr double kLeastDeviation = 1e-5;

/** Bands of neighbouring frequencies: most weights of a row are 0. */
struct Band {
    int                first = 0;
    std::vector<float> weights;
};

std::vector<Band> BandsOf(const std::vector<float>& filters) {
    std::vector<Band> bands(filters.size() / kFrequencies);
    for (size_t n = 0; n < bands.size(); n++) {
        const float* row = &filters[n * kFrequencies];
        int          first = 0, end = kFrequencies;
        while (first < end && row[first] == 0) first++;
        while (end > first && row[end - 1] == 0) end--;
        bands[n] = {first, {row + first, row + end}};
    }
    return bands;
}

/** Gives each band mean 0 and deviation 1. */
void Normalize(std::vector<float>& features, size_t bands) {
    const size_t frames = features.size() / bands;
    for (size_t band = 0; band < bands; band++) {
        double sum = 0, squares = 0;
        for (size_t n = band; n < features.size(); n += bands) sum += features[n];
        const double mean = sum / static_cast<double>(frames);
        for (size_t n = band; n < features.size(); n += bands) squares += (features[n] - mean) * (features[n] - mean);
        const double freedom = frames > 1 ? static_cast<double>(frames - 1) : 1;
        const double deviation = std::sqrt(squares / freedom) + kLeastDeviation;
        for (size_t n = band; n < features.size(); n += bands)
            features[n] = static_cast<float>((features[n] - mean) / deviation);
    }
}

/** Returns where the sound's mirror image beyond its ends comes from. */
long Reflected(long at, long count) {
    if (at < 0) return -at;
    return at < count ? at : 2 * (count - 1) - at;
}

}  // namespace

std::vector<float> TdtFeatures(const std::vector<float>& samples, const std::vector<float>& window,
                               const std::vector<float>& filters, bool reflects_ends) {
    const std::vector<Band> bands = BandsOf(filters);
    const size_t            frames = samples.size() / kTdtShift + (reflects_ends ? 1 : 0);
    const long              margin = (MEL_FFT - static_cast<long>(window.size())) / 2;
    const long              count = static_cast<long>(samples.size());
    std::vector<float>      features(frames * bands.size());
    for (size_t frame = 0; frame < frames; frame++) {
        double     sound[MEL_FFT] = {}, power[kFrequencies];
        const long first = static_cast<long>(frame * kTdtShift) - MEL_HALF + margin;
        for (long n = 0; n < static_cast<long>(window.size()); n++) {
            const long at = reflects_ends ? Reflected(first + n, count) : first + n;
            // Sound that is shorter than half a frame is not reflected again.
            if (at < 0 || at >= count) continue;
            const double before = at == 0 ? 0 : kPreemphasis * samples[at - 1];
            sound[margin + n] = (samples[at] - before) * window[n];
        }
        power_spectrum(sound, power);
        for (size_t band = 0; band < bands.size(); band++) {
            double energy = 0;
            for (size_t n = 0; n < bands[band].weights.size(); n++)
                energy += bands[band].weights[n] * power[bands[band].first + n];
            features[frame * bands.size() + band] = static_cast<float>(std::log(energy + kLeastEnergy));
        }
    }
    Normalize(features, bands.size());
    return features;
}
