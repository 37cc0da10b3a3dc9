#!/usr/bin/env python3
"""Writes a network with random weights in the shape and the layout of IndicConformer-600M as AI4Bharat publishes it, for
measurements of time and memory: 24 layers of 1,024, eight-fold subsampling, a head of 22 x 256 tokens and the blank, each
weight in a file of its own.

    python3 indic-shape.py FOLDER [--int8] [--layers 24] [--width 1024]

Needs numpy and onnx, and onnxruntime for --int8. The layers have relative positions as NeMo has them."""
import argparse
import json
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LANGUAGES = "as bn brx doi kok gu hi kn ks mai ml mr mni ne or pa sa sat sd ta te ur".split()
TOKENS = 256
BINS, CHANNELS, HEADS, KERNEL = 80, 256, 8, 9
# Before the graph, positions of this many frames are computed: 8 times 10 ms each.
MOST_FRAMES = 512


class Graph:
    """Nodes and weights, in the order in which they are added."""

    def __init__(self, seed):
        self.nodes, self.weights, self.random, self.count = [], [], np.random.default_rng(seed), 0

    def add(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{kind}_{self.count}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values):
        self.count += 1
        name = f"constant_{self.count}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values))))
        return name

    def weight(self, name, *shape, scale=None):
        inputs = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        values = self.random.standard_normal(shape, np.float32) * np.float32(scale if scale is not None else inputs**-0.5)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def filled(self, name, value, *shape):
        self.weights.append(numpy_helper.from_array(np.full(shape, value, np.float32), name))
        return name

    def linear(self, x, name, inputs, outputs, bias=True):
        y = self.add("MatMul", x, self.weight(f"onnx__MatMul_{name}", inputs, outputs))
        return self.add("Add", self.filled(f"{name}.bias", 0, outputs), y) if bias else y

    def norm(self, x, name, width):
        scale, shift = self.filled(f"{name}.weight", 1, width), self.filled(f"{name}.bias", 0, width)
        return self.add("LayerNormalization", x, scale, shift, axis=-1)

    def swish(self, x):
        return self.add("Mul", x, self.add("Sigmoid", x))

    def conv(self, x, name, outputs, inputs, *kernel, **attributes):
        weight = self.weight(f"{name}.weight", outputs, inputs, *kernel)
        return self.add("Conv", x, weight, self.filled(f"{name}.bias", 0, outputs), **attributes)


def feed_forward(g, x, name, width):
    y = g.swish(g.linear(g.norm(x, f"{name}.norm", width), f"{name}.linear1", width, 4 * width))
    y = g.linear(y, f"{name}.linear2", 4 * width, width)
    return g.add("Add", x, g.add("Mul", y, g.constant(np.float32(0.5))))


