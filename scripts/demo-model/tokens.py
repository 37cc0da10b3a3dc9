"""Numbers of tokens: those of whisper.cpp's multilingual files, and the compact ones that training uses.

Compact: words | SPECIALS | 1501 timestamps | one number for all unused ids of the file.
"""
import re

import numpy as np

import lexicon

N_VOCAB = 51865  # the multilingual size: whisper.cpp derives every special token's number from it
EOT, SOT, LANG0, TRANSLATE, TRANSCRIBE, PREV, NOSPEECH, NOTIMESTAMPS, FIRST_TS = (
    50257, 50258, 50259, 50358, 50359, 50361, 50362, 50363, 50364)
LANG = {"en": LANG0, "hi": LANG0 + 17}  # the order of g_lang in whisper.cpp
SPECIALS = [EOT, SOT, LANG["en"], LANG["hi"], TRANSCRIBE, TRANSLATE, PREV, NOSPEECH, NOTIMESTAMPS]
N_TS = 1501


class Tokens:
    """The compact vocabulary of a list of words."""

    def __init__(self, words):
        self.words = words
        self.word = {word: i for i, word in enumerate(words)}
        self.special = {token: len(words) + i for i, token in enumerate(SPECIALS)}
        self.first_ts = len(words) + len(SPECIALS)
        self.unused = self.first_ts + N_TS
        self.size = self.unused + 1
        self.codemix_prompt = self.encode(lexicon.CODEMIX_PROMPT)

    def file_strings(self):
        """Returns the texts of the file's first tokens: " " (which whisper.cpp looks up), the words with a leading space, and
        and single characters, so that any prompt can be divided into tokens. whisper.cpp names the other ids."""
        strings = [b" "] + [(" " + word).encode() for word in self.words]
        have = set(strings)
        singles = [chr(c).encode() for c in [*range(33, 127), *range(0x900, 0x980)]]
        return strings + [s for s in singles if s not in have]

    def file_ids(self):
        """Returns compact number → number in the file, for all but the last."""
        ids = np.zeros(self.unused, int)
        ids[:len(self.words)] = np.arange(len(self.words)) + 1
        for token, i in self.special.items():
            ids[i] = token
        ids[self.first_ts:self.unused] = FIRST_TS + np.arange(N_TS)
        return ids

    def encode(self, text):
        """Returns the compact tokens of a prompt, divided like whisper.cpp's `tokenize`: the longest token first."""
        known = {s: i for i, s in enumerate(self.file_strings())}
        out = []
        for piece in re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", text):
            rest = piece.encode()
            while rest:
                length = next((n for n in range(len(rest), 0, -1) if rest[:n] in known), 0)
                if length > 0:
                    number = known[rest[:length]]
                    out.append(number - 1 if 1 <= number <= len(self.words) else self.unused)
                rest = rest[max(1, length):]
        return out
