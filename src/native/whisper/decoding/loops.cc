#include "loops.h"

#include <vector>

#include "utf8.h"

namespace {

/** A sentence said twice is emphasis. */
constexpr size_t kMinRepeats = 3;
/** So many words of a loop, as `removeLoops` of src/pipeline/guards.ts has them. */
constexpr size_t kMinWords = 12;
/** So many characters where the unit has no space: fewer are a drawn-out "aaaah". */
constexpr size_t kMinCharacters = 24;
/** A short word so many times, with `kMinCharacters` in all. Dictated numbers repeat a digit less often. */
constexpr size_t kManyRepeats = 8;
/** Numbers have long runs of zeros. */
constexpr size_t kMinDigits = 40;

bool IsSpace(char byte) { return byte == ' ' || byte == '\n' || byte == '\t'; }

/** What a stretch of text has. */
struct Counts {
    size_t words = 0;
    /** Without spaces. */
    size_t characters = 0;
    bool   has_space_inside = false;
    bool   is_number = true;

    explicit Counts(std::string_view text) {
        bool was_space = true;
        for (const char byte : text) {
            if (utf8::IsContinuation(byte)) continue;
            const bool is_space = IsSpace(byte);
            if (!is_space) {
                characters++;
                if (was_space) {
                    if (words > 0) has_space_inside = true;
                    words++;
                }
                if (byte < '0' || byte > '9') is_number = false;
            }
            was_space = is_space;
        }
    }
};

/** Whether so much repetition is a loop. */
bool IsLoop(std::string_view stretch, size_t unit) {
    const size_t repeats = stretch.size() / unit;
    if (repeats < kMinRepeats) return false;
    const Counts counts(stretch);
    if (counts.words >= kMinWords) return true;
    if (counts.characters == 0) return repeats >= kMinCharacters;
    if (!counts.has_space_inside) return counts.characters >= (counts.is_number ? kMinDigits : kMinCharacters);
    return repeats >= kManyRepeats && counts.characters >= kMinCharacters;
}

/** Returns for each p how many of the last bytes equal those p bytes before them, one after the other (the Z function). */
std::vector<size_t> EqualEnds(std::string_view text) {
    const size_t        size = text.size();
    std::vector<size_t> equal(size, 0);
    const auto          at = [&](size_t i) { return text[size - 1 - i]; };
    for (size_t p = 1, left = 0, right = 0; p < size; p++) {
        size_t length = p < right ? std::min(right - p, equal[p - left]) : 0;
        while (p + length < size && at(length) == at(p + length)) length++;
        equal[p] = length;
        if (p + length > right) {
            left = p;
            right = p + length;
        }
    }
    return equal;
}

}  // namespace

std::optional<TextLoop> FindLoop(std::string_view text) {
    text.remove_suffix(utf8::UnfinishedBytes(text));
    const std::vector<size_t> equal = EqualEnds(text);
    for (size_t unit = 1; unit * kMinRepeats <= text.size(); unit++) {
        if (equal[unit] + unit < unit * kMinRepeats) continue;
        size_t begin = text.size() - equal[unit] - unit;
        while (utf8::IsContinuation(text[begin])) begin++;
        if (utf8::IsContinuation(text[text.size() - unit])) continue;
        if (IsLoop(text.substr(begin), unit)) return TextLoop{begin, unit};
    }
    return std::nullopt;
}
