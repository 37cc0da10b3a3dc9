"""Makes recordings whose words have known times: FOLDER/NAME.wav (16 kHz, mono, at most 30 s) and NAME.json.

    python make.py FOLDER [SPEECH]

Voices of espeak-ng say sentences; the library says when each word begins. SPEECH is a folder with clips of people and their
texts: clips are joined with known pauses, and the first word of each begins where its sound does. Needs numpy and
libespeak-ng.so.1.
"""

import csv
import ctypes
import json
import random
import sys
import wave
from pathlib import Path

import numpy as np

RATE = 16000
MOST_SECONDS = 29
# The demonstration model gets chunks of at most this length.
MOST_DEMO_SECONDS = 5
EN = [
    "The quick brown fox jumps over the lazy dog, and then it runs back to the old farm house.",
    "Please bring me seven red apples from the market, two loaves of bread, and a bottle of milk.",
    "Yesterday morning the teacher explained the history of the river. Nobody asked a single question.",
    "When the train finally arrived, we had been waiting for almost three hours in the cold rain.",
    "My father works in a small office near the station. He takes the bus every day at half past eight.",
    "If you want to change the address of your account, press one. For all other questions, press two.",
    "The doctor said that the medicine should be taken twice a day, after breakfast and before sleep.",
]
HI = [
    "आज सुबह मैं बाजार गया और वहाँ से पाँच किलो आलू लाया।",
    "मेरे पिता जी एक छोटे दफ्तर में काम करते हैं, और हर दिन बस से जाते हैं।",
    "कल शाम को बारिश हुई, इसलिए हम घर पर ही रहे।",
    "यह नदी बहुत पुरानी है और इसका पानी साफ है।",
    "डॉक्टर ने कहा कि दवा दिन में दो बार लेनी चाहिए।",
]
# Name, voice, sentences, words a minute, pitch.
VOICES = [
    ("en-1", "en-us", EN[:4], 150, 50),
    ("en-2", "en-gb+f3", EN[3:], 165, 60),
    ("en-3", "en-gb-x-rp+m4", EN[1:5], 140, 40),
    ("hi-1", "hi", HI, 140, 50),
    ("hi-2", "hi+f3", HI[::-1], 150, 60),
    ("hi-3", "hi+m4", HI[2:] + HI[:2], 130, 40),
]
# The same for the demonstration model: sentences of its domain that it was not trained with.
DEMO_VOICES = [
    ("en-demo", "en-us+f3", 150, 50),
    ("en-demo", "en-gb+m4", 140, 40),
    ("hi-demo", "hi", 140, 50),
    ("hi-demo", "hi+f3", 150, 50),
    ("hi-demo", "hi+m4", 140, 40),
    ("hi-demo", "hi+f2", 130, 60),
]
DEMO_SENTENCES = 30
WORD, END, PHONEME = 1, 0, 7
# A sentence of the corpus TIMIT, whose words people have labelled: first and last sample.
TIMIT = """3050 5723 she|5723 10337 had|9190 11517 your|11517 16334 dark|16334 21199 suit|21199 22560 in|22560 28064 greasy
|28064 33360 wash|33754 37556 water|37556 40313 all|40313 44586 year"""


