"""Transcribes WAV files of 16 kHz with sherpa-onnx or onnx-asr, for scripts/bench/large.ts.

usage: onnx_peer.py SETTINGS FILE...

SETTINGS is JSON: program (sherpa-onnx or onnx-asr), head (ctc or tdt), model (a folder of onnx_models.py), threads, piece (seconds)
and batch. Both programs compute a sound at once, so they are given pieces, `batch` of them together. Prints a line of JSON for
all files: segments with text, seconds and processor seconds, and the most memory that the program had (MB). Imports, the loading
of the model and a first short run are not in the times.
"""

import json
import os
import resource
import sys
import time
import wave

import numpy as np

RATE = 16_000


def open_sherpa(settings):
    import sherpa_onnx

    file = lambda name: os.path.join(settings["model"], name)
    common = {"tokens": file("tokens.txt"), "num_threads": settings["threads"]}
    if settings["head"] == "ctc":
        recognizer = sherpa_onnx.OfflineRecognizer.from_nemo_ctc(model=file("model.onnx"), **common)
    else:
        parts = {part: file(f"{part}-model.onnx") for part in ("encoder", "decoder", "joiner")}
        recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(**parts, **common, feature_dim=128, model_type="nemo_transducer")

    def transcribe(pieces):
        streams = []
        for piece in pieces:
            stream = recognizer.create_stream()
            stream.accept_waveform(RATE, piece)
            streams.append(stream)
        recognizer.decode_streams(streams)
        return [stream.result.text for stream in streams]

    return transcribe


def open_onnx_asr(settings):
    import onnx_asr
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings["threads"]
    options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    model = onnx_asr.load_model(
        f"nemo-conformer-{settings['head']}", settings["model"], sess_options=options, providers=providers
    )
    return lambda pieces: model.recognize(list(pieces), sample_rate=RATE)


def samples_of(path):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def main(settings, paths):
    transcribe = (open_sherpa if settings["program"] == "sherpa-onnx" else open_onnx_asr)(settings)
    length, batch = settings["piece"] * RATE, settings["batch"]
    pieces = [sound[at : at + length] for sound in map(samples_of, paths) for at in range(0, len(sound), length)]
    transcribe([pieces[0][:RATE]])
    started, spent = time.perf_counter(), time.process_time()
    texts = [text for at in range(0, len(pieces), batch) for text in transcribe(pieces[at : at + batch])]
    found = {
        "segments": [{"text": text} for text in texts],
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - spent,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
