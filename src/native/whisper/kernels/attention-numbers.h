// The whole numbers that attention multiplies: bytes, or numbers of 16 bits. Both have kPerWord numbers in a word, and the blocks
// of both products. Queries, keys and values are rounded to numbers from -kMost to kMost, weights to numbers from 0 to
// kMostWeight.
#ifndef SHRUTI_ATTENTION_NUMBERS_H
#define SHRUTI_ATTENTION_NUMBERS_H

#include "attention-shape.h"
#include "byte-blocks.h"
#include "short-blocks.h"
#include "shruti-functions.h"

namespace shruti {

constexpr int64_t kAttentionWidth = 64;

#ifdef SHRUTI_BYTES

// For models whose weights are multiplied as bytes.
struct ByteNumbers {
    using QueryBlocks = ByteBlocks<kAttentionWidth, Signed::kLeft>;  // times keys without a sign
    using WeightBlocks = ByteBlocks<64, Signed::kRight>;             // without a sign, times values
    static constexpr int64_t kPerWord = 4;
    static constexpr int     kMost = 127, kMostWeight = 127 + kMoved;
    static constexpr float   kLog2OfMostWeight = kMoved ? 7.99435344f : 6.98868469f;

    static bool takes(const ggml_tensor * dst) { return dst->op_params[SHRUTI_ATTENTION_IN_BYTES]; }

    // kPerWord vectors times a factor, as whole numbers with a sign.
    static Ints rounded_words(const Vec * x, Vec factor) { return rounded_bytes(x, factor); }

    static Ints key_words(Ints words) { return moved(words); }

    static Ints weight_words(const Vec * x) { return unsigned_bytes_of(rounded(x[0]), rounded(x[1]), rounded(x[2]), rounded(x[3])); }

    // Whole numbers of kPerWord rows of a column, one in each vector.
    static Ints column_words(const Ints * x) {
        const Ints low = fill_ints(255);
        const Ints first = bits_or(shifted_left<8>(bits_and(x[1], low)), bits_and(x[0], low));
        return bits_or(bits_or(shifted_left<24>(x[3]), shifted_left<16>(bits_and(x[2], low))), first);
    }

    // What was added to the keys, times the sum of the query's numbers.
    static void correct(QueryBlocks::Left & left, int64_t row) {
        const int8_t * values = left.values[row];
        if (kMoved) left.corrections[row] = -kMoved * (sum_of_bytes(load_32_bytes(values)) + sum_of_bytes(load_32_bytes(values + 32)));
    }
};

#endif

#ifdef SHRUTI_SHORTS

// For all others.
struct ShortNumbers {
    using QueryBlocks = ShortBlocks<kAttentionWidth>;
    using WeightBlocks = ShortBlocks<64>;
    static constexpr int64_t kPerWord = 2;
    static constexpr int     kMost = kMostShort, kMostWeight = kMostShort;
    static constexpr float   kLog2OfMostWeight = 11.9996477f;

    static bool takes(const ggml_tensor *) { return true; }

    static Ints rounded_words(const Vec * x, Vec factor) { return rounded_shorts(x, factor); }

    static Ints key_words(Ints words) { return words; }

    static Ints weight_words(const Vec * x) { return shorts_of(rounded(x[0]), rounded(x[1])); }

    static Ints column_words(const Ints * x) { return bits_or(shifted_left<16>(x[1]), bits_and(x[0], fill_ints(0xFFFF))); }

    static void correct(QueryBlocks::Left &, int64_t) {}
};

#endif

}  // namespace shruti

#endif
