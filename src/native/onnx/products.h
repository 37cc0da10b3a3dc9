/*
 * Products of rounded rows with rounded weights, for any number of rows. The sums are whole numbers and exact.
 *
 * src/lib/onnx-products.ts arranges weights: columns in panels of PRODUCT_COLUMNS, each panel with
 *   steps x PRODUCT_COLUMNS x 4 weights with a sign, where steps is the depth / 4, rounded up; what is missing is zero
 *   the sum of the weights of each column, and the zero of each
 */
#ifndef SHRUTI_PRODUCTS_H
#define SHRUTI_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRODUCT_COLUMNS 64

/* Rows of bytes, weights, and how many there are. */
typedef struct {
  const uint8_t *rows;
  float step;
  uint8_t zero;
  const uint8_t *panels;
  /* The weights' step: one, or one for each column. */
  const float *column_steps;
  bool has_steps;
  /* One for each column. */
  const float *biases;
  size_t count, depth, columns;
} product;

/* The functions of products.cpp for a kind of processors. */
typedef struct {
  /* Bytes of work space that a product needs. */
  size_t (*work_bytes)(size_t count, size_t depth);
  /*
   * Multiplies.
   *
   * result: count x columns
   * limits: receives them; NULL: nothing needs them
   */
  void (*multiply)(const product *of, void *work, float *result, swish_limits *limits);
} product_code;

/* Bytes of a panel. */
static inline size_t product_panel_bytes(size_t depth) {
  return (depth + 3) / 4 * 4 * PRODUCT_COLUMNS + PRODUCT_COLUMNS * 2 * sizeof(int32_t);
}

#ifdef __cplusplus
}
#endif

#endif
