"""Builds the graph of a FastConformer as NeMo exports it to ONNX, with weights that the caller gives: for measurements of time and
memory, where no trained weights are at hand. The layers have relative positions as NeMo has them; masks of padding are left out.

Needs numpy and onnx. indic-shape.py and scripts/bench/large/onnx_models.py use it."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

CHANNELS, HEADS, KERNEL = 256, 8, 9
# Before the graph, positions of this many frames are computed: 8 times 10 ms each.
MOST_FRAMES = 512
INT32, INT64, FLOAT = TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT


class RandomWeights:
    """Random numbers, of a deviation that keeps results at 1. Products have biases, which are zero."""

    has_biases = True

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def normal(self, shape, deviation):
        return self.random.standard_normal(shape, np.float32) * np.float32(deviation)

    def matrix(self, name, inputs, outputs):
        return self.normal((inputs, outputs), inputs**-0.5)

    def kernel(self, name, shape):
        return self.normal(shape, int(np.prod(shape[1:])) ** -0.5)

    def table(self, name, shape):
        return self.normal(shape, shape[0] ** -0.5)

    def vector(self, name, count, value):
        return np.full(count, value, np.float32)


class Graph:
    """Nodes and weights, in the order in which they are added."""

    def __init__(self, source):
        self.source, self.nodes, self.weights, self.count = source, [], [], 0

    def add(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{kind}_{self.count}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def rename(self, value, name):
        """Gives a value the name of an output."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def constant(self, values):
        self.count += 1
        name = f"constant_{self.count}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values))))
        return name

    def weight(self, name, values):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def bias(self, name, count):
        return self.weight(f"{name}.bias", self.source.vector(f"{name}.bias", count, 0))

    def linear(self, x, name, inputs, outputs, bias=None):
        """A product, and a bias where the caller or else the weights say so."""
        y = self.add("MatMul", x, self.weight(f"onnx__MatMul_{name}", self.source.matrix(name, inputs, outputs)))
        has_bias = self.source.has_biases if bias is None else bias
        return self.add("Add", self.bias(name, outputs), y) if has_bias else y

    def norm(self, x, name, width):
        scale = self.weight(f"{name}.weight", self.source.vector(f"{name}.weight", width, 1))
        return self.add("LayerNormalization", x, scale, self.bias(name, width), axis=-1)

    def swish(self, x):
        return self.add("Mul", x, self.add("Sigmoid", x))

    def conv(self, x, name, outputs, inputs, *kernel, bias=True, **attributes):
        weight = self.weight(f"{name}.weight", self.source.kernel(name, (outputs, inputs, *kernel)))
        biases = [self.bias(name, outputs)] if bias else []
        return self.add("Conv", x, weight, *biases, **attributes)


def feed_forward(g, x, name, width):
    y = g.swish(g.linear(g.norm(x, f"{name}.norm", width), f"{name}.linear1", width, 4 * width))
    y = g.linear(y, f"{name}.linear2", 4 * width, width)
    return g.add("Add", x, g.add("Mul", y, g.constant(np.float32(0.5))))


