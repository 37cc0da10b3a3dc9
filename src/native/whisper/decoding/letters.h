#ifndef SHRUTI_LETTERS_H
#define SHRUTI_LETTERS_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

/** Characters that a text may have, as ranges of code points. */
class CharacterSet {
   public:
    /** @param bounds first and last of each range, in order, without surrogates */
    explicit CharacterSet(std::vector<int32_t> bounds) : bounds(std::move(bounds)) {}

    /** Whether one of the characters begins with these bytes, of which there is at least one. */
    bool CanBegin(std::string_view bytes) const;

   private:
    bool HasBetween(int32_t first, int32_t last) const;

    const std::vector<int32_t> bounds;
};

/**
 * Which tokens of a vocabulary may follow, so that the bytes of all tokens together spell characters of a set and nothing
 * else. A token may end within a character, and the next one then continues it. Special tokens always may follow: where
 * a text ends within a character, that is dropped.
 */
class Letters {
   public:
    /** @param tokens the bytes of all text tokens; they outlive this object */
    Letters(const std::vector<std::string>& tokens, CharacterSet characters)
        : tokens(tokens), characters(std::move(characters)) {}

    /** A bit for each text token that may not follow, 64 in a number. */
    using Excluded = std::vector<uint64_t>;

    /**
     * Returns which tokens may not follow. May be called on several threads; the result lives as long as this object.
     *
     * @param unfinished the bytes of a character that the text so far has begun and not finished; empty: none
     */
    const Excluded& After(std::string_view unfinished);

   private:
    bool MayFollow(std::string_view unfinished, std::string_view token) const;

    const std::vector<std::string>& tokens;
    const CharacterSet              characters;
    std::mutex                      mutex;
    /** By the unfinished bytes. There are about as many as characters have beginnings. */
    std::map<std::string, Excluded, std::less<>> known;
};

/** Sets the logits of excluded tokens to minus infinity. */
void Exclude(const Letters::Excluded& excluded, float* logits);

#endif
