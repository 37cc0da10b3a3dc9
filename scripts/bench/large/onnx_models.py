"""Writes generated FastConformers as ONNX, in the layouts that sherpa-onnx and onnx-asr read, for scripts/bench/large.ts.

usage: onnx_models.py ctc LAYERS WIDTH f32|int8 FOLDER      a CTC model with random weights, which Shruti reads, too
       onnx_models.py tdt FILE f32|int8 FOLDER              the weights of a TDT model in Shruti's form (f16), for the others

int8 is what their own exports make: dynamic 8 bits, unsigned for the encoder. Needs numpy, onnx and onnxruntime."""
import json
import os
import re
import struct
import sys

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models"))
from fast_conformer import FLOAT, INT32, Graph, RandomWeights, encoded_lengths, encoder, features, model, port

# IndicConformer's: 256 tokens of each of 22 languages, and bands of its features.
CTC_TOKENS, CTC_BINS = 22 * 256, 80
# Of weights in one file, which is bounded by 2 GB.
MOST_BYTES = 1_900_000_000


class CtcWeights(RandomWeights):
    """Random weights with a head that writes a token in about every second frame, and is sure of it."""

    def matrix(self, name, inputs, outputs):
        # Attention averages frames. With less of it, frames stay different through all layers.
        return super().matrix(name, inputs, outputs) * (0.3 if name.endswith("linear_out") else 1)

    def kernel(self, name, shape):
        values = super().kernel(name, shape)
        if name == "head":
            values *= 10
            values[-1] *= 0.3
        return values

    def vector(self, name, count, value):
        values = super().vector(name, count, value)
        if name == "head.bias":
            # About as much as the best of all tokens has.
            values[-1] = 36
        return values


def ctc_model(layers, width):
    g = Graph(CtcWeights(1))
    x = g.add("Transpose", encoder(g, CTC_BINS, layers, width), perm=[0, 2, 1])
    x = g.add("Transpose", g.conv(x, "head", CTC_TOKENS + 1, width, 1), perm=[0, 2, 1])
    g.rename(g.add("LogSoftmax", x, axis=-1), "logprobs")
    metadata = {"vocab_size": CTC_TOKENS, "subsampling_factor": 8, "normalize_type": "per_feature"}
    outputs = [port("logprobs", FLOAT, "n", "t8", CTC_TOKENS + 1)]
    return model(g, features(CTC_BINS), outputs, described(metadata, "EncDecHybridRNNTCTCBPEModel"))


def described(metadata, kind, url=""):
    about = {"model_type": kind, "version": 1, "model_author": "", "url": url, "comment": "random weights"}
    return {key: str(value) for key, value in {**metadata, **about}.items()}


# Names of NeMo's parts and of those in Shruti's file (src/lib/tdt-file.ts).
NAMES = [
    (r"feed_forward(\d)\.linear1$", r"ff\1.up"),
    (r"feed_forward(\d)\.linear2$", r"ff\1.down"),
    (r"feed_forward(\d)\.norm", r"norm_ff\1"),
    (r"self_attn\.norm", "norm_att"),
    (r"self_attn\.linear_pos$", "att.position"),
    (r"self_attn\.pos_bias_", "att.bias_"),
    (r"self_attn\.linear_q$", "att.query"),
    (r"self_attn\.linear_k$", "att.key"),
    (r"self_attn\.linear_v$", "att.value"),
    (r"self_attn\.linear_out$", "att.out"),
    (r"conv\.norm", "norm_conv"),
    (r"conv\.pointwise_conv1", "conv.in"),
    (r"conv\.pointwise_conv2", "conv.out"),
    (r"conv\.depthwise_conv", "conv.depth"),
    (r"^pre_encode\.conv\.(\d)", lambda found: f"subsampling.{[0, 2, 3, 5, 6].index(int(found[1]))}"),
    (r"^pre_encode\.out", "subsampling.out"),
]


class FileWeights:
    """The weights of a TDT model in Shruti's form. Products of its layers have no biases."""

    has_biases = False

    def __init__(self, tensors):
        self.tensors = tensors

    def named(self, name):
        for pattern, to in NAMES:
            name = re.sub(pattern, to, name)
        return self.tensors[name if name in self.tensors else f"{name}.weight"].astype(np.float32)

    def matrix(self, name, inputs, outputs):
        return self.named(name).reshape(outputs, inputs).T

    def kernel(self, name, shape):
        return self.named(name).reshape(shape)

    def table(self, name, shape):
        return self.named(name).reshape(shape)

    def vector(self, name, count, value):
        return self.named(name).reshape(count)


