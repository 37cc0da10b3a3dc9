"""Writes a checkpoint as a whisper.cpp (ggml) model file in f16.    python3 export.py CHECKPOINT OUT.bin

Quantise it with whisper.cpp's own tool: whisper-quantize OUT.bin OUT-q5_1.bin q5_1. The format is that of whisper.cpp's
models/convert-pt-to-ggml.py: matrices in f16; biases, norms and positional embeddings in f32.
"""
import os
import struct
import sys

import numpy as np
import torch

from features import mel_filters
from model import Whisper
from tokens import N_VOCAB

MAGIC = 0x67676D6C
F32, F16 = 0, 1
TRAINING_ONLY = ("ctc.", "frame_words.", "phones.", "unused_bias")


def _weights(model):
    """Returns name → tensor of the file. The embedding has a row for every id; unused ids share one row."""
    weights = {k: v for k, v in model.state_dict().items() if not k.startswith(TRAINING_ONLY)}
    rows = weights["decoder.token_embedding.weight"]
    unused = model.tokens.unused
    full = rows[unused].repeat(N_VOCAB, 1)
    full[torch.from_numpy(model.tokens.file_ids())] = rows[:unused]
    weights["decoder.token_embedding.weight"] = full
    return weights


def _write_tensor(f, name, tensor):
    values = tensor.detach().numpy()
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        values = values.reshape(-1, 1)
    kind = F32 if tensor.ndim < 2 or name.endswith("positional_embedding") else F16
    values = np.ascontiguousarray(values.astype(np.float32 if kind == F32 else np.float16))
    f.write(struct.pack("iii", values.ndim, len(name), kind))
    f.write(b"".join(struct.pack("i", size) for size in values.shape[::-1]) + name.encode() + values.tobytes())


def export(checkpoint, path):
    """Writes the averaged weights of a checkpoint as a model file."""
    saved = torch.load(checkpoint, map_location="cpu")
    c = saved["config"]
    model = Whisper(saved["words"], **c)
    model.load_state_dict(saved["average"])
    with open(path, "wb") as f:
        f.write(struct.pack("12i", MAGIC, N_VOCAB, c["audio_ctx"], c["d"], c["heads"], c["enc_layers"], c["text_ctx"],
                            c["d"], c["heads"], c["dec_layers"], 80, F16))
        filters = mel_filters()
        f.write(struct.pack("ii", *filters.shape) + filters.tobytes())
        strings = model.tokens.file_strings()
        f.write(struct.pack("i", len(strings)))
        for text in strings:
            f.write(struct.pack("i", len(text)) + text)
        for name, tensor in _weights(model).items():
            _write_tensor(f, name, tensor)
    print(f"{path}: {os.path.getsize(path)} bytes, {saved['steps']} steps")


if __name__ == "__main__":
    export(*sys.argv[1:3])
