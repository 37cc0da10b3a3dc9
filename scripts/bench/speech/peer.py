"""Transcribes WAV files with faster-whisper, for scripts/bench/speech.ts and large.ts.

usage: peer.py SETTINGS FILE...

SETTINGS is JSON: model (a CTranslate2 folder), compute_type, threads, batched, beam, language. Prints a line of JSON for each
file: segments with start, end (seconds) and text, the call's own seconds and processor seconds, and the most memory that the
program had until then (MB). Imports and the loading of the model are not in the times. Settings that are not named are faster-whisper's own, so batched segments are whole chunks.
"""

import json
import resource
import sys
import time

from faster_whisper import BatchedInferencePipeline, WhisperModel

settings = json.loads(sys.argv[1])
model = WhisperModel(
    settings["model"], device="cpu", compute_type=settings["compute_type"], cpu_threads=settings["threads"]
)
speaker = BatchedInferencePipeline(model) if settings["batched"] else model
options = {"language": settings["language"], "beam_size": settings["beam"], "vad_filter": True}
for path in sys.argv[2:]:
    started, spent = time.perf_counter(), time.process_time()
    segments = [
        {"start": one.start, "end": one.end, "text": one.text} for one in speaker.transcribe(path, **options)[0]
    ]
    print(
        json.dumps(
            {
                "segments": segments,
                "seconds": time.perf_counter() - started,
                "processor": time.process_time() - spent,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        ),
        flush=True,
    )