def tensors_of(path):
    """Reads a GGUF file whose weights are floats of 32 or 16 bits."""
    with open(path, "rb") as file:
        take = lambda form: struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))
        text = lambda: file.read(take("Q")[0]).decode()

        def skip(kind):
            if kind == 8:
                text()
            elif kind == 9:
                inner, count = take("IQ")
                for _ in range(count):
                    skip(inner)
            else:
                file.seek({0: 1, 1: 1, 2: 2, 3: 2, 7: 1, 10: 8, 11: 8, 12: 8}.get(kind, 4), 1)

        _magic, _version, count, values = take("4sIQQ")
        for _ in range(values):
            text()
            skip(take("I")[0])
        heads = []
        for _ in range(count):
            name = text()
            shape = take(f"{take('I')[0]}Q")[::-1]
            heads.append((name, shape, *take("IQ")))
        begin = (file.tell() + 31) // 32 * 32
    types = {0: np.float32, 1: np.float16}
    return {name: np.memmap(path, types[kind], "r", begin + offset, shape) for name, shape, kind, offset in heads}


def prediction(g, tensors, targets, states):
    """Adds the prediction net, and returns its results (batch × width × tokens) and the next states. NeMo's order of gates is
    input, forget, cell, output; ONNX's input, output, forget, cell."""
    x = g.add("Gather", g.weight("embedding", tensors["prediction.embedding"]), targets)
    x = g.add("Transpose", x, perm=[1, 0, 2])
    layers = len([name for name in tensors if re.fullmatch(r"prediction\.\d+\.bias", name)])
    nexts = []
    reordered = lambda values: np.concatenate([np.split(values, 4)[n] for n in (0, 3, 1, 2)])
    for n in range(layers):
        part = lambda name: reordered(np.asarray(tensors[f"prediction.{n}.{name}"]))
        input_weights = g.weight(f"lstm.{n}.W", part("input")[None])
        hidden_weights = g.weight(f"lstm.{n}.R", part("hidden")[None])
        bias = g.weight(f"lstm.{n}.B", np.concatenate([part("bias"), np.zeros_like(part("bias"))])[None])
        own = [g.add("Slice", state, *(g.constant(np.array([at])) for at in (n, n + 1, 0))) for state in states]
        hidden = part("hidden").shape[1]
        y, h, c = g.add("LSTM", x, input_weights, hidden_weights, bias, "", *own, outputs=3, hidden_size=hidden)
        x = g.add("Squeeze", y, g.constant(np.array([1])))
        nexts.append((h, c))
    states = [g.add("Concat", *(pair[at] for pair in nexts), axis=0) if layers > 1 else nexts[0][at] for at in (0, 1)]
    return g.add("Transpose", x, perm=[1, 2, 0]), states


def joint(g, tensors, encoded, predicted):
    """Adds the joint net over batch × width × frames and batch × width × tokens."""
    def product(x, name):
        y = g.add("MatMul", x, g.weight(f"onnx__MatMul_{name}", np.asarray(tensors[f"{name}.weight"]).T))
        return g.add("Add", y, g.weight(f"{name}.bias", tensors[f"{name}.bias"]))

    by_frame = product(g.add("Transpose", encoded, perm=[0, 2, 1]), "joint.encoder")
    by_token = product(g.add("Transpose", predicted, perm=[0, 2, 1]), "joint.prediction")
    unsqueezed = lambda x, at: g.add("Unsqueeze", x, g.constant(np.array([at])))
    return product(g.add("Relu", g.add("Add", unsqueezed(by_frame, 2), unsqueezed(by_token, 1))), "joint.out")


