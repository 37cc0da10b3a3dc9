#ifndef SHRUTI_LOOPS_H
#define SHRUTI_LOOPS_H

#include <cstddef>
#include <optional>
#include <string_view>

/** Where a text begins to repeat itself, and the length of what it repeats, in bytes. */
struct TextLoop {
    size_t begin;
    size_t unit;
};

/**
 * Reports whether a text ends in a loop: the same unit over and over, of any length, of words or of letters. What people
 * repeat on purpose ("no no no", spoken digits) is shorter. A unit that the text has begun again and not finished counts.
 *
 * @param text UTF-8; an unfinished character at its end is ignored
 */
std::optional<TextLoop> FindLoop(std::string_view text);

#endif
