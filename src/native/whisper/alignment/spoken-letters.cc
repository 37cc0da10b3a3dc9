#include "spoken-letters.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>

#include "utf8.h"

namespace {

struct Range {
    uint32_t first, last;
    int      letters;
};

/** Characters that do not count as one, but for the Indian scripts below; in order. */
constexpr Range kRanges[] = {
    {0x80, 0xBF, 0},      {0x300, 0x36F, 0},    {0x600, 0x61F, 0},    {0x64B, 0x65F, 0},    {0x66A, 0x66D, 0},
    {0x670, 0x670, 0},    {0x6D4, 0x6ED, 0},    {0x1CD0, 0x1CFF, 0},  {0x2000, 0x206F, 0},  {0x3000, 0x3020, 0},
    {0x3041, 0x30FF, 2},  {0x3400, 0x9FFF, 3},  {0xAC00, 0xD7A3, 3},  {0xF900, 0xFAFF, 3},  {0xFE00, 0xFE4F, 0},  {0xFF00, 0xFF0F, 0},
    {0xFF1A, 0xFF20, 0},  {0x20000, 0x323AF, 3},
};

/** Scripts without spaces between words: Thai and Lao, Burmese, Khmer, those of Japanese, Han with its rare characters. */
constexpr uint32_t kUnspaced[][2] = {
    {0xE00, 0xEFF}, {0x1000, 0x109F}, {0x1780, 0x17FF}, {0x3005, 0x3007}, {0x3041, 0x30FF}, {0x3400, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x323AF},
};

/** The Indian scripts from Devanagari to Malayalam: blocks of 128 characters in which the same ones have the same places. */
constexpr uint32_t kFirstIndian = 0x900, kLastIndian = 0xD7F, kBlock = 0x80;

int LettersOfIndian(uint32_t place) {
    const auto within = [place](uint32_t first, uint32_t last) { return place >= first && place <= last; };
    if (within(0x3E, 0x4C) || within(0x62, 0x63)) return 1;
    const bool is_mark = place <= 0x03 || place == 0x3C || place == 0x4D || within(0x51, 0x57) || within(0x64, 0x65) || place == 0x70;
    return is_mark ? 0 : 2;
}

int LettersOf(uint32_t character) {
    if (character < 0x80) return std::isalnum(static_cast<int>(character)) ? 1 : 0;
    if (character >= kFirstIndian && character <= kLastIndian) return LettersOfIndian(character % kBlock);
    for (const Range& range : kRanges) {
        if (character >= range.first && character <= range.last) return range.letters;
    }
    return 1;
}

/** Reads the character that begins at a byte, and moves to the one behind it. Returns false where there is no whole one. */
bool ReadCharacter(const std::string& text, size_t& at, uint32_t& character) {
    if (at >= text.size()) return false;
    const size_t length = std::max<size_t>(1, utf8::Length(text[at]));
    if (at + length > text.size()) return false;
    // The first byte of a character has as many bits of it as its length leaves.
    character = static_cast<uint8_t>(text[at]) & (length == 1 ? 0x7F : 0x7F >> length);
    for (size_t i = 1; i < length; i++) character = character << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
    at += length;
    return true;
}

}  // namespace

int SpokenLetters(const std::string& text) {
    int      letters = 0;
    uint32_t character;
    for (size_t at = 0; ReadCharacter(text, at, character);) letters += LettersOf(character);
    return letters;
}

bool BeginsUnspaced(const std::string& text) {
    size_t   at = 0;
    uint32_t character;
    if (!ReadCharacter(text, at, character)) return false;
    return std::any_of(std::begin(kUnspaced), std::end(kUnspaced),
                       [character](const auto& script) { return character >= script[0] && character <= script[1]; });
}
