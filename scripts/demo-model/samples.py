"""Makes sample recordings of voices and sentences held out from training.    python3 samples.py FOLDER [--candidates N]

Writes the recordings below and transcripts.tsv to FOLDER: for each utterance its file, language, channel, start and end
in seconds, voice, words as spoken, and in `codemix` the same with English words in Latin letters where that differs.
With --candidates, FOLDER/0 … FOLDER/N-1 get other draws, so that a set can be chosen that a model recognizes correctly.
Needs ffmpeg, which writes the FLAC files.
"""
import argparse
import os
import random
import subprocess
import wave

import numpy as np
from scipy.signal import resample_poly

import lexicon as L
from augment import mu_law, noise, with_noise
from grammar import is_held_out
from speech import RATE
from testset import NOISE_DECIBELS, SINGLES, utterances

SEED = 31
MOST_BYTES = 3_000_000  # of all recordings of a set
# file: language, utterances and voice (None: any) of each channel, seconds (None: as long as needed), condition
RECORDINGS = {
    "01-en.wav": ([("en", 1, None)], None, "clean"),
    "02-hi.wav": ([("hi", 1, None)], None, "clean"),
    "03-mixed.wav": ([("hi", 1, None)], None, "mixed"),
    "04-en.wav": ([("en", 3, None)], 10, "clean"),
    "05-hi.flac": ([("hi", 3, None)], 10, "clean"),
    "07-hi.flac": ([("hi", 2, None)], 8, "loans"),
    "08-en-phone.wav": ([("en", 2, None)], 8, "telephone"),
    "09-hi-phone.wav": ([("hi", 2, None)], 8, "telephone"),
    "10-en-stereo.flac": ([("en", 2, "flite-awb"), ("en", 2, "festival-kal_diphone")], 12, "clean"),
    "12-en-long.flac": ([("en", 14, None)], 60, "clean"),
    "13-hi-noise.wav": ([("hi", 2, None)], 8, "noise"),
    "14-en-hesitation.wav": ([("en", 1, None)], None, "hesitation"),
}
COLUMNS = "file language channel start end voice transcript codemix".split()
SPEECH = .6  # share of a recording that is speech, at most
SHORTEST, LONGEST = 1.2, 4.5  # seconds of an utterance
EDGE, GAP = .3, .4  # seconds of silence at the ends and between utterances, at least
LOANS = {"mixed": 3, "loans": 1}  # condition: English words in each Hindi sentence, at least, but not all of its words

FILLERS = {L.nfc(word) for words in L.FILLERS.values() for word in words}


def without_fillers(text):
    """Returns a sentence as it was drawn, without hesitations."""
    return " ".join(word for word in text.split() if word not in FILLERS)


class Draw:
    """Draws utterances. No two utterances of a set have the same words."""

    def __init__(self, r):
        self.r, self.taken = r, []
        self.jobs = {lang: [([u for u in utterances(job) if is_held_out(without_fillers(u[1]["t"]))], share)
                            for job, share in jobs] for lang, jobs in SINGLES.items()}

    def next(self, lang, voice, most_seconds, condition):
        """Returns samples and entry."""
        def fits(samples, entry):
            words = entry["t"].split()
            loans = sum(word in L.LOANS for word in words)
            return (SHORTEST <= len(samples) / RATE <= most_seconds
                    and voice in (None, entry["v"])
                    and any(word in FILLERS for word in words) == (condition == "hesitation")
                    and (condition not in LOANS or LOANS[condition] <= loans < len(words))
                    and not any(entry["t"] in text or text in entry["t"] for text in self.taken))

        fitting = [([u for u in items if fits(*u)], share) for items, share in self.jobs[lang]]
        items, = self.r.choices(*zip(*(one for one in fitting if one[0])))
        samples, entry = self.r.choice(items)
        self.taken.append(entry["t"])
        return samples, entry


def silences(r, seconds, speech, count):
    """Returns the lengths in samples of the silence before each of `count` utterances, and at the end."""
    least = [EDGE] + [GAP] * (count - 1) + [EDGE]
    shares = [r.uniform(.5, 1) for _ in least]
    spare = seconds - speech - sum(least) if seconds else 0
    return [int(RATE * (low + spare * share / sum(shares))) for low, share in zip(least, shares)]


