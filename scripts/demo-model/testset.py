"""Makes test recordings of voices and sentences held out from training.    python3 testset.py FOLDER [SCALE] [FOREIGN.wav …]

Writes WAV files and meta.json to FOLDER: for each file its set, language, and utterances with times in seconds. Sets:
  single en|hi          200 utterances each
  long en|hi …          recordings of 1 to 3 minutes with pauses: clean, over a telephone line, with 10 dB noise
  nothing               silence, hum and noises: no word may be recognized
  foreign               other speech, synthetic and the recordings given as further arguments
"""
import json
import os
import random
import shutil
import sys
import wave

import numpy as np
from scipy.signal import resample_poly

from augment import mu_law, noise, with_noise
from speech import RATE, Pool

SINGLES = {
    "en": [("test_espeak_en", 120), ("test_flite_en", 40), ("test_festival_en", 40)],
    "hi": [("test_espeak_hi", 140), ("test_festival_hi", 60)],
}
LONG_SECONDS = (60, 90, 120, 180)
CONDITIONS = ("clean", "telephone", "noise")
NOISE_DECIBELS = 10
FOREIGN_SYNTHETIC = 20
NOTHING_SECONDS = 40


def write_wav(path, samples, rate=RATE):
    """Writes a mono 16-bit file."""
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes((np.clip(samples, -1, 1) * 32767).astype(np.int16).tobytes())


def utterances(job):
    """Returns all utterances of a job as (samples, entry)."""
    pool = Pool([(job, 1)])
    pcm, index = pool.jobs[0]
    return [(pcm[e["o"]:e["o"] + e["n"]].astype(np.float32) / 32768 * .8, e) for e in index]


class TestSet:
    """Writes recordings, and remembers their utterances."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.meta = folder, []
        self.r, self.rng = random.Random(11), np.random.default_rng(11)

    def add(self, kind, lang, samples, said, rate=RATE):
        """Writes a recording. `said` is [(start, end, text, voice)]."""
        name = f"{len(self.meta):04d}.wav"
        write_wav(os.path.join(self.folder, name), samples, rate)
        self.meta.append(dict(file=name, set=kind, lang=lang, seconds=round(len(samples) / rate, 2), said=said))

    def _hiss(self, samples):
        return samples + self.rng.standard_normal(len(samples)).astype(np.float32) * 1e-3

    def _gap(self, low, high):
        return np.zeros(int(RATE * self.r.uniform(low, high)), np.float32)

    def singles(self, lang, scale):
        """Writes one utterance to each recording."""
        for job, count in SINGLES[lang]:
            items = utterances(job)
            for samples, entry in self.r.sample(items, min(len(items), max(1, round(count * scale)))):
                before = self._gap(.1, .6)
                start, end = len(before) / RATE, (len(before) + len(samples)) / RATE
                audio = self._hiss(np.concatenate([before, samples, self._gap(.2, .8)]))
                self.add(f"single {lang}", lang, audio, [(start, end, entry["t"], entry["v"])])

    def long(self, lang, seconds, condition):
        """Writes utterances of all held-out voices with pauses of 0.4 to 3 s."""
        items = [u for job, _ in SINGLES[lang] for u in utterances(job)]
        parts, said, at = [], [], 0
        while True:
            gap, (samples, entry) = self._gap(.4, 3), self.r.choice(items)
            if said and at + len(gap) + len(samples) > seconds * RATE:
                break
            start = at + len(gap)
            at = start + len(samples)
            parts += [gap, samples]
            said.append((start / RATE, at / RATE, entry["t"], entry["v"]))
        audio, kind = self._hiss(np.concatenate([*parts, self._gap(.5, 1)])), f"long {lang} {condition}"
        if condition == "telephone":
            self.add(kind, lang, mu_law(np.clip(resample_poly(audio, 1, 2), -1, 1)), said, RATE // 2)
            return
        if condition == "noise":
            audio = with_noise(audio, noise(self.r, self.rng, len(audio)), NOISE_DECIBELS)
        self.add(kind, lang, audio / max(1, np.abs(audio).max()), said)

    def nothing(self, scale):
        """Writes sounds without speech, longer than a window of 30 s."""
        count = int(max(2, NOTHING_SECONDS * min(1, scale)) * RATE)
        hum = np.sin(np.arange(count) * 2 * np.pi * 50 / RATE).astype(np.float32)
        sounds = [np.zeros(count, np.float32), hum * .1]
        sounds += [noise(self.r, self.rng, count) * level for level in (.001, .01, .03, .1)]
        for sound in sounds:
            for lang in ("en", "hi"):
                self.add("nothing", lang, sound, [])

    def foreign(self, scale, recordings):
        """Writes other speech in both languages. Given recordings keep their format."""
        items = utterances("test_espeak_foreign")
        for samples, entry in self.r.sample(items, min(len(items), max(1, round(FOREIGN_SYNTHETIC * scale)))):
            self.add("foreign synthetic", entry["l"], self._hiss(samples), [])
        for path in recordings:
            with wave.open(path) as f:
                seconds = round(f.getnframes() / f.getframerate(), 2)
            for lang in ("en", "hi"):
                name = f"{len(self.meta):04d}.wav"
                shutil.copyfile(path, os.path.join(self.folder, name))
                self.meta.append(dict(file=name, set=f"foreign {os.path.basename(path)}", lang=lang, seconds=seconds, said=[]))

    def close(self):
        """Writes meta.json."""
        with open(os.path.join(self.folder, "meta.json"), "w") as f:
            json.dump(self.meta, f, ensure_ascii=False, indent=0)


def build(folder, scale, foreign):
    """Makes the whole test set. A smaller scale makes fewer and shorter recordings."""
    tests = TestSet(folder)
    for lang in ("en", "hi"):
        tests.singles(lang, scale)
    for lang in ("en", "hi"):
        for condition in CONDITIONS:
            for seconds in LONG_SECONDS:
                tests.long(lang, seconds * min(1, scale), condition)
    tests.nothing(scale)
    tests.foreign(scale, foreign)
    tests.close()
    print(f"{folder}: {len(tests.meta)} recordings, {sum(m['seconds'] for m in tests.meta) / 60:.0f} minutes")


if __name__ == "__main__":
    build(sys.argv[1], float((sys.argv[2:] or ["1"])[0]), sys.argv[3:])
