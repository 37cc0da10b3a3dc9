#ifndef SHRUTI_OPERATIONS_H
#define SHRUTI_OPERATIONS_H

/*
 * Makes the operations of layers.h, as the domain "shruti", which lives as long as the process. src/lib/onnx-faster.ts writes them
 * into networks.
 *
 * table: onnxruntime's functions
 * Returns onnxruntime's status: NULL is success.
 */
void *onnx_make_operations(const void *table, void **domain);

#endif
