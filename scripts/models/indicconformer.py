#!/usr/bin/env python3
"""Writes an IndicConformer of AI4Bharat as a folder that `shruti models add` takes (docs/models.md section 3).

    python3 indicconformer.py indicconformer_stt_multi_hybrid_rnnt_600m.nemo FOLDER
    python3 indicconformer.py --self-test FOLDER        # without NeMo: a small random network of the same form

Needs, as reported in public in April 2026: AI4Bharat's fork of NeMo, branch nemo-v2 (1.23rc0), pyarrow below 15, numpy
below 2, torch, onnx. `from_pretrained` of the fork fails: download the .nemo file, which the README of IndicConformerASR
links, and give its path.

Only the CTC head is exported. It has 22 languages of 256 tokens each, then the blank. The scores are written before any
softmax, because Shruti first leaves out the tokens of other languages.

This script was written from public reports. With real weights it has not been run."""
import argparse
import os
import sys

import onnx
import torch

# The order of the languages in the head.
LANGUAGES = "as bn brx doi kok gu hi kn ks mai ml mr mni ne or pa sa sat sd ta te ur".split()
# A Conformer makes one frame of output of four frames of features.
SUBSAMPLING = 4


class ScoresOfTokens(torch.nn.Module):
    """The encoder and the CTC head: (batch, bins, frames), (batch,) -> (batch, frames / 4, tokens)"""

    def __init__(self, encoder, head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, audio_signal, length):
        encoded, _ = self.encoder(audio_signal=audio_signal, length=length)
        return self.head(encoded).transpose(1, 2)


def token_spans(tokens):
    """The number of tokens without the blank -> a text such as `as:0-255,bn:256-511`"""
    if tokens % len(LANGUAGES):
        sys.exit(f"{tokens} tokens are not the same number for each of {len(LANGUAGES)} languages")
    each = tokens // len(LANGUAGES)
    return ",".join(f"{code}:{n * each}-{(n + 1) * each - 1}" for n, code in enumerate(LANGUAGES))


def write_tokens(path, vocabulary):
    with open(path, "w", encoding="utf-8") as file:
        for number, token in enumerate(vocabulary):
            if not token or any(letter.isspace() for letter in token):
                sys.exit(f"the token {number} is {token!r}")
            file.write(f"{token} {number}\n")
        file.write(f"<blk> {len(vocabulary)}\n")


def export(encoder, head, vocabulary, bins, folder, opset=13):
    """Writes model.onnx and tokens.txt."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    net = ScoresOfTokens(encoder, head).eval()
    sound, length = torch.randn(1, bins, 400), torch.tensor([400])
    with torch.no_grad():
        outputs = net(sound, length).shape
        if outputs[2] != len(vocabulary) + 1:
            sys.exit(f"the head has {outputs[2]} outputs, and there are {len(vocabulary)} tokens")
        if abs(outputs[1] - 400 / SUBSAMPLING) > 2:
            sys.exit(f"the network makes {outputs[1]} frames of 400: it is no Conformer with factor {SUBSAMPLING}")
        torch.onnx.export(
            net, (sound, length), path, opset_version=opset,
            input_names=["audio_signal", "length"], output_names=["scores"],
            dynamic_axes={"audio_signal": {0: "n", 2: "t"}, "length": {0: "n"}, "scores": {0: "n", 1: "t4"}})
    model = onnx.load(path)
    facts = {"vocab_size": len(vocabulary), "subsampling_factor": SUBSAMPLING, "normalize_type": "per_feature",
             "languages": token_spans(len(vocabulary))}
    for key, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    # Protobuf allows 2 GiB in one file.
    is_large = model.ByteSize() > 1_900_000_000
    onnx.save_model(model, path, save_as_external_data=is_large, all_tensors_to_one_file=True, location="weights.bin")
    write_tokens(os.path.join(folder, "tokens.txt"), vocabulary)


def from_nemo(path, folder):
    import nemo.collections.asr as nemo_asr

    model = nemo_asr.models.ASRModel.restore_from(path, map_location="cpu").eval()
    preprocessor = model.cfg.preprocessor
    if preprocessor.normalize != "per_feature" or preprocessor.sample_rate != 16000:
        sys.exit(f"the features are not those of Shruti: {preprocessor}")
    head = model.ctc_decoder.decoder_layers
    outputs = [module for module in head.modules() if hasattr(module, "out_channels")][-1].out_channels
    # The tokenizer joins those of all languages in the head's order.
    vocabulary = [str(token) for token in model.tokenizer.vocab][: outputs - 1]
    export(model.encoder, head, vocabulary, preprocessor.features, folder)


class SmallEncoder(torch.nn.Module):
    def __init__(self, bins, width=32):
        super().__init__()
        self.first = torch.nn.Conv1d(bins, width, 3, 2, 1)
        self.second = torch.nn.Conv1d(width, width, 3, 2, 1)

    def forward(self, audio_signal, length):
        mask = (torch.arange(audio_signal.shape[2]).unsqueeze(0) < length.unsqueeze(1)).unsqueeze(1)
        encoded = torch.relu(self.second(torch.relu(self.first(audio_signal * mask))))
        return encoded, torch.div(length + 3, 4, rounding_mode="floor")


def self_test(folder):
    torch.manual_seed(1)
    bins, each = 80, 8
    vocabulary = [f"▁{code}{n}" if n else "<unk>" for code in LANGUAGES for n in range(each)]
    head = torch.nn.Sequential(torch.nn.Conv1d(32, len(vocabulary) + 1, 1))
    export(SmallEncoder(bins), head, vocabulary, bins, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nemo", nargs="?", help="the .nemo file")
    parser.add_argument("folder", help="where model.onnx and tokens.txt are written")
    parser.add_argument("--self-test", action="store_true", help="a small random network instead of a .nemo file")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test(arguments.folder)
    elif arguments.nemo:
        from_nemo(arguments.nemo, arguments.folder)
    else:
        parser.error("name a .nemo file")
