#!/usr/bin/env python3
"""Writes a network with random weights in the shape and the layout of IndicConformer-600M as AI4Bharat publishes it, for
measurements of time and memory: 24 layers of 1,024, eight-fold subsampling, a head of 22 x 256 tokens and the blank, each
weight in a file of its own.

    python3 indic-shape.py FOLDER [--int8] [--layers 24] [--width 1024]

Needs numpy and onnx, and onnxruntime for --int8. The layers have relative positions as NeMo has them."""
import argparse
import json
import math
import os

import onnx

from fast_conformer import FLOAT, INT64, Graph, RandomWeights, encoded_lengths, encoder, features, model, port

LANGUAGES = "as bn brx doi kok gu hi kn ks mai ml mr mni ne or pa sa sat sd ta te ur".split()
TOKENS, BINS = 256, 80


def encoder_model(layers, width):
    g = Graph(RandomWeights(1))
    g.rename(g.add("Transpose", encoder(g, BINS, layers, width), perm=[0, 2, 1]), "outputs")
    encoded_lengths(g)
    return model(g, features(BINS), [port("outputs", FLOAT, "n", width, "t8"), port("encoded_lengths", INT64, "n")])


def head_model(width):
    g = Graph(RandomWeights(2))
    count = len(LANGUAGES) * TOKENS + 1
    y = g.conv("encoder_output", "decoder_layers.0", count, width, 1)
    g.rename(g.add("Transpose", y, perm=[0, 2, 1]), "logprobs")
    return model(g, [port("encoder_output", FLOAT, "n", width, "t8")], [port("logprobs", FLOAT, "n", "t8", count)])


def place_outside(net, folder):
    """Each weight in a file of its own, as torch's exporter writes a network that is too large for protobuf."""
    for weight in net.graph.initializer:
        with open(os.path.join(folder, weight.name), "wb") as file:
            file.write(weight.raw_data)
        onnx.external_data_helper.set_external_data(weight, weight.name)
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL


def write(folder, layers, width, is_int8):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "encoder.onnx")
    net = encoder_model(layers, width)
    print(sum(math.prod(w.dims) for w in net.graph.initializer) / 1e6, "million numbers,", len(net.graph.initializer), "files")
    place_outside(net, folder)
    onnx.save(net, path)
    if is_int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        names = [w.name for w in net.graph.initializer]
        quantize_dynamic(path, path + ".int8", weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
        os.replace(path + ".int8", path)
        for name in names:
            os.remove(os.path.join(folder, name))
    onnx.save(head_model(width), os.path.join(folder, "ctc_decoder.onnx"))
    count = len(LANGUAGES) * TOKENS + 1
    tokens = {code: ["<unk>", *(f"▁{code}{n}" for n in range(1, TOKENS)), "|"] for code in LANGUAGES}
    masks = {code: [n // TOKENS == i or n == count - 1 for n in range(count)] for i, code in enumerate(LANGUAGES)}
    for name, value in (("vocab.json", tokens), ("language_masks.json", masks)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--int8", action="store_true", help="matrices with dynamic 8 bits, as public quantizations have them")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.layers, arguments.width, arguments.int8)
