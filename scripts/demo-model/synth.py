"""Makes speech: JOB.i16 (16 kHz PCM, all utterances end to end) and JOB.json in $DATA. Finished jobs are kept.

    python3 synth.py SCALE        SCALE multiplies the number of utterances of every job below

Each utterance in JOB.json: o, n (offset and length in samples), t (text in native script), l (en|hi), v (voice),
ph [[sample, phoneme], …] and wd [[first sample, last sample], …] (one for each word) where the engine gives them.
Every job draws from its own seed, so that jobs can be repeated one by one.
"""
import collections
import json
import os
import random
import sys
import tempfile
import zlib

import numpy as np

import foreign
import voices as V
from grammar import Sentences
from lexicon import LOANS, UNKNOWN

DATA = os.environ.get("DATA", os.path.expanduser("~/.cache/shruti/demo-model/data"))
MAX_SECONDS = 14

# name: engine, language, utterances, held out (voices and sentences: the tests' own)
JOBS = {
    "espeak_en": ("espeak", "en", 12000, False), "espeak_hi": ("espeak", "hi", 16000, False),
    "espeak_foreign": ("espeak", None, 5000, False),
    "flite_en": ("flite", "en", 3000, False), "flite_foreign": ("flite", None, 500, False),
    "festival_en": ("festival", "en", 3000, False), "festival_hi": ("festival", "hi", 4000, False),
    "festival_foreign": ("festival", None, 500, False),
    "test_espeak_en": ("espeak", "en", 400, True), "test_espeak_hi": ("espeak", "hi", 400, True),
    "test_flite_en": ("flite", "en", 200, True), "test_festival_en": ("festival", "en", 200, True),
    "test_festival_hi": ("festival", "hi", 300, True), "test_espeak_foreign": ("espeak", None, 100, True),
}
FESTIVAL_AT_ONCE = 200


def trim(samples):
    """Removes silence at both ends and normalises the peak. Returns (int16 samples, samples removed at the start) or None."""
    if len(samples) < 1600:
        return None
    envelope = np.sqrt(np.convolve(samples ** 2, np.ones(160) / 160, "same"))
    loud = np.where(envelope > max(envelope.max() * .02, 1))[0]
    if len(loud) == 0:
        return None
    start = int(max(0, loud[0] - 160))
    kept = samples[start:loud[-1] + 240]
    return ((kept * (20000 / np.abs(kept).max())).astype(np.int16), start) if len(kept) > 2400 else None


class Sink:
    """Writes one job's utterances. Its JSON file appears only when the job is complete."""

    def __init__(self, job):
        self.job, self.index, self.at = job, [], 0
        self.pcm = open(f"{DATA}/{job}.i16", "wb")

    def add(self, samples, text, lang, voice, phones=None, starts=None):
        """Adds an utterance, unless it is silent or too long."""
        trimmed = trim(samples)
        if trimmed is None or len(trimmed[0]) > V.RATE * MAX_SECONDS:
            return
        samples, cut = trimmed
        phones = [(s - cut, name) for s, name in phones] if phones else None
        words = None
        if starts:
            edges = [max(0, s - cut) for s in starts] + [len(samples)]
            words = list(zip(edges, edges[1:]))
        samples.tofile(self.pcm)
        self.index.append(dict(o=self.at, n=len(samples), t=text, l=lang, v=voice, ph=phones, wd=words))
        self.at += len(samples)

    def close(self):
        """Completes the job."""
        self.pcm.close()
        path = f"{DATA}/{self.job}.json"
        with open(path + ".part", "w") as f:
            json.dump(self.index, f, ensure_ascii=False)
        os.replace(path + ".part", path)
        print(f"{self.job}: {len(self.index)} utterances, {self.at / V.RATE / 3600:.2f} h", flush=True)


