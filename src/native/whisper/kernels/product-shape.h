// The shape of a product of matrices with many rows: `columns` rows of the weights times `rows` rows of the input.
#ifndef SHRUTI_PRODUCT_SHAPE_H
#define SHRUTI_PRODUCT_SHAPE_H

#include "ggml.h"

namespace shruti {

struct Shape {
    int64_t depth, columns, rows;
};

}  // namespace shruti

#endif
