import { seededRandom } from "./audio-makers.ts";
import { type Attribute, type Graph, type Node, portOf, type Tensor, tensorOf } from "./onnx-graph.ts";

/** A layer of a FastConformer as `quantize_dynamic` writes it, with random weights: small, and with each of its operations. */

const [FLOAT, UINT8, INT64] = [1, 2, 7];
export const ROUNDED_BINS = 80;
export const ROUNDED_TOKENS = 50;
const [HEADS, EACH, TAPS, CHANNELS] = [2, 24, 9, 32];
const WIDTH = HEADS * EACH;

type Attributes = Readonly<Record<string, number | number[]>>;

/** Nodes and weights, in the order in which they are added. */
class Builder {
  readonly nodes: Node[] = [];
  readonly weights: Tensor[] = [];
  private readonly random = seededRandom(11);

  add(op_type: string, input: string[], attributes: Attributes = {}, outputs = 1): string {
    const name = `${op_type}_${this.nodes.length}`;
    const output = Array.from({ length: outputs }, (_, n) => (n === 0 ? name : `${name}.${n}`));
    const attribute = Object.entries(attributes).map(
      ([key, value]): Attribute =>
        typeof value === "number" ? { name: key, type: 2, i: value } : { name: key, type: 7, ints: value },
    );
    this.nodes.push({ op_type, input, output, attribute });
    return name;
  }

  integers(...values: number[]): string {
    const name = `integers_${this.weights.length}`;
    this.weights.push(tensorOf(name, [values.length], BigInt64Array.from(values, BigInt)));
    return name;
  }

  /** A constant that is a node. */
  constant(value: number): string {
    const name = `Constant_${this.nodes.length}`;
    const t = tensorOf("", [], Float32Array.of(value));
    this.nodes.push({
      op_type: "Constant",
      input: [],
      output: [name],
      attribute: [{ name: "value", type: 4, t }],
    });
    return name;
  }

  floats(dims: number[], size: number): string {
    const name = `floats_${this.weights.length}`;
    const count = dims.reduce((product, each) => product * each, 1);
    this.weights.push(
      tensorOf(
        name,
        dims,
        Float32Array.from({ length: count }, () => (this.random() - 0.5) * size),
      ),
    );
    return name;
  }

  /** Rounds a value, multiplies or convolves it with random weights, and adds a bias where one is named. */
  rounded(
    kind: "MatMulInteger" | "ConvInteger",
    value: string,
    dims: number[],
    bias?: string,
    attributes: Attributes = {},
  ) {
    const name = `weight_${this.weights.length}`;
    const count = dims.reduce((product, each) => product * each, 1);
    const raw_data = Uint8Array.from({ length: count }, () => Math.floor(this.random() * 256));
    this.weights.push({ name, dims, data_type: UINT8, raw_data });
    this.weights.push({ name: `${name}_zero`, dims: [], data_type: UINT8, int32_data: [119] });
    const inputs = kind === "MatMulInteger" ? (dims[0] ?? 1) : count / (dims[0] ?? 1);
    const step = 0.014 * inputs ** -0.5;
    this.weights.push(tensorOf(`${name}_scale`, [], Float32Array.of(step)));
    const bytes = this.add("DynamicQuantizeLinear", [value], {}, 3);
    const scale = this.add("Mul", [`${bytes}.1`, `${name}_scale`]);
    const sums = this.add(kind, [bytes, name, `${bytes}.2`, `${name}_zero`], attributes);
    const result = this.add("Mul", [this.add("Cast", [sums], { to: FLOAT }), scale]);
    if (bias === undefined) return result;
    if (kind === "MatMulInteger") return this.add("Add", [bias, result]);
    return this.add("Add", [
      result,
      this.add("Reshape", [bias, this.integers(1, -1, ...dims.slice(2).map(() => 1))]),
    ]);
  }

  swish(value: string): string {
    return this.add("Mul", [value, this.add("Sigmoid", [value])]);
  }
}