class Texts:
    """The sentences of a job. `lang` None: speech outside the domain."""

    def __init__(self, r, lang, held_out, reads_latin):
        self.r, self.lang, self.held_out, self.reads_latin = r, lang, held_out, reads_latin
        if lang is not None:
            self.own, self.any = Sentences(r, lang, held_out), Sentences(r, lang, None)

    def next(self):
        """Returns language label, text in native script, and text to read aloud (None: invent one).

        A quarter of the tests' texts are any sentence, so that whole phrases are tested on new voices too.
        """
        if self.lang is None:
            return self.r.choice(["en", "hi"]), UNKNOWN, None
        text = (self.any if self.held_out and self.r.random() < .25 else self.own).next()
        spoken = text
        if self.lang == "hi" and self.reads_latin and self.r.random() < .5:
            spoken = " ".join(LOANS.get(word, word) for word in text.split())
        return self.lang, text, spoken


def espeak_job(lang, count, held_out, r, sink):
    """Synthesizes with espeak-ng: voice and variant are drawn for each. Hindi voices read half of the loan words as English."""
    engine, texts = V.Espeak(), Texts(r, lang, held_out, True)
    for _ in range(count):
        label, text, spoken = texts.next()
        voice = r.choice((V.ESPEAK_HELD if held_out else V.ESPEAK)[lang or "en"])
        if spoken is None:
            voice, spoken = foreign.any_text(r)
        if held_out or r.random() < .9:
            voice += "+" + r.choice(V.VARIANTS_HELD if held_out else V.VARIANTS)
        samples, phones, starts = engine.say(r, voice, spoken)
        sink.add(samples, text, label, voice, phones, starts if lang else None)


def flite_job(lang, count, held_out, r, sink):
    """Synthesizes with flite, which has only English voices."""
    texts = Texts(r, lang, held_out, False)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            label, text, spoken = texts.next()
            voice = r.choice(V.FLITE_HELD if held_out else V.FLITE)
            sink.add(V.flite(r, voice, spoken or foreign.english_text(r), folder), text, label, "flite-" + voice)


def festival_job(lang, count, held_out, r, sink):
    """Synthesizes with festival, a few hundred utterances in each process. English and Hindi voices take turns."""
    texts = Texts(r, lang, held_out, False)
    with tempfile.TemporaryDirectory() as folder:
        for batch, first in enumerate(range(0, count, FESTIVAL_AT_ONCE)):
            voice_lang = lang or ["en", "hi"][batch % 2]
            names = (V.FESTIVAL_HELD if held_out else V.FESTIVAL)[voice_lang]
            voice = names[batch % len(names)]
            invent = foreign.english_text if voice_lang == "en" else foreign.hindi_text
            items = [texts.next() for _ in range(min(FESTIVAL_AT_ONCE, count - first))]
            spoken = [words or invent(r) for _, _, words in items]
            for (label, text, _), samples in zip(items, V.festival(r, voice, spoken, folder)):
                if samples is not None:
                    sink.add(samples, text, label, "festival-" + voice)


def write_phones():
    """Writes phones.json: espeak-ng's phonemes in English and Hindi → class, the most frequent first; 0 is silence."""
    count = collections.Counter()
    for job in ("espeak_en", "espeak_hi"):
        with open(f"{DATA}/{job}.json") as f:
            for utterance in json.load(f):
                count.update(name for _, name in utterance["ph"] or [])
    names = [n for n, _ in count.most_common() if n.strip() and not n.startswith("_")][:255]
    with open(f"{DATA}/phones.json", "w") as f:
        json.dump({name: i + 1 for i, name in enumerate(names)}, f, ensure_ascii=False)


def main(scale):
    """Makes every job that does not exist yet."""
    os.makedirs(DATA, exist_ok=True)
    make = {"espeak": espeak_job, "flite": flite_job, "festival": festival_job}
    for job, (engine, lang, count, held_out) in JOBS.items():
        if os.path.exists(f"{DATA}/{job}.json"):
            continue
        sink = Sink(job)
        make[engine](lang, max(4, round(count * scale)), held_out, random.Random(zlib.crc32(job.encode())), sink)
        sink.close()
    write_phones()


if __name__ == "__main__":
    main(float(sys.argv[1]))
