"""Writes the weights of a generated Whisper model for faster-whisper, for scripts/bench/large.ts.

usage: ctranslate2_model.py FILE FOLDER

FILE is whisper.cpp's form with f16 weights (scripts/bench/engine/bench-model.ts); FOLDER becomes a CTranslate2 model with weights
of 8 bits and a tokenizer. Both write the same words, so both decoders do the same number of steps.
"""

import json
import os
import struct
import sys

import ctranslate2
import numpy as np
from faster_whisper.tokenizer import _LANGUAGE_CODES

END_OF_TEXT = 50257
TASKS = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
# The token of signs that are not in the vocabulary. faster-whisper never writes it, and no generated text has it.
UNKNOWN = "w50000"


def read(path):
    """Returns the sizes, the words and the tensors of a file; shapes have the slowest index first."""
    with open(path, "rb") as file:
        ints = lambda count: struct.unpack(f"<{count}i", file.read(4 * count))
        _magic, vocab, _, state, heads, layers, _, _, _, text_layers, mels, _ = ints(12)
        rows, bins = ints(2)
        file.seek(4 * rows * bins, 1)
        words = [file.read(ints(1)[0]).decode() for _ in range(ints(1)[0])]
        tensors = {}
        while head := file.read(12):
            count, name_bytes, kind = struct.unpack("<3i", head)
            shape = ints(count)[::-1]
            name = file.read(name_bytes).decode()
            dtype = np.float16 if kind == 1 else np.float32
            values = np.frombuffer(file.read(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
            tensors[name] = values.reshape(shape).astype(np.float32)
    return {"vocab": vocab, "state": state, "heads": heads, "layers": layers, "text": text_layers, "mels": mels}, words, tensors


def norm(spec, tensors, name):
    spec.gamma, spec.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def linear(spec, tensors, *names):
    """Several products of one input become one."""
    spec.weight = np.concatenate([tensors[f"{name}.weight"] for name in names])
    none = lambda name: np.zeros(len(tensors[f"{name}.weight"]), np.float32)
    spec.bias = np.concatenate([tensors.get(f"{name}.bias", none(name)) for name in names])


def attention(spec, tensors, name, is_self):
    parts = ["query"], ["key", "value"]
    groups = [parts[0] + parts[1]] if is_self else parts
    for at, group in enumerate(groups):
        linear(spec.linear[at], tensors, *(f"{name}.{part}" for part in group))
    linear(spec.linear[-1], tensors, f"{name}.out")
    norm(spec.layer_norm, tensors, f"{name}_ln")


def layers(spec, tensors, side):
    spec.position_encodings.encodings = tensors[f"{side}.positional_embedding"]
    for number, layer in enumerate(spec.layer):
        name = f"{side}.blocks.{number}"
        attention(layer.self_attention, tensors, f"{name}.attn", True)
        if side == "decoder":
            attention(layer.attention, tensors, f"{name}.cross_attn", False)
        norm(layer.ffn.layer_norm, tensors, f"{name}.mlp_ln")
        linear(layer.ffn.linear_0, tensors, f"{name}.mlp.0")
        linear(layer.ffn.linear_1, tensors, f"{name}.mlp.2")


def vocabulary(words, size):
    """Tokens as Whisper numbers them: a larger vocabulary has a language more."""
    text = words + [f"w{number}" for number in range(len(words), END_OF_TEXT)]
    count = 99 + size - 51865
    marks = ["endoftext", "startoftranscript", *_LANGUAGE_CODES[:count], *TASKS]
    marks = [f"<|{mark}|>" for mark in marks]
    times = size - len(text) - len(marks)
    return text + marks + [f"<|{number * 0.02:.2f}|>" for number in range(times)]


def main(path, folder):
    sizes, words, tensors = read(path)
    spec = ctranslate2.specs.WhisperSpec(sizes["layers"], sizes["heads"], sizes["text"], sizes["heads"])
    for conv in ("conv1", "conv2"):
        getattr(spec.encoder, conv).weight = tensors[f"encoder.{conv}.weight"]
        getattr(spec.encoder, conv).bias = tensors[f"encoder.{conv}.bias"].reshape(-1)
    layers(spec.encoder, tensors, "encoder")
    norm(spec.encoder.layer_norm, tensors, "encoder.ln_post")
    layers(spec.decoder, tensors, "decoder")
    norm(spec.decoder.layer_norm, tensors, "decoder.ln")
    spec.decoder.embeddings.weight = tensors["decoder.token_embedding.weight"]
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    tokens = vocabulary(words, sizes["vocab"])
    spec.register_vocabulary(tokens)
    first = END_OF_TEXT + 2
    spec.config.suppress_ids, spec.config.suppress_ids_begin = [], []
    spec.config.lang_ids = list(range(first, first + 99 + sizes["vocab"] - 51865))
    spec.config.alignment_heads = [[sizes["text"] - 1, 0]]
    spec.validate()
    spec.optimize(quantization="int8")
    os.makedirs(folder, exist_ok=True)
    spec.save(folder)
    model = {"type": "WordLevel", "vocab": {token: number for number, token in enumerate(tokens)}, "unk_token": UNKNOWN}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model}, file)
    with open(os.path.join(folder, "preprocessor_config.json"), "w", encoding="utf-8") as file:
        json.dump({"feature_size": sizes["mels"]}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