function attention(g: Builder, x: string): string {
  const split = (value: string) => g.add("Reshape", [value, g.integers(0, -1, HEADS, EACH)]);
  const linear = (value: string) =>
    split(g.rounded("MatMulInteger", value, [WIDTH, WIDTH], g.floats([WIDTH], 0.1)));
  const query = g.add("Transpose", [linear(x)], { perm: [0, 2, 1, 3] });
  const key = g.add("Transpose", [linear(x)], { perm: [0, 2, 3, 1] });
  const value = g.add("Transpose", [linear(x)], { perm: [0, 2, 1, 3] });
  // Distances are not positions of a table here, but the frames before and after each other.
  const twice = g.add("Slice", [
    g.add("Concat", [x, x], { axis: 1 }),
    g.integers(1),
    g.integers(1 << 30),
    g.integers(1),
  ]);
  const distances = g.add("Transpose", [linear(twice)], { perm: [0, 2, 3, 1] });
  const far = g.add("MatMul", [query, distances]);
  const shape = g.add("Shape", [far]);
  const rows = g.add("Slice", [shape, g.integers(2), g.integers(3)]);
  const columns = g.add("Slice", [shape, g.integers(3), g.integers(4)]);
  const padded = g.add("Pad", [far, g.integers(0, 0, 0, 1, 0, 0, 0, 0)]);
  const longer = g.add("Add", [columns, g.integers(1)]);
  const turned = g.add("Concat", [g.integers(0), g.integers(HEADS), longer, rows], { axis: 0 });
  const cut = g.add("Slice", [
    g.add("Reshape", [padded, turned]),
    g.integers(1),
    g.integers(1 << 30),
    g.integers(2),
  ]);
  const near = g.add("Slice", [g.add("Reshape", [cut, shape]), g.integers(0), rows, g.integers(3)]);
  const sum = g.add("Add", [g.add("MatMul", [query, key]), near]);
  const weights = g.add("Softmax", [g.add("Mul", [sum, g.constant(EACH ** -0.5)])], { axis: -1 });
  const mixed = g.add("Transpose", [g.add("MatMul", [weights, value])], { perm: [0, 2, 1, 3] });
  return g.add("Reshape", [mixed, g.integers(0, -1, WIDTH)]);
}

function convolution(g: Builder, x: string): string {
  const turned = g.add("Transpose", [x], { perm: [0, 2, 1] });
  const wide = g.rounded("ConvInteger", turned, [2 * WIDTH, WIDTH, 1], g.floats([2 * WIDTH], 1));
  const half = g.add("Split", [wide], { axis: 1, num_outputs: 2 }, 2);
  const gated = g.add("Mul", [half, g.add("Sigmoid", [`${half}.1`])]);
  const around = { group: WIDTH, pads: [(TAPS - 1) / 2, (TAPS - 1) / 2] };
  const own = g.rounded("ConvInteger", gated, [WIDTH, 1, TAPS], g.floats([WIDTH], 1), around);
  const mixed = g.rounded("ConvInteger", g.swish(own), [WIDTH, WIDTH, 1], g.floats([WIDTH], 1));
  return g.add("Transpose", [mixed], { perm: [0, 2, 1] });
}

/** Three convolutions that halve frames and bands. */
function subsampling(g: Builder): string {
  const bands = g.add("Unsqueeze", [
    g.add("Transpose", ["audio_signal"], { perm: [0, 2, 1] }),
    g.integers(1),
  ]);
  const halving = { strides: [2, 2], pads: [1, 1, 1, 1] };
  const bias = () => g.floats([CHANNELS], 1);
  let x = g.add("Relu", [g.rounded("ConvInteger", bands, [CHANNELS, 1, 3, 3], bias(), halving)]);
  for (let n = 0; n < 2; n++) {
    x = g.rounded("ConvInteger", x, [CHANNELS, 1, 3, 3], bias(), { ...halving, group: CHANNELS });
    x = g.add("Relu", [g.rounded("ConvInteger", x, [CHANNELS, CHANNELS, 1, 1], bias())]);
  }
  const rows = (CHANNELS * ROUNDED_BINS) / 8;
  x = g.add("Reshape", [g.add("Transpose", [x], { perm: [0, 2, 1, 3] }), g.integers(0, -1, rows)]);
  return g.rounded("MatMulInteger", x, [rows, WIDTH], g.floats([WIDTH], 1));
}

/** Makes the graph. Its result are scores of tokens for every eighth frame of features. */
export function roundedConformer(): Graph {
  const g = new Builder();
  let x = subsampling(g);
  const inner = g.swish(g.rounded("MatMulInteger", x, [WIDTH, 4 * WIDTH], g.floats([4 * WIDTH], 1)));
  x = g.add("Add", [x, g.rounded("MatMulInteger", inner, [4 * WIDTH, WIDTH], g.floats([WIDTH], 1))]);
  x = g.add("Add", [x, attention(g, x)]);
  x = g.add("Add", [x, convolution(g, x)]);
  const head = g.rounded("ConvInteger", g.add("Transpose", [x], { perm: [0, 2, 1] }), [
    ROUNDED_TOKENS,
    WIDTH,
    1,
  ]);
  const last = g.nodes.length;
  g.add("Transpose", [head], { perm: [0, 2, 1] });
  const turn = g.nodes[last];
  if (turn) turn.output = ["logprobs"];
  return {
    ...{ node: g.nodes, name: "net", initializer: g.weights },
    input: [portOf("audio_signal", FLOAT, ["n", ROUNDED_BINS, "t"]), portOf("length", INT64, ["n"])],
    output: [portOf("logprobs", FLOAT, ["n", "t", ROUNDED_TOKENS])],
  };
}
