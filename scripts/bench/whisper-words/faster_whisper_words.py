"""Recognizes recordings with the Python package faster-whisper, with word times, on one thread.

    python faster_whisper_words.py MODEL LANGUAGE RECORDING.wav...

Prints a line of JSON for each recording: its words, seconds.
"""

import json
import sys

from faster_whisper import WhisperModel


def main(path, language, recordings):
    model = WhisperModel(path, device="cpu", compute_type="float32", cpu_threads=1)
    for recording in recordings:
        segments, _ = model.transcribe(
            recording, language=language, beam_size=1, word_timestamps=True, condition_on_previous_text=False
        )
        words = [word for segment in segments for word in segment.words or ()]
        rows = [{"text": word.word.strip(), "start": float(word.start), "end": float(word.end)} for word in words]
        print(json.dumps({"recording": recording, "words": rows}, ensure_ascii=False), flush=True)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