class Event(ctypes.Structure):
    """`espeak_EVENT` of speak_lib.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


class Speaker:
    """A voice of espeak-ng, which says when each word begins."""

    def __init__(self):
        self.library = ctypes.CDLL("libespeak-ng.so.1")
        self.samples, self.events = [], []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))
        self.callback = kind(self.hear)
        # Sound is given to the callback, and so are phonemes.
        self.rate = self.library.espeak_Initialize(1, 200, None, 1)
        self.library.espeak_SetSynthCallback(self.callback)

    def hear(self, sound, count, events):
        if count > 0:
            self.samples.append(np.ctypeslib.as_array(sound, (count,)).copy())
        at = 0
        while events[at].type != END:
            event = events[at]
            self.events.append((event.type, event.text_position, event.length, event.audio_position / 1000, event.id))
            at += 1
        return 0

    def say(self, voice, text, speed, pitch):
        """Returns samples at 16 kHz and the words."""
        self.samples, self.events = [], []
        self.library.espeak_SetVoiceByName(voice.encode())
        self.library.espeak_SetParameter(1, speed, 0)
        self.library.espeak_SetParameter(3, pitch, 0)
        spoken = text.encode()
        self.library.espeak_Synth(spoken, len(spoken) + 1, 0, 1, 0, 1, None, None)
        self.library.espeak_Synchronize()
        samples = resample(np.concatenate(self.samples) / 32768, self.rate, RATE)
        return samples, list(self.words(text))

    def words(self, text):
        marks = [event for event in self.events if event[0] in (WORD, PHONEME)]
        for at, (kind, position, length, start, _) in enumerate(marks):
            if kind != WORD:
                continue
            # A word ends where the next one or a pause begins.
            ends = (time for other, _, _, time, name in marks[at + 1 :] if other == WORD or name.startswith(b"_"))
            yield {"text": text[position - 1 : position - 1 + length], "start": start, "end": next(ends, start)}


def resample(samples, old, new):
    count = round(len(samples) * new / old)
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(count // 2 + 1, complex)
    size = min(len(spectrum), len(kept))
    kept[:size] = spectrum[:size]
    return np.fft.irfft(kept, count) * (count / len(samples))


def with_noise(samples):
    """Adds pink noise 10 dB below the speech."""
    spectrum = np.fft.rfft(np.random.default_rng(1).standard_normal(len(samples)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.fft.rfftfreq(len(samples), 1 / RATE), 20)), len(samples))
    speech = samples[np.abs(samples) > 0.01]
    return samples + noise * np.sqrt(np.mean(speech**2) / np.mean(noise**2)) * 10 ** (-10 / 20)


def over_phone(samples):
    """300 to 3,400 Hz, µ-law."""
    spectrum = np.fft.rfft(samples)
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    spectrum[(hertz < 300) | (hertz > 3400)] = 0
    narrow = np.fft.irfft(spectrum, len(samples))
    narrow = narrow / np.abs(narrow).max() * 0.7
    law = np.round(np.sign(narrow) * np.log1p(255 * np.abs(narrow)) / np.log1p(255) * 127) / 127
    return np.sign(law) * (256 ** np.abs(law) - 1) / 255


def write(folder, name, samples, words):
    for kind, change in (("", lambda same: same), ("-noise", with_noise), ("-phone", over_phone)):
        with wave.open(str(folder / f"{name}{kind}.wav"), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes((np.clip(change(samples), -1, 1) * 32767).astype("<i2").tobytes())
        rows = [{key: round(value, 3) if key != "text" else value for key, value in word.items()} for word in words]
        (folder / f"{name}{kind}.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")


def joined(parts, seed, most_seconds=MOST_SECONDS):
    """Joins pairs of samples and words with pauses of 0.3 to 1.2 s, as many as fit."""
    pauses = random.Random(seed)
    sound, words = np.zeros(int(0.7 * RATE)), []
    for samples, own in parts:
        pause = np.zeros(int(RATE * pauses.uniform(0.3, 1.2)))
        if len(sound) + len(samples) + len(pause) > most_seconds * RATE:
            break
        begin = len(sound) / RATE
        words += [{key: value if key == "text" else value + begin for key, value in word.items()} for word in own]
        sound = np.concatenate([sound, samples, pause])
    return sound, words


def person(path, text):
    """Returns a clip and its words, of which the first has a beginning and the last has an end: those of the clip's sound."""
    with wave.open(str(path)) as clip:
        samples = np.frombuffer(clip.readframes(clip.getnframes()), "<i2") / 32768
    frames = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    levels = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-10)
    loud = np.flatnonzero(levels > np.percentile(levels, 95) - 18)
    words = [{"text": word} for word in text.split()] or [{}]
    words[0]["start"] = loud[0] / 100
    words[-1]["end"] = (loud[-1] + 1) / 100
    return samples, words


def people(speech):
    """Clips of people in English and Hindi, with their texts."""
    texts = json.loads((speech / "real/speech/en-long.json").read_text("utf-8"))
    said = {part["id"]: part["ref"] for part in texts if part.get("ref")}
    readers = ["0930", "0890", "0920", "0880", "0870"]
    yield "en-people", [person(speech / f"real/speech/austen-{n}.wav", said[f"austen{n}"]) for n in readers]
    jfk = person(speech / "data/audio/jfk.wav", said["jfk"])
    yield "en-speech", [jfk, person(speech / "real/speech/austen-0920.wav", said["austen0920"])]
    labelled, _ = person(speech / "data/audio/formats/LDC93S1.wav", "")
    rows = [row.split() for row in TIMIT.replace("\n", "").split("|")]
    words = [{"text": text, "start": int(first) / RATE, "end": int(last) / RATE} for first, last, text in rows]
    yield "en-labelled", [(labelled, words)]
    with (speech / "data/audio/transcripts.tsv").open(encoding="utf-8") as rows:
        hindi = {row["file"]: row["transcript or note"] for row in csv.DictReader(rows, delimiter="\t")}
    clips = [person(speech / "data/audio" / name, text) for name, text in sorted(hindi.items()) if name.startswith("hi_")]
    yield "hi-people", clips


def demo_sentences(language, seed):
    """Draws sentences of four words and more for the demonstration model."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "demo-model"))
    import grammar

    sentences = grammar.Sentences(random.Random(seed), language, held_out=True)
    return [sentences.next() for _ in range(DEMO_SENTENCES)]


def main(folder, speech=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    speaker = Speaker()
    for seed, (name, voice, sentences, speed, pitch) in enumerate(VOICES):
        write(folder, name, *joined([speaker.say(voice, text, speed, pitch) for text in sentences], seed))
    for seed, (name, voice, speed, pitch) in enumerate(DEMO_VOICES):
        for n, text in enumerate(demo_sentences(name[:2], seed)):
            sound, words = joined([speaker.say(voice, text, speed, pitch)], n, MOST_DEMO_SECONDS)
            if words:
                write(folder, f"{name}-{seed}-{n}", sound, words)
    for name, parts in people(Path(speech)) if speech else ():
        write(folder, name, *joined(parts, name))


main(*sys.argv[1:])