def attention(g, x, name, width, positions):
    """Relative positions: the scores of all distances are computed, and each row is shifted to its own."""
    each = width // HEADS
    y = g.norm(x, f"{name}.norm", width)
    split = lambda z: g.add("Reshape", z, g.constant(np.array([0, -1, HEADS, each])))
    q = split(g.linear(y, f"{name}.linear_q", width, width))
    k = g.add("Transpose", split(g.linear(y, f"{name}.linear_k", width, width)), perm=[0, 2, 3, 1])
    v = g.add("Transpose", split(g.linear(y, f"{name}.linear_v", width, width)), perm=[0, 2, 1, 3])
    p = g.add("Transpose", split(g.linear(positions, f"{name}.linear_pos", width, width, bias=False)), perm=[0, 2, 3, 1])

    def with_bias(kind):
        bias = g.weight(f"{name}.pos_bias_{kind}", g.source.table(f"{name}.pos_bias_{kind}", (HEADS, each)))
        return g.add("Transpose", g.add("Add", q, bias), perm=[0, 2, 1, 3])

    by_content = g.add("MatMul", with_bias("u"), k)
    by_distance = g.add("MatMul", with_bias("v"), p)
    shape = g.add("Shape", by_distance)
    one = lambda n: g.constant(np.array([n]))
    rows, columns = g.add("Slice", shape, one(2), one(3)), g.add("Slice", shape, one(3), one(4))
    padded = g.add("Pad", by_distance, g.constant(np.array([0, 0, 0, 1, 0, 0, 0, 0])))
    turned = g.add("Reshape", padded, g.add("Concat", one(0), one(HEADS), g.add("Add", columns, one(1)), rows, axis=0))
    shifted = g.add("Reshape", g.add("Slice", turned, one(1), one(1 << 30), one(2)), shape)
    near = g.add("Slice", shifted, one(0), rows, one(3))
    scores = g.add("Mul", g.add("Add", by_content, near), g.constant(np.float32(each**-0.5)))
    mixed = g.add("Transpose", g.add("MatMul", g.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    joined = g.add("Reshape", mixed, g.constant(np.array([0, -1, width])))
    return g.add("Add", x, g.linear(joined, f"{name}.linear_out", width, width))


def convolution(g, x, name, width):
    has_biases = g.source.has_biases
    y = g.add("Transpose", g.norm(x, f"{name}.norm", width), perm=[0, 2, 1])
    y = g.conv(y, f"{name}.pointwise_conv1", 2 * width, width, 1, bias=has_biases)
    a, b = g.add("Split", y, outputs=2, axis=1, num_outputs=2)
    y = g.add("Mul", a, g.add("Sigmoid", b))
    half = KERNEL // 2
    y = g.swish(g.conv(y, f"{name}.depthwise_conv", width, 1, KERNEL, group=width, pads=[half, half]))
    y = g.conv(y, f"{name}.pointwise_conv2", width, width, 1, bias=has_biases)
    return g.add("Add", x, g.add("Transpose", y, perm=[0, 2, 1]))


def subsampling(g, bins, width):
    """Three convolutions that halve frames and bands."""
    x = g.add("Unsqueeze", g.add("Transpose", "audio_signal", perm=[0, 2, 1]), g.constant(np.array([1])))
    strided = dict(strides=[2, 2], pads=[1, 1, 1, 1])
    x = g.add("Relu", g.conv(x, "pre_encode.conv.0", CHANNELS, 1, 3, 3, **strided))
    for n in (2, 5):
        x = g.conv(x, f"pre_encode.conv.{n}", CHANNELS, 1, 3, 3, group=CHANNELS, **strided)
        x = g.add("Relu", g.conv(x, f"pre_encode.conv.{n + 1}", CHANNELS, CHANNELS, 1, 1))
    rows = CHANNELS * bins // 8
    x = g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), g.constant(np.array([0, -1, rows])))
    return g.linear(x, "pre_encode.out", rows, width, bias=True)


def encoder(g, bins, layers, width):
    """Adds the encoder to a graph, and returns its results: batch × frames × width."""
    x = subsampling(g, bins, width)
    frames = g.add("Slice", g.add("Shape", x), g.constant(np.array([1])), g.constant(np.array([2])))
    one, middle = g.constant(np.array([1])), g.constant(np.array([MOST_FRAMES]))
    place = np.arange(MOST_FRAMES - 1, -MOST_FRAMES, -1)[:, None]
    angle = place * np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
    table = g.constant(np.stack([np.sin(angle), np.cos(angle)], -1).reshape(1, -1, width).astype(np.float32))
    last = g.add("Sub", g.add("Add", middle, frames), one)
    positions = g.add("Slice", table, g.add("Sub", middle, frames), last, one)
    for n in range(layers):
        name = f"layers.{n}"
        x = feed_forward(g, x, f"{name}.feed_forward1", width)
        x = attention(g, x, f"{name}.self_attn", width, positions)
        x = convolution(g, x, f"{name}.conv", width)
        x = g.norm(feed_forward(g, x, f"{name}.feed_forward2", width), f"{name}.norm_out", width)
    return x


def encoded_lengths(g):
    """Adds the second output of an encoder."""
    length = g.add("Add", "length", g.constant(np.array([7])))
    g.rename(g.add("Div", length, g.constant(np.array([8]))), "encoded_lengths")


def port(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, list(shape))


def features(bins):
    """Inputs of an encoder."""
    return [port("audio_signal", FLOAT, "n", bins, "t"), port("length", INT64, "n")]


def model(g, inputs, outputs, metadata=None):
    graph = helper.make_graph(g.nodes, "net", inputs, outputs, g.weights)
    net = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    helper.set_model_props(net, metadata or {})
    return net
