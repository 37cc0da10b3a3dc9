/*
 * Parts of FastConformers that onnxruntime computes in many operations. All numbers lie row after row, a row for each frame.
 */
#ifndef SHRUTI_LAYERS_H
#define SHRUTI_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Swish falls before this place, and rises behind it. */
#define SWISH_LOWEST -1.2784645f
/* A number before that place for where there are none. Swish makes almost 0 of it. */
#define SWISH_LEAST -87.0f

/*
 * The numbers from which the limits of swish follow: the largest, or 0, and those nearest to its lowest place, of which the one behind
 * it is at most 0.
 */
typedef struct {
  float most, before, behind;
} swish_limits;

/* The functions of layers.cpp for a kind of processors. */
typedef struct {
  /*
   * The weights of attention with relative positions.
   *
   * content: heads x frames x frames
   * distance: heads x frames x (2 frames - 1): of each frame to all distances, from the farthest earlier one on
   * weights: heads x frames x frames
   */
  void (*relative_softmax)(const float *content, const float *distance, float scale, size_t heads, size_t frames,
                           float *weights);
  /*
   * Attention with relative positions: those weights, and what they choose of the values.
   *
   * contents, distances: heads x frames x width: queries for what is in other frames, and for how far away these are
   * keys: heads x width x frames; positions: heads x width x (2 frames - 1)
   * values, result: heads x frames x width
   * work: space for attention_work(frames) floats
   */
  void (*relative_attention)(const float *contents, const float *keys, const float *distances, const float *positions,
                             const float *values, float scale, size_t heads, size_t frames, size_t width, float *work,
                             float *result);
  size_t (*attention_work)(size_t frames);
  /*
   * Gates, rounding to bytes, a convolution with a kernel for each channel, and swish.
   *
   * gates: frames x (2 channels): values, then their gates
   * kernels: taps x channels, whole numbers of `kernel_step`
   * before: taps before the frame that is computed
   * work: space for frames x channels
   * result: frames x channels
   */
  void (*gated_convolution)(const float *gates, const float *kernels, float kernel_step, const float *bias,
                            size_t frames, size_t channels, size_t taps, size_t before, float *work, float *result);
  /*
   * Rows with the mean 0 and the variance 1, then times `scale` and with `bias`, which are numbers of a row.
   *
   * rounded: receives bytes as DynamicQuantizeLinear makes them, with their step and zero; NULL: `result` is all
   */
  void (*normalized)(const float *values, const float *scale, const float *bias, float epsilon, size_t rows, size_t width,
                     float *result, uint8_t *rounded, float *step, uint8_t *zero);
  /* Swish, rounded to bytes as DynamicQuantizeLinear rounds. */
  void (*rounded_swish)(const float *values, size_t count, uint8_t *rounded, float *step, uint8_t *zero);
  /* The same of numbers whose limits are known. */
  void (*limited_swish)(const float *values, size_t count, swish_limits limits, uint8_t *rounded, float *step, uint8_t *zero);
  /*
   * Rounding to bytes, a convolution of 3 x 3 that halves frames and bands, and no number below zero, rounded again.
   *
   * values: frames x bands
   * kernels: 9 x channels, whole numbers of `kernel_step`; channels are a multiple of LAYER_CHANNELS
   * work: space for (frames + 2) x (bands + 2)
   * rounded: half the frames x half the bands x channels, both rounded up; its zero is 0
   */
  void (*first_convolution)(const float *values, const float *kernels, float kernel_step, const float *bias,
                            size_t frames, size_t bands, size_t channels, float *work, uint8_t *rounded,
                            float *rounded_step);
  /*
   * A convolution of 3 x 3 with a kernel for each channel that halves frames and bands, rounded.
   *
   * values: frames x bands x channels, bytes of `step` from `zero`; otherwise as the one before
   */
  void (*separate_convolution)(const uint8_t *values, float step, uint8_t zero, const float *kernels,
                               float kernel_step, const float *bias, size_t frames, size_t bands, size_t channels,
                               uint8_t *rounded, float *rounded_step, uint8_t *rounded_zero);
} layer_code;

/* As many floats as the longest vector register has. */
#define LAYER_CHANNELS 16

#ifdef __cplusplus
}
#endif

#endif
