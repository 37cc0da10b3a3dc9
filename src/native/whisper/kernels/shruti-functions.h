// Functions that whisper.cpp asks the processor's own library for, by `shruti_functions`.
#ifndef SHRUTI_FUNCTIONS_H
#define SHRUTI_FUNCTIONS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// The place in `op_params` of an attention that says whether it may be computed with 8 bits, as the weights around it are.
#define SHRUTI_ATTENTION_IN_BYTES 15

struct shruti_mel_task {
    const float * window;   // 400 factors
    const float * samples;  // zeros are understood after sample_count
    int           sample_count;
    const float * filters;  // mel_count rows of 201 frequencies
    int           mel_count;
    float *       mel;      // mel_count rows
    int           row_length;
};

struct shruti_functions {
    // Whether products are computed here, with whole windows and with tokens. All weights have to stay in the order of the file.
    int multiplies;
    // Whether the keys and values of cross-attention may be kept in 8 bits, as ggml's q8_0.
    int caches_bytes;
    // Writes log10 of the mel spectrum, at least -10, of `count` frames of 400 samples, each 160 after the one before.
    void (*mel_frames)(const struct shruti_mel_task * task, int first, int count);
    // Raises all to at least `least`, adds 4 and divides by 4.
    void (*finish_mel)(float * mel, int count, float least);
    float (*largest)(const float * x, int count);
    // Writes x less the logarithm of the sum of exponentials. -INFINITY stays so.
    void (*log_softmax)(const float * x, int count, float * out);
    // Returns the logarithm of the sum of exponentials; -INFINITY where all are.
    float (*log_sum_exp)(const float * x, int count);
    // Writes e^x, and 0 for -INFINITY.
    void (*exponentials)(const float * x, int count, float * out);
};

// NULL where ggml's and whisper.cpp's own code shall compute everything.
typedef const struct shruti_functions * (*shruti_functions_t)(void);

#ifdef __cplusplus
}
#endif

#endif
