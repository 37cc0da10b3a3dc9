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
  /* Swish, rounded to bytes as DynamicQuantizeLinear rounds. */
  void (*rounded_swish)(const float *values, size_t count, uint8_t *rounded, float *step, uint8_t *zero);
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
