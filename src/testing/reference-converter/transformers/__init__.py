"""Replaces the package `transformers`: it builds the modules of WhisperForConditionalGeneration with torch alone, so
that whisper.cpp's convert-h5-to-ggml.py sees the same state_dict, in the order of the modules."""
import json
import os
import struct

import numpy
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)


class EncoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.self_attn = Attention(width)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)


class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.self_attn = Attention(width)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.encoder_attn = Attention(width)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["d_model"]
        self.conv1 = nn.Conv1d(config["num_mel_bins"], width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config["max_source_positions"], width)
        self.layers = nn.ModuleList([EncoderLayer(width) for _ in range(config["encoder_layers"])])
        self.layer_norm = nn.LayerNorm(width)


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["d_model"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.embed_positions = nn.Embedding(config["max_target_positions"], width)
        self.layers = nn.ModuleList([DecoderLayer(width) for _ in range(config["decoder_layers"])])
        self.layer_norm = nn.LayerNorm(width)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start, tensors = file.tell(), {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            file.seek(start + first)
            raw = numpy.frombuffer(file.read(last - first), {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]])
            if entry["dtype"] == "BF16":
                raw = (raw.astype(numpy.uint32) << 16).view(numpy.float32)
            tensors[name] = torch.from_numpy(raw.astype(numpy.float32).reshape(entry["shape"]))
        return tensors


class WhisperForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Model(config)
        self.proj_out = nn.Linear(config["d_model"], config["vocab_size"], bias=False)

    @classmethod
    def from_pretrained(cls, folder):
        with open(os.path.join(folder, "config.json")) as file:
            made = cls(json.load(file))
        torch_file = os.path.join(folder, "pytorch_model.bin")
        if os.path.exists(torch_file):
            tensors = torch.load(torch_file)
        else:
            tensors = {}
            for name in sorted(os.listdir(folder)):
                if name.endswith(".safetensors"):
                    tensors.update(read_safetensors(os.path.join(folder, name)))
        tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"]
        made.load_state_dict(tensors)
        return made
