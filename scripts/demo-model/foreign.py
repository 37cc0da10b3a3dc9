"""Makes speech outside the domain, which the model must recognize as the single token `…`.

English words come from the pronouncing dictionary of Debian's festlex-cmu, without those of the domain; other
languages are random syllables of their letters, spoken by espeak-ng's voice for the language. Kannada and
Gujarati are left out on purpose, because the tests have real recordings of them.
"""
import functools
import re

import grammar

CMU_DICTIONARY = "/usr/share/festival/dicts/cmu/cmudict-0.4.out"
LATIN_VOICES = "fr de es it pt ru tr pl nl sv fi hu ro cs id vi sw cy el".split()
# espeak-ng voice → first code point of its script; Indic blocks of Unicode are laid out alike
INDIC_VOICES = {"hi": 0x900, "bn": 0x980, "pa": 0xA00, "ta": 0xB80, "te": 0xC00, "ml": 0xD00}
# offsets within a block of consonants and vowel signs that every script above has
CONSONANTS = [0x15, 0x19, 0x1A, 0x1C, 0x1F, 0x23, 0x24, 0x28, 0x2A, 0x2E, 0x2F, 0x30, 0x32, 0x35, 0x38, 0x39]
VOWEL_SIGNS = [0x3E, 0x3F, 0x40, 0x41, 0x42, 0x47, 0x48]


@functools.cache
def english_words():
    """Returns lower-case words of the dictionary that the domain does not contain."""
    known = set(grammar.words_of("en"))
    with open(CMU_DICTIONARY, encoding="latin-1") as lines:
        found = {m.group(1) for m in (re.match(r'\("([a-z]{3,12})"', line) for line in lines) if m}
    return sorted(found - known)


def _latin_word(r):
    onsets, vowels = "b d f g k l m n p r s t v st tr pl k sk".split(), "a e i o u ai au ou".split()
    return "".join(r.choice(onsets) + r.choice(vowels) for _ in range(r.randint(1, 4))) + r.choice(["", "n", "s", "r"])


def _indic_word(r, block):
    return "".join(
        chr(block + r.choice(CONSONANTS)) + (chr(block + r.choice(VOWEL_SIGNS)) if r.random() < .7 else "")
        for _ in range(r.randint(1, 4))
    )


def english_text(r):
    """Draws two to fourteen words of the dictionary."""
    return " ".join(r.choices(english_words(), k=r.randint(2, 14)))


def hindi_text(r):
    """Draws two to twelve invented words in Devanagari."""
    return " ".join(_indic_word(r, INDIC_VOICES["hi"]) for _ in range(r.randint(2, 12)))


def any_text(r):
    """Returns an espeak-ng voice and a text for it: half English, the rest Hindi and other languages."""
    kind = r.random()
    if kind < .45:
        return r.choice(["en-us", "en", "en-gb-x-rp", "en-gb-scotland"]), english_text(r)
    if kind < .65:
        return "hi", hindi_text(r)
    if kind < .85:
        voice = r.choice(list(INDIC_VOICES))
        return voice, " ".join(_indic_word(r, INDIC_VOICES[voice]) for _ in range(r.randint(2, 12)))
    return r.choice(LATIN_VOICES), " ".join(_latin_word(r) for _ in range(r.randint(2, 12)))
