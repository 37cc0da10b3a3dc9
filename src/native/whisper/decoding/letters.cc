#include "letters.h"

#include <cmath>

#include "utf8.h"

namespace {

constexpr size_t kBits = 64;

/** Returns the code point that bytes spell when zeros or ones fill the bits of those that are missing. */
int32_t FilledUp(std::string_view bytes, size_t length, uint8_t missing) {
    const auto first = static_cast<uint8_t>(bytes[0]);
    int32_t    point = length == 1 ? first : first & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        const uint8_t byte = i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : missing;
        point = point << 6 | (byte & 0x3f);
    }
    return point;
}

}  // namespace

bool CharacterSet::HasBetween(int32_t first, int32_t last) const {
    // All bounds below `first` are those of ranges that end before it, and perhaps the beginning of one that holds it.
    const size_t at = std::lower_bound(bounds.begin(), bounds.end(), first) - bounds.begin();
    if (at == bounds.size()) return false;
    return at % 2 == 1 || bounds[at] <= last;
}

bool CharacterSet::CanBegin(std::string_view bytes) const {
    const size_t length = utf8::Length(bytes[0]);
    if (length == 0) return false;
    for (size_t i = 1; i < bytes.size(); i++) {
        if (!utf8::IsContinuation(bytes[i])) return false;
    }
    // The least character of so many bytes: a smaller one has a shorter form, and this one is not allowed.
    constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    return HasBetween(std::max(kLeast[length], FilledUp(bytes, length, 0x80)), FilledUp(bytes, length, 0xbf));
}

bool Letters::MayFollow(std::string_view unfinished, std::string_view token) const {
    std::string text(unfinished);
    text += token;
    for (size_t at = 0; at < text.size();) {
        const std::string_view rest = std::string_view(text).substr(at);
        const std::string_view character = rest.substr(0, std::max<size_t>(1, utf8::Length(rest[0])));
        if (!characters.CanBegin(character)) return false;
        at += character.size();
    }
    return true;
}

const Letters::Excluded& Letters::After(std::string_view unfinished) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto                  found = known.find(unfinished);
    if (found != known.end()) return found->second;
    Excluded excluded((tokens.size() + kBits - 1) / kBits, 0);
    for (size_t id = 0; id < tokens.size(); id++) {
        if (!MayFollow(unfinished, tokens[id])) excluded[id / kBits] |= uint64_t{1} << id % kBits;
    }
    return known.emplace(unfinished, std::move(excluded)).first->second;
}

void Exclude(const Letters::Excluded& excluded, float* logits) {
    for (size_t i = 0; i < excluded.size(); i++) {
        for (uint64_t bits = excluded[i], id = i * kBits; bits != 0; bits >>= 1, id++) {
            if (bits & 1) logits[id] = -INFINITY;
        }
    }
}