def lay_out(r, draw, channels, seconds, condition):
    """Makes a recording with the channels in turns. Returns samples by channel, and [(channel, start, end, entry)]."""
    turns = [k for turn in range(channels[0][1]) for k in range(len(channels))]
    speech_left = SPEECH * seconds if seconds else LONGEST
    drawn = []
    for done, channel in enumerate(turns):
        most = min(LONGEST, speech_left / (len(turns) - done))
        lang, _, voice = channels[channel]
        samples, entry = draw.next(lang, voice, most, condition)
        speech_left -= len(samples) / RATE
        drawn.append((channel, samples, entry))
    gaps = silences(r, seconds, sum(len(samples) for _, samples, _ in drawn) / RATE, len(drawn))
    length = sum(gaps) + sum(len(samples) for _, samples, _ in drawn)
    audio = np.zeros((len(channels), round(seconds * RATE) if seconds else length), np.float32)
    said, at = [], 0
    for gap, (channel, samples, entry) in zip(gaps, drawn):
        at += gap
        audio[channel, at:at + len(samples)] = samples
        said.append((channel, at / RATE, (at + len(samples)) / RATE, entry))
        at += len(samples)
    return audio, said


def recorded(r, rng, audio, condition):
    """Applies a microphone or a telephone line. Returns samples and rate."""
    audio = audio + rng.standard_normal(audio.shape).astype(np.float32) * 1e-3
    if condition == "telephone":
        return mu_law(np.clip(resample_poly(audio, 1, 2, axis=1), -1, 1)), RATE // 2
    if condition == "noise":
        audio = with_noise(audio, noise(r, rng, audio.shape[1]), NOISE_DECIBELS)
    return audio / max(1, np.abs(audio).max()), RATE


def write(path, audio, rate):
    """Writes a 16-bit file, WAV or FLAC by its name."""
    pcm = (np.clip(audio, -1, 1) * 32767).astype("<i2").T.tobytes()
    if path.endswith(".flac"):
        source = ["-f", "s16le", "-ar", str(rate), "-ac", str(len(audio)), "-i", "-"]
        subprocess.run(["ffmpeg", "-v", "error", "-y", *source, "-compression_level", "12", "-bitexact", path],
                       input=pcm, check=True)
        return
    with wave.open(path, "wb") as f:
        f.setnchannels(len(audio))
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(pcm)


def build(folder, seed):
    """Writes all recordings of one draw, and their table."""
    os.makedirs(folder, exist_ok=True)
    r, rng = random.Random(seed), np.random.default_rng(seed)
    draw, rows, total = Draw(r), [COLUMNS], 0
    for name, (channels, seconds, condition) in RECORDINGS.items():
        audio, said = lay_out(r, draw, channels, seconds, condition)
        write(os.path.join(folder, name), *recorded(r, rng, audio, condition))
        total += os.path.getsize(os.path.join(folder, name))
        for channel, start, end, entry in sorted(said, key=lambda one: one[:2]):
            mixed = L.codemixed(entry["t"])
            rows.append([name, entry["l"], str(channel), f"{start:.2f}", f"{end:.2f}",
                         entry["v"].replace("festival-", "fest-"), entry["t"], mixed if mixed != entry["t"] else ""])
    with open(os.path.join(folder, "transcripts.tsv"), "w", encoding="utf-8") as f:
        f.writelines("\t".join(row) + "\n" for row in rows)
    print(f"{folder}: {len(RECORDINGS)} recordings, {total} bytes" + (", TOO LARGE" if total > MOST_BYTES else ""))


def main():
    """Writes one set, or several to choose from."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--candidates", type=int, default=0)
    options = parser.parse_args()
    if not options.candidates:
        build(options.folder, SEED)
    for n in range(options.candidates):
        build(os.path.join(options.folder, str(n)), SEED + n)


if __name__ == "__main__":
    main()