def attention(g, x, name, width, positions):
    """Relative positions: the scores of all distances are computed, and each row is shifted to its own."""
    each = width // HEADS
    y = g.norm(x, f"{name}.norm", width)
    split = lambda z: g.add("Reshape", z, g.constant(np.array([1, -1, HEADS, each])))
    q = split(g.linear(y, f"{name}.linear_q", width, width))
    k = g.add("Transpose", split(g.linear(y, f"{name}.linear_k", width, width)), perm=[0, 2, 3, 1])
    v = g.add("Transpose", split(g.linear(y, f"{name}.linear_v", width, width)), perm=[0, 2, 1, 3])
    p = g.add("Transpose", split(g.linear(positions, f"{name}.linear_pos", width, width, bias=False)), perm=[0, 2, 3, 1])
    with_bias = lambda kind: g.add("Transpose", g.add("Add", q, g.weight(f"{name}.pos_bias_{kind}", HEADS, each)), perm=[0, 2, 1, 3])
    by_content = g.add("MatMul", with_bias("u"), k)
    by_distance = g.add("MatMul", with_bias("v"), p)
    shape = g.add("Shape", by_distance)
    one = lambda n: g.constant(np.array([n]))
    rows, columns = g.add("Slice", shape, one(2), one(3)), g.add("Slice", shape, one(3), one(4))
    padded = g.add("Pad", by_distance, g.constant(np.array([0, 0, 0, 1, 0, 0, 0, 0])))
    turned = g.add("Reshape", padded, g.add("Concat", one(1), one(HEADS), g.add("Add", columns, one(1)), rows, axis=0))
    shifted = g.add("Reshape", g.add("Slice", turned, one(1), one(1 << 30), one(2)), shape)
    near = g.add("Slice", shifted, one(0), rows, one(3))
    scores = g.add("Mul", g.add("Add", by_content, near), g.constant(np.float32(each**-0.5)))
    mixed = g.add("Transpose", g.add("MatMul", g.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    joined = g.add("Reshape", mixed, g.constant(np.array([1, -1, width])))
    return g.add("Add", x, g.linear(joined, f"{name}.linear_out", width, width))


def convolution(g, x, name, width):
    y = g.add("Transpose", g.norm(x, f"{name}.norm", width), perm=[0, 2, 1])
    y = g.conv(y, f"{name}.pointwise_conv1", 2 * width, width, 1)
    a, b = g.add("Split", y, outputs=2, axis=1, num_outputs=2)
    y = g.add("Mul", a, g.add("Sigmoid", b))
    half = KERNEL // 2
    y = g.swish(g.conv(y, f"{name}.depthwise_conv", width, 1, KERNEL, group=width, pads=[half, half]))
    y = g.add("Transpose", g.conv(y, f"{name}.pointwise_conv2", width, width, 1), perm=[0, 2, 1])
    return g.add("Add", x, y)


def encoder(layers, width):
    g = Graph(1)
    x = g.add("Unsqueeze", g.add("Transpose", "audio_signal", perm=[0, 2, 1]), g.constant(np.array([1])))
    strided = dict(strides=[2, 2], pads=[1, 1, 1, 1])
    x = g.add("Relu", g.conv(x, "pre_encode.conv.0", CHANNELS, 1, 3, 3, **strided))
    for n in (2, 5):
        x = g.conv(x, f"pre_encode.conv.{n}", CHANNELS, 1, 3, 3, group=CHANNELS, **strided)
        x = g.add("Relu", g.conv(x, f"pre_encode.conv.{n + 1}", CHANNELS, CHANNELS, 1, 1))
    x = g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), g.constant(np.array([1, -1, CHANNELS * BINS // 8])))
    x = g.linear(x, "pre_encode.out", CHANNELS * BINS // 8, width)
    frames = g.add("Slice", g.add("Shape", x), g.constant(np.array([1])), g.constant(np.array([2])))
    one = g.constant(np.array([1]))
    middle = g.constant(np.array([MOST_FRAMES]))
    place = np.arange(MOST_FRAMES - 1, -MOST_FRAMES, -1)[:, None]
    angle = place * np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
    table = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(1, -1, width).astype(np.float32)
    positions = g.add("Slice", g.constant(table), g.add("Sub", middle, frames), g.add("Sub", g.add("Add", middle, frames), one), one)
    for n in range(layers):
        name = f"layers.{n}"
        x = feed_forward(g, x, f"{name}.feed_forward1", width)
        x = attention(g, x, f"{name}.self_attn", width, positions)
        x = convolution(g, x, f"{name}.conv", width)
        x = g.norm(feed_forward(g, x, f"{name}.feed_forward2", width), f"{name}.norm_out", width)
    g.nodes.append(helper.make_node("Transpose", [x], ["outputs"], perm=[0, 2, 1]))
    length = g.add("Add", "length", g.constant(np.array([7])))
    g.nodes.append(helper.make_node("Div", [length, g.constant(np.array([8]))], ["encoded_lengths"]))
    value = helper.make_tensor_value_info
    inputs = [value("audio_signal", TensorProto.FLOAT, ["n", BINS, "t"]), value("length", TensorProto.INT64, ["n"])]
    outputs = [value("outputs", TensorProto.FLOAT, ["n", width, "t8"]), value("encoded_lengths", TensorProto.INT64, ["n"])]
    return model(g, inputs, outputs)


def head(width):
    g = Graph(2)
    count = len(LANGUAGES) * TOKENS + 1
    y = g.conv("encoder_output", "decoder_layers.0", count, width, 1)
    g.nodes.append(helper.make_node("Transpose", [y], ["logprobs"], perm=[0, 2, 1]))
    value = helper.make_tensor_value_info
    return model(g, [value("encoder_output", TensorProto.FLOAT, ["n", width, "t8"])],
                 [value("logprobs", TensorProto.FLOAT, ["n", "t8", count])])


def model(g, inputs, outputs):
    graph = helper.make_graph(g.nodes, "net", inputs, outputs, g.weights)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def place_outside(net, folder):
    """Each weight in a file of its own, as torch's exporter writes a network that is too large for protobuf."""
    for weight in net.graph.initializer:
        with open(os.path.join(folder, weight.name), "wb") as file:
            file.write(weight.raw_data)
        onnx.external_data_helper.set_external_data(weight, weight.name)
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL


def write(folder, layers, width, is_int8):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "encoder.onnx")
    net = encoder(layers, width)
    print(sum(int(np.prod(w.dims)) for w in net.graph.initializer) / 1e6, "million numbers,", len(net.graph.initializer), "files")
    place_outside(net, folder)
    onnx.save(net, path)
    if is_int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        names = [w.name for w in net.graph.initializer]
        quantize_dynamic(path, path + ".int8", weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
        os.replace(path + ".int8", path)
        for name in names:
            os.remove(os.path.join(folder, name))
    onnx.save(head(width), os.path.join(folder, "ctc_decoder.onnx"))
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
