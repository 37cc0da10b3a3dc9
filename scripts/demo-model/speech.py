"""Reads utterances of synth.py, and lays several of them out in windows with pauses, before any augmentation."""
import json
import os
from dataclasses import dataclass, field

import numpy as np

from augment import change_speed
from lexicon import UNKNOWN
from synth import DATA

RATE = 16000
FRAME = 320  # samples for each state of the encoder: 20 ms
IGNORED = -100  # phoneme class where the engine gave none

FOREIGN = [("espeak_foreign", .08), ("flite_foreign", .01), ("festival_foreign", .01)]
TRAINING = {
    "en": [("espeak_en", .55), ("flite_en", .18), ("festival_en", .17)] + FOREIGN,
    "hi": [("espeak_hi", .68), ("festival_hi", .22)] + FOREIGN,
}
HELD_OUT = {
    "en": [("test_espeak_en", .6), ("test_flite_en", .3), ("test_espeak_foreign", .1)],
    "hi": [("test_espeak_hi", .6), ("test_festival_hi", .3), ("test_espeak_foreign", .1)],
}


class Pool:
    """Utterances of several jobs, drawn with the jobs' shares."""

    def __init__(self, jobs):
        self.jobs, self.shares = [], []
        for job, share in jobs:
            with open(f"{DATA}/{job}.json") as f:
                index = json.load(f)
            if index:
                self.jobs.append((np.memmap(f"{DATA}/{job}.i16", np.int16, "r"), index))
                self.shares.append(share)

    def pick(self, r):
        """Returns float32 samples, and the entry of the JSON."""
        pcm, index = r.choices(self.jobs, self.shares)[0]
        entry = r.choice(index)
        return pcm[entry["o"]:entry["o"] + entry["n"]].astype(np.float32) / 32768, entry


def pools(shares):
    """Returns language → pool."""
    return {lang: Pool(jobs) for lang, jobs in shares.items()}


def read_phones():
    """Returns phoneme → class."""
    path = f"{DATA}/phones.json"
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


@dataclass
class Utterance:
    """The positions of words in a window: samples, and for each word the frames to which the decoder may attend."""

    start: int
    end: int
    text: str
    look: list


@dataclass
class Layout:
    """A window's sound and its words; frames of unknown content are IGNORED. `cut` is the start of an utterance
    that the window's end cuts off."""

    audio: np.ndarray
    phones: np.ndarray  # phoneme class of each frame
    words: np.ndarray  # word of each frame from 1 on, 0 where none is said
    said: list = field(default_factory=list)
    cut: int = None


class Placer:
    """Lays utterances out in windows."""

    def __init__(self, r, pool, phone_class, word_number):
        self.r, self.pool, self.phone_class, self.word_number = r, pool, phone_class, word_number

    def _draw(self, free):
        """Returns an utterance at some speed. Speech outside the domain is cropped to the free space."""
        samples, entry = self.pool.pick(self.r)
        samples, speed = change_speed(self.r, samples)
        if entry["t"] == UNKNOWN and len(samples) > RATE:
            length = int(self.r.uniform(.8 * RATE, max(RATE, min(len(samples), .9 * free))))
            first = self.r.randint(0, max(0, len(samples) - length))
            samples, entry = samples[first:first + length], dict(entry, ph=None, wd=None)
        return samples, entry, speed

    def _add(self, layout, at, samples, entry, speed):
        """Mixes an utterance in at sample `at`, cut off by the window's end, and marks its phonemes and words."""
        taken = min(len(samples), len(layout.audio) - at)
        layout.audio[at:at + taken] += samples[:taken] * 10 ** self.r.uniform(-.4, 0)
        last = min(len(layout.phones), (at + len(samples)) // FRAME + 1)
        self._mark_words(layout.words, at, last, entry, speed)
        if not entry["ph"]:
            layout.phones[at // FRAME:last] = IGNORED
            return
        edges = [int((at + s / speed) / FRAME + .5) for s, _ in entry["ph"]] + [last]
        for k, (_, name) in enumerate(entry["ph"]):
            layout.phones[max(0, edges[k]):max(0, min(edges[k + 1], last))] = self.phone_class.get(name, 0)

    def _mark_words(self, frames, at, last, entry, speed):
        if not entry["wd"]:
            frames[at // FRAME:last] = IGNORED
            return
        for word, (a, b) in zip(entry["t"].split(), entry["wd"]):
            first, end = (int((at + moment / speed) / FRAME + .5) for moment in (a, b))
            frames[max(0, first):min(end, last)] = self.word_number[word] + 1

    def _look(self, at, samples, entry, speed):
        """Returns the frames around each word. Where the engine gave no times, they are in proportion to the letters."""
        words = entry["t"].split()
        if entry["wd"]:
            return [((at + a / speed) / FRAME - 4, (at + b / speed) / FRAME + 4) for a, b in entry["wd"]]
        edges = np.cumsum([0] + [len(w) + 1.5 for w in words])
        first, length = at / FRAME, len(samples) / FRAME
        return [(first + length * a / edges[-1] - 9, first + length * b / edges[-1] + 9)
                for a, b in zip(edges, edges[1:])]

    def _put(self, layout, at, samples, entry, speed):
        self._add(layout, at, samples, entry, speed)
        look = self._look(at, samples, entry, speed)
        layout.said.append(Utterance(at, at + len(samples), entry["t"], look))

    def place(self, seconds):
        """Lays out a window of speech. The audio may be shorter than the window, as at a recording's end."""
        r, length = self.r, int(seconds * RATE)
        layout = Layout(np.zeros(length, np.float32), *np.zeros((2, length // FRAME), np.int64))
        end = length if seconds < 20 or r.random() < .6 else int(length * r.uniform(.1, 1))
        at = int(RATE * r.choice([0, r.uniform(0, .5), r.uniform(0, 1.5)]))
        if seconds >= 8 and r.random() < .12:  # the last 20 to 200 ms of an utterance that is already written
            samples, _ = self.pool.pick(r)
            tail = int(RATE * r.uniform(.02, .2))
            layout.audio[:tail] = samples[-tail:] * .7
            at = max(at, tail + int(RATE * r.uniform(.1, .6)))
        most = r.choice([1, 2, 99, 99, 99]) if seconds >= 10 else 99
        while len(layout.said) < most:
            drawn = self._draw(length)
            size = len(drawn[0])
            if at + size > end:
                if not layout.said and size > length:
                    continue
                if not layout.said:
                    at = min(at, length - size)
                    end = max(end, at + size)
                    self._put(layout, at, *drawn)
                elif seconds >= 20 and end == length and length - at > RATE * .7 and r.random() < .8:
                    layout.cut = at
                    self._add(layout, at, *drawn)
                break
            self._put(layout, at, *drawn)
            at += size + int(RATE * r.choice([r.uniform(.15, .6), r.uniform(.3, 1.2), r.uniform(.5, 3)]))
            if at >= length or r.random() < (.12 if seconds < 20 else .04):
                break
        if layout.cut is None and r.random() < .6:  # the recording stops: zeros follow
            end = min(end, layout.said[-1].end + int(RATE * r.uniform(0, 1.2)))
        layout.audio = layout.audio[:max(min(end, length), 4000)]
        return layout
