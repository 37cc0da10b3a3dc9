"""The text-to-speech engines of Debian, as functions from text to 16 kHz samples, and the voices that are held out.

espeak-ng's `kok` is not used, because it spells Hindi letter by letter.
"""
import ctypes as C
import os
import subprocess
import wave

import numpy as np
from scipy.signal import resample_poly

RATE = 16000

# espeak-ng: the voice of a language; a variant makes it another speaker
ESPEAK = {
    "en": ["en-us"] * 4 + ["en"] * 3 + ["en-gb-scotland", "en-gb-x-rp", "en-us-nyc", "en-gb-x-gbcwmd"],
    "hi": ["hi"] * 6 + ["mr", "ne"],
}
ESPEAK_HELD = {"en": ["en-us", "en", "en-gb-x-gbclan", "en-029"], "hi": ["hi"]}
VARIANTS = (
    "Alex Alicia Andy Annie Denis Diogo Gene Gene2 Henrique Hugo Jacky Lee Marco Mario Mike Nguyen adam anika antonio "
    "aunty belinda benjamin boris caleb ed edward edward2 f1 f2 f3 f4 gustave iven iven2 john kaukovalta klatt klatt2 "
    "klatt3 linda m1 m2 m3 m4 m5 m6 m7 marcelo max michel miguel norbert pablo paul pedro quincy rob robert sandro "
    "shelby steph2 travis zac grandma grandpa"
).split()
VARIANTS_HELD = "f5 m8 Andrea Michael david steph victor announcer iven3 klatt4".split()
FLITE, FLITE_HELD = ["slt", "slt", "rms", "rms", "kal16"], ["awb"]
FESTIVAL = {"en": ["cmu_us_slt_arctic_hts", "ked_diphone"], "hi": ["hindi_NSK_diphone"]}
FESTIVAL_HELD = {"en": ["kal_diphone"], "hi": ["marathi_NSK_diphone"]}


class Event(C.Structure):
    """espeak_EVENT of espeak-ng's speak_lib.h."""

    class Id(C.Union):
        """The event's name or number."""

        _fields_ = [("number", C.c_int), ("name", C.c_char_p), ("string", C.c_char * 8)]

    _fields_ = [("type", C.c_int), ("uid", C.c_uint), ("text_position", C.c_int), ("length", C.c_int),
                ("audio_ms", C.c_int), ("sample", C.c_int), ("user", C.c_void_p), ("id", Id)]


class Espeak:
    """libespeak-ng, which also returns the times of phonemes and words."""

    WORD, PHONEME = 1, 7
    SPEED, PITCH, RANGE, WORD_GAP = 1, 3, 4, 7

    def __init__(self):
        self.lib = C.CDLL("libespeak-ng.so.1")
        self.rate = self.lib.espeak_Initialize(2, 0, None, 1)  # synchronous, with phoneme events
        self.callback = C.CFUNCTYPE(C.c_int, C.POINTER(C.c_short), C.c_int, C.POINTER(Event))(self._take)
        self.lib.espeak_SetSynthCallback(self.callback)

    def _take(self, samples, count, events):
        if count > 0 and samples:
            self.parts.append(np.ctypeslib.as_array(samples, shape=(count,)).copy())
        i = 0
        while events and events[i].type != 0:
            event = events[i]
            if event.type == self.PHONEME:
                self.phones.append((event.audio_ms * RATE // 1000, event.id.string.decode("utf8", "replace")))
            elif event.type == self.WORD:
                self.words.append((event.text_position - 1, event.audio_ms * RATE // 1000))
            i += 1
        return 0

    def say(self, r, voice, text):
        """Returns samples, [(first sample, phoneme)], [first sample of each word] or None where words were merged."""
        if self.lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError("espeak-ng has no voice " + voice)
        for key, value in ((self.SPEED, r.randint(110, 215)), (self.PITCH, r.randint(15, 85)),
                           (self.RANGE, r.randint(15, 80)), (self.WORD_GAP, r.choice([0, 0, 0, 1, 2]))):
            self.lib.espeak_SetParameter(key, value, 0)
        self.parts, self.phones, self.words = [], [], []
        utf8 = text.encode()
        self.lib.espeak_Synth(utf8, len(utf8) + 1, 0, 1, 0, 1, None, None)
        self.lib.espeak_Synchronize()
        samples = np.concatenate(self.parts) if self.parts else np.zeros(0, np.int16)
        return to_16k(samples, self.rate), self.phones, self._word_starts(text)

    def _word_starts(self, text):
        first, at, starts = {}, 0, []
        for position, sample in self.words:
            first.setdefault(position, sample)
        for word in text.split(" "):
            starts.append(first.get(at))
            at += len(word) + 1
        return None if None in starts else starts


def to_16k(samples, rate):
    """Returns float32 samples at 16 kHz, in the range of 16-bit integers."""
    if rate == RATE:
        return samples.astype(np.float32)
    divisor = np.gcd(rate, RATE)
    return resample_poly(samples.astype(np.float32), RATE // divisor, rate // divisor).astype(np.float32)


def read_wav(path):
    """Reads a mono 16-bit WAV file at 16 kHz."""
    with wave.open(path) as f:
        return to_16k(np.frombuffer(f.readframes(f.getnframes()), np.int16), f.getframerate())


def flite(r, voice, text, folder):
    """Synthesizes a text with flite. Returns samples."""
    path = os.path.join(folder, "flite.wav")
    stretch = f"duration_stretch={r.uniform(.8, 1.3):.2f}"
    subprocess.run(["flite", "-voice", voice, "--setf", stretch, "-t", text, "-o", path], check=True,
                   stdout=subprocess.DEVNULL)
    return read_wav(path)


def festival(r, voice, texts, folder):
    """Synthesizes many texts with one festival process. Returns samples, or None for those it could not read."""
    script = [f"(voice_{voice})"]
    paths = [os.path.join(folder, f"{i}.wav") for i in range(len(texts))]
    for text, path in zip(texts, paths):
        script.append(f"(Parameter.set 'Duration_Stretch {r.uniform(.8, 1.3):.2f})")
        script.append(f'(utt.save.wave (SynthText "{text}") "{path}" \'riff)')
    scheme = os.path.join(folder, "texts.scm")
    with open(scheme, "w") as f:
        f.write("\n".join(script))
    subprocess.run(["festival", "-b", scheme], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for path in paths:
        if not os.path.exists(path):
            yield None
            continue
        yield read_wav(path)
        os.unlink(path)
