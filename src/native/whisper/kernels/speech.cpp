// The mel spectrum and the probabilities of tokens. Written for the compiler's vectors of 16 floats, which it divides
// into what the processor has; a lane is a frame or a token.
#include "fourier.h"
#include "settings.h"
#include "shruti-functions.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace shruti {
namespace {

constexpr int kWide = 16;
typedef float   Floats __attribute__((vector_size(4 * kWide)));
typedef int32_t Ints __attribute__((vector_size(4 * kWide)));

constexpr int kFrame = 400;  // samples of a frame
constexpr int kStep = 160;   // from a frame to the next
constexpr int kHalf = kFrame / 2;
constexpr int kFrequencies = kHalf + 1;

// cos and sin of 2 pi k / 400.
struct CircleOfFrame {
    float cosine[kFrame], sine[kFrame];
    CircleOfFrame() {
        for (int k = 0; k < kFrame; k++) {
            cosine[k] = (float) std::cos(2 * 3.14159265358979323846 * k / kFrame);
            sine[k] = (float) std::sin(2 * 3.14159265358979323846 * k / kFrame);
        }
    }
};

Circle circle() {
    static const CircleOfFrame table;
    return {table.cosine, table.sine, kFrame};
}

// Work memory of a thread.
struct Work {
    Complex<Floats> even_odd[kHalf], other[kHalf];
    Floats          power[kFrequencies];
};

// Squares of the absolute values of 16 spectra. In: even samples as real, odd ones as imaginary parts.
void spectra(Work & work) {
    const Circle unit = circle();
    fourier_step<5>(unit, 200, 1, work.even_odd, work.other);
    fourier_step<5>(unit, 40, 5, work.other, work.even_odd);
    fourier_step<4>(unit, 8, 25, work.even_odd, work.other);
    fourier_step<2>(unit, 2, 100, work.other, work.even_odd);
    powers_of_real(unit, work.even_odd, work.power);
}

// log10 of positive numbers.
inline __attribute__((always_inline)) void log10_of(const Floats & x, Floats & out) {
    Ints       bits = (Ints) x;
    const Ints above = (bits & 0x7fffff) > 0x3504f3;  // mantissa above the root of 2
    const Ints exponent = ((bits >> 23) - 127) - above;
    bits = ((bits & 0x7fffff) | 0x3f800000) + (above & -0x800000);
    const Floats mantissa = (Floats) bits;
    const Floats t = (mantissa - 1.0f) / (mantissa + 1.0f), tt = t * t;
    const Floats series = ((((tt * (1.0f / 9)) + (1.0f / 7)) * tt + (1.0f / 5)) * tt + (1.0f / 3)) * tt + 1.0f;
    out = __builtin_convertvector(exponent, Floats) * 0.301029996f + t * series * (2 * 0.434294482f);
}

inline __attribute__((always_inline)) void choose(const Ints & which, const Floats & yes, const Floats & no, Floats & out) {
    out = (Floats) (((Ints) yes & which) | ((Ints) no & ~which));
}

// e^x for x up to 0; the least is 2^-126.
inline __attribute__((always_inline)) void exp_of(const Floats & x, Floats & out) {
    const Floats zero = {};
    Floats       power = x * 1.44269504f;
    choose(power > zero - 126.0f, power, zero - 126.0f, power);
    const Floats shifted = power + 12582912.0f;  // rounds to a whole number, which lies in the lowest bits
    const Floats rest = power - (shifted - 12582912.0f);
    Floats       p = rest * 1.5403530e-4f + 1.3333558e-3f;
    p = p * rest + 9.6181291e-3f;
    p = p * rest + 5.5504109e-2f;
    p = p * rest + 2.4022651e-1f;
    p = p * rest + 6.9314718e-1f;
    p = p * rest + 1.0f;
    out = (Floats) ((Ints) p + ((Ints) shifted << 23));
}

inline __attribute__((always_inline)) void load(const float * x, int count, Floats & out) {
    if (count >= kWide) {
        memcpy(&out, x, sizeof out);
        return;
    }
    float padded[kWide];
    for (int i = 0; i < kWide; i++) padded[i] = i < count ? x[i] : -INFINITY;
    memcpy(&out, padded, sizeof out);
}

inline __attribute__((always_inline)) void store(float * out, int count, const Floats & x) {
    if (count >= kWide)
        memcpy(out, &x, sizeof x);
    else
        memcpy(out, &x, sizeof(float) * count);
}

void fill_frames(const shruti_mel_task & task, int first, int count, Work & work) {
    float * z = (float *) work.even_odd;
    for (int lane = 0; lane < kWide; lane++) {
        const int offset = (first + lane) * kStep;
        const int known = lane < count ? std::max(0, std::min(kFrame, task.sample_count - offset)) : 0;
        for (int j = 0; j < known; j++) z[j * kWide + lane] = task.window[j] * task.samples[offset + j];
        for (int j = known; j < kFrame; j++) z[j * kWide + lane] = 0;
    }
}

// The frequencies that a row of the filters uses: from first to before end.
struct Band {
    int first, end;
};

std::vector<Band> bands_of(const shruti_mel_task & task) {
    std::vector<Band> bands(task.mel_count);
    for (int m = 0; m < task.mel_count; m++) {
        const float * row = task.filters + m * kFrequencies;
        Band &        band = bands[m];
        band = {0, kFrequencies};
        while (band.end > 0 && row[band.end - 1] == 0) band.end--;
        while (band.first < band.end && row[band.first] == 0) band.first++;
    }
    return bands;
}

void mel_frames(const shruti_mel_task * task, int first, int count) {
    const std::vector<Band> bands = bands_of(*task);
    std::vector<char>       memory(sizeof(Work) + alignof(Work));
    Work & work = *(Work *) (((uintptr_t) memory.data() + alignof(Work) - 1) / alignof(Work) * alignof(Work));
    const Floats zero = {};
    for (int frame = first; frame < first + count; frame += kWide) {
        const int here = std::min(kWide, first + count - frame);
        fill_frames(*task, frame, here, work);
        spectra(work);
        for (int m = 0; m < task->mel_count; m++) {
            const float * filter = task->filters + m * kFrequencies;
            Floats        sum = zero;
            for (int k = bands[m].first; k < bands[m].end; k++) sum += work.power[k] * filter[k];
            choose(sum > zero + 1e-10f, sum, zero + 1e-10f, sum);
            log10_of(sum, sum);
            store(task->mel + (size_t) m * task->row_length + frame, here, sum);
        }
    }
}

void finish_mel(float * mel, int count, float least) {
    const Floats zero = {};
    Floats       next;
    for (int i = 0; i < count; i += kWide) {
        load(mel + i, count - i, next);
        choose(next > zero + least, next, zero + least, next);
        next = (next + 4.0f) * 0.25f;
        store(mel + i, count - i, next);
    }
}

float largest(const float * x, int count) {
    Floats many, next;
    load(x, count, many);
    for (int i = kWide; i < count; i += kWide) {
        load(x + i, count - i, next);
        choose(next > many, next, many, many);
    }
    float most = many[0];
    for (int i = 1; i < kWide; i++) most = std::max(most, (float) many[i]);
    return most;
}

float log_sum_exp(const float * x, int count) {
    const float most = largest(x, count);
    if (most == -INFINITY) return most;
    Floats sum = {}, next;
    for (int i = 0; i < count; i += kWide) {
        load(x + i, count - i, next);
        next -= most;
        exp_of(next, next);
        sum += next;
    }
    float total = 0;
    for (int i = 0; i < kWide; i++) total += sum[i];
    return std::log(total) + most;
}

void log_softmax(const float * x, int count, float * out) {
    const float logarithm = log_sum_exp(x, count);
    Floats      next;
    for (int i = 0; i < count; i += kWide) {
        load(x + i, count - i, next);
        next -= logarithm;
        store(out + i, count - i, next);
    }
}

void exponentials(const float * x, int count, float * out) {
    const Floats zero = {};
    Floats       next, power;
    for (int i = 0; i < count; i += kWide) {
        load(x + i, count - i, next);
        exp_of(next, power);
        choose(next == zero - INFINITY, zero, power, power);
        store(out + i, count - i, power);
    }
}

#ifdef SHRUTI_VECTORS
constexpr int kMultiplies = 1;
#else
constexpr int kMultiplies = 0;
#endif

const shruti_functions kFunctions = {kMultiplies, kMultiplies, mel_frames, finish_mel, largest, log_softmax, log_sum_exp, exponentials};

}  // namespace

const shruti_functions * functions() { return is_fast ? &kFunctions : nullptr; }

}  // namespace shruti