def tdt_models(path):
    """Returns the graphs of a TDT model by their names, and the number of its tokens."""
    tensors = tensors_of(path)
    bins = tensors["features.filters"].shape[0]
    width = tensors["layers.0.norm_out.weight"].shape[0]
    layers = len([name for name in tensors if name.endswith("norm_out.weight")])
    tokens = tensors["prediction.embedding"].shape[0] - 1
    outputs = tensors["joint.out.weight"].shape[0]
    depth = len([name for name in tensors if re.fullmatch(r"prediction\.\d+\.bias", name)])
    hidden = tensors["prediction.0.hidden"].shape[1]
    # From "tdt" in the address sherpa-onnx takes that the model has durations.
    metadata = {
        "vocab_size": tokens, "subsampling_factor": 8, "normalize_type": "per_feature",
        "pred_rnn_layers": depth, "pred_hidden": hidden, "feat_dim": bins,
    }
    state = lambda name: port(name, FLOAT, depth, "n", hidden)
    targets = [port("targets", INT32, "n", "u"), port("target_length", INT32, "n")]
    scores = lambda name: port(name, FLOAT, "n", "t8", "u", outputs)
    encoded = port("encoder_outputs", FLOAT, "n", width, "t8")

    g = Graph(FileWeights(tensors))
    g.rename(g.add("Transpose", encoder(g, bins, layers, width), perm=[0, 2, 1]), "outputs")
    encoded_lengths(g)
    results = [port("outputs", FLOAT, "n", width, "t8"), port("encoded_lengths", onnx.TensorProto.INT64, "n")]
    graphs = {"encoder": model(g, features(bins), results, described(metadata, "EncDecRNNTBPEModel", "tdt"))}

    g = Graph(None)
    predicted, states = prediction(g, tensors, "targets", ["states.1", "states.2"])
    for value, name in zip([predicted, "target_length", *states], ["outputs", "prednet_lengths", "states", "next.2"]):
        g.rename(value, name)
    results = [port("outputs", FLOAT, "n", hidden, "u"), port("prednet_lengths", INT32, "n"), state("states"), state("next.2")]
    graphs["decoder"] = model(g, [*targets, state("states.1"), state("states.2")], results)

    g = Graph(None)
    g.rename(joint(g, tensors, "encoder_outputs", "decoder_outputs"), "outputs")
    graphs["joiner"] = model(g, [encoded, port("decoder_outputs", FLOAT, "n", hidden, "u")], [scores("outputs")])

    g = Graph(None)
    predicted, states = prediction(g, tensors, "targets", ["input_states_1", "input_states_2"])
    g.rename(joint(g, tensors, "encoder_outputs", predicted), "outputs")
    for value, name in zip(["target_length", *states], ["prednet_lengths", "output_states_1", "output_states_2"]):
        g.rename(value, name)
    results = [scores("outputs"), port("prednet_lengths", INT32, "n"), state("output_states_1"), state("output_states_2")]
    graphs["decoder_joint"] = model(g, [encoded, *targets, state("input_states_1"), state("input_states_2")], results)
    return graphs, tokens


def save(net, folder, name, is_int8, weight_type):
    """Writes a network in one file, or rounded, with the same metadata. Floats of more than 2 GB go into a file beside it."""
    path = os.path.join(folder, f"{name}.onnx")
    data = f"{name}.onnx.data"
    metadata = {entry.key: entry.value for entry in net.metadata_props}
    is_large = sum(len(weight.raw_data) for weight in net.graph.initializer) > MOST_BYTES
    onnx.save(net, path, save_as_external_data=is_large, all_tensors_to_one_file=True, location=data)
    if not is_int8:
        return
    rounded = path + ".int8"
    quantize_dynamic(path, rounded, weight_type=weight_type)
    net = onnx.load(rounded)
    onnx.helper.set_model_props(net, metadata)
    onnx.save(net, path)
    for left in (rounded, os.path.join(folder, data)):
        if os.path.exists(left):
            os.remove(left)


def write_tokens(folder, count):
    lines = [f"▁t{n} {n}" for n in range(count)] + [f"<blk> {count}"]
    for name in ("tokens.txt", "vocab.txt"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def main(kind, *arguments):
    *of, number_type, folder = arguments
    is_int8 = number_type == "int8"
    os.makedirs(folder)
    if kind == "ctc":
        save(ctc_model(*map(int, of)), folder, "model", is_int8, QuantType.QUInt8)
        write_tokens(folder, CTC_TOKENS)
        settings = {"model_type": "nemo-conformer-ctc", "features_size": CTC_BINS}
    else:
        graphs, tokens = tdt_models(*of)
        for name, net in graphs.items():
            save(net, folder, f"{name}-model", is_int8, QuantType.QUInt8 if name == "encoder" else QuantType.QInt8)
        write_tokens(folder, tokens)
        settings = {"model_type": "nemo-conformer-tdt", "features_size": 128}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**settings, "subsampling_factor": 8}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
