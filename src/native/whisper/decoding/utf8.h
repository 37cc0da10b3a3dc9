#ifndef SHRUTI_UTF8_H
#define SHRUTI_UTF8_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

/** Characters as bytes (RFC 3629). */
namespace utf8 {

constexpr size_t kMaxBytes = 4;

inline bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

/** Returns how many bytes a character has that begins with a byte; 0: none begins with it. */
inline size_t Length(char first) {
    const auto byte = static_cast<uint8_t>(first);
    if (byte < 0x80) return 1;
    if (byte < 0xc2) return 0;
    if (byte < 0xe0) return 2;
    if (byte < 0xf0) return 3;
    return byte < 0xf5 ? 4 : 0;
}

/** Returns how many bytes at the end of a text begin a character that has more. */
inline size_t UnfinishedBytes(std::string_view text) {
    for (size_t count = 1; count < kMaxBytes && count <= text.size(); count++) {
        const char byte = text[text.size() - count];
        if (IsContinuation(byte)) continue;
        return Length(byte) > count ? count : 0;
    }
    return 0;
}

}  // namespace utf8

#endif
