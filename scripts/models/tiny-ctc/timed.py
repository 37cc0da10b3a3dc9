"""Recordings with known times of words, by the events of libespeak-ng: python3 timed.py OUT COUNT SEED [VOICE …].
Writes OUT/*.wav (16 kHz) and OUT/times.tsv: name, language, and for each word its text, start and end in milliseconds."""
import ctypes as c
import os
import random
import sys
import wave

import numpy as np
from synth import resample
from words import ENGLISH, HINDI

SYNCHRONOUS, PHONEME_EVENTS, RATE, PITCH, UTF8 = 2, 1, 1, 3, 1
WORD, PHONEME = 1, 7


class Id(c.Union):
    _fields_ = [("number", c.c_int), ("name", c.c_char_p), ("string", c.c_char * 8)]


class Event(c.Structure):
    _fields_ = [(name, c.c_int) for name in ("type", "unique", "position", "length", "ms", "sample")]
    _fields_ += [("user", c.c_void_p), ("id", Id)]


lib = c.CDLL("libespeak-ng.so.1")
sound, events = [], []


@c.CFUNCTYPE(c.c_int, c.POINTER(c.c_short), c.c_int, c.POINTER(Event))
def hear(samples, count, listed):
    if samples and count > 0:
        sound.append(c.string_at(samples, 2 * count))
    at = 0
    while listed[at].type != 0:
        event = listed[at]
        name = bytes(event.id.string).split(b"\0")[0] if event.type == PHONEME else b""
        events.append((event.type, event.position, event.ms, name))
        at += 1
    return 0


rate = lib.espeak_Initialize(SYNCHRONOUS, 200, None, PHONEME_EVENTS)
lib.espeak_SetSynthCallback(hear)


def say(voice, text, speed, pitch):
    sound.clear()
    events.clear()
    if lib.espeak_SetVoiceByName(voice.encode()) != 0:
        raise SystemExit(f"espeak-ng has no voice {voice}")
    lib.espeak_SetParameter(RATE, speed, 0)
    lib.espeak_SetParameter(PITCH, pitch, 0)
    data = text.encode() + b"\0"
    lib.espeak_Synth(data, len(data), 0, 1, 0, UTF8, None, None)
    samples = np.frombuffer(b"".join(sound), "<i2").astype(np.float32) / 32768
    return resample(samples, rate)


def times_of(text, words, total_ms):
    """Start and end of each word; None where espeak-ng joins two words to one."""
    starts, at = [], 0
    placed = {}
    for kind, position, ms, _ in events:
        if kind == WORD:
            placed.setdefault(position - 1, ms)
    for word in words:
        at = text.index(word, at)
        if at not in placed:
            return None
        starts.append(placed[at])
        at += len(word)
    pauses = [ms for kind, _, ms, name in events if kind == PHONEME and name.startswith(b"_")]
    times = []
    for start, following in zip(starts, starts[1:] + [round(total_ms)]):
        times.append((start, min([following] + [ms for ms in pauses if ms > start])))
    return times


if __name__ == "__main__":
    out, count, seed, *voices = sys.argv[1:]
    voices = voices or ["f3", "m4", "m6", "klatt2", "Annie"]
    rng = random.Random(int(seed))
    os.makedirs(out, exist_ok=True)
    lines = []
    while len(lines) < int(count):
        is_hindi = rng.random() < 0.5
        words = [rng.choice(HINDI if is_hindi else ENGLISH) for _ in range(rng.randint(3, 8))]
        text = "".join(word + rng.choice([" "] * 5 + [", ", ". "]) for word in words).strip()
        base = "hi" if is_hindi else rng.choice(["en-us", "en"])
        samples = say(f"{base}+{rng.choice(voices)}", text, rng.randint(120, 190), rng.randint(25, 75))
        times = times_of(text, words, len(samples) / 16)
        if times is None:
            continue
        name = f"{len(lines):03}.wav"
        with wave.open(f"{out}/{name}", "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16000)
            file.writeframes((samples * 32767).astype("<i2").tobytes())
        fields = [f"{word} {start} {end}" for word, (start, end) in zip(words, times)]
        lines.append("\t".join([name, "hi" if is_hindi else "en", *fields]))
    with open(f"{out}/times.tsv", "w") as file:
        file.write("\n".join(lines) + "\n")
