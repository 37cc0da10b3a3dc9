import { seededRandom } from "./audio-makers.ts";
import { type Attribute, type Graph, type Node, portOf, type Tensor, tensorOf } from "./onnx-graph.ts";

/**
 * A layer of a FastConformer with random weights, small and with each of its operations, as NeMo 3.0 exports it and `quantize_dynamic`
 * rounds it: with masks of padding, and sizes that are computed from shapes (scripts/models/nemo-export.py makes such files).
 */

const [FLOAT, UINT8, INT8, INT64, BOOL] = [1, 2, 3, 7, 9];
export const ROUNDED_BINS = 80;
export const ROUNDED_TOKENS = 50;
const [HEADS, EACH, TAPS, CHANNELS] = [2, 24, 9, 32];
const WIDTH = HEADS * EACH;
/** The table has positions for this many frames, which a sound of a minute has. */
const MOST_PLACES = 800;

type Attributes = Readonly<Record<string, number | number[]>>;

/** Nodes and weights, in the order in which they are added. */
class Builder {
  readonly nodes: Node[] = [];
  readonly weights: Tensor[] = [];
  private readonly random = seededRandom(11);
  private readonly haveSign: boolean;

  /** @param haveSign whether rounded weights are bytes with a sign */
  constructor(haveSign: boolean) {
    this.haveSign = haveSign;
  }

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

  /** A constant that is a node: a number, or integers. */
  constant(value: number | number[]): string {
    const isList = typeof value !== "number";
    const t = isList
      ? tensorOf("", [value.length], BigInt64Array.from(value, BigInt))
      : tensorOf("", [], Float32Array.of(value));
    return this.own("Constant", [], { name: "value", type: 4, t });
  }

  /** An integer without dimensions. */
  index(value: number): string {
    const t = tensorOf("", [], BigInt64Array.of(BigInt(value)));
    return this.own("Constant", [], { name: "value", type: 4, t });
  }

  /** Adds a node with one attribute as it is. */
  own(op_type: string, input: string[], attribute: Attribute): string {
    const name = `${op_type}_${this.nodes.length}`;
    this.nodes.push({ op_type, input, output: [name], attribute: [attribute] });
    return name;
  }

  /** Ones in a list of some length. */
  ones(length: string): string {
    return this.own("ConstantOfShape", [length], {
      ...{ name: "value", type: 4 },
      t: tensorOf("", [1], BigInt64Array.of(1n)),
    });
  }

  /** A square of truths. */
  expandedOnes(frames: string): string {
    return this.own("ConstantOfShape", [this.list(1, frames, frames)], {
      ...{ name: "value", type: 4 },
      t: { name: "", dims: [1], data_type: BOOL, raw_data: Uint8Array.of(1) },
    });
  }

  /** One dimension of a value. */
  sizeOf(value: string, dimension: number): string {
    return this.add("Gather", [this.add("Shape", [value]), this.index(dimension)], { axis: 0 });
  }

  /** A list of sizes, and of numbers. */
  list(...sizes: (string | number)[]): string {
    const each = sizes.map((size) =>
      typeof size === "number" ? this.constant([size]) : this.add("Unsqueeze", [size, this.constant([0])]),
    );
    return this.add("Concat", each, { axis: 0 });
  }

  /** Repeats a value along dimensions, as the exporter writes it: -1 would keep one. */
  expand(value: string, sizes: string): string {
    const list = this.add("Reshape", [sizes, this.constant([-1])], { allowzero: 0 });
    const ones = this.ones(this.add("Shape", [list]));
    const isKept = this.add("Equal", [list, this.add("Mul", [ones, this.index(-1)])]);
    return this.add("Expand", [value, this.add("Where", [isKept, ones, list])]);
  }

  /** The numbers of `Pad`, which the exporter turns around: some before and behind the last of some dimensions. */
  around(before: number, behind: number, dimensions: number): string {
    const others = this.ones(this.constant([2 * dimensions - 2]));
    const none = this.add("Mul", [others, this.index(0)]);
    const all = this.add("Concat", [this.constant([before, behind]), none], { axis: 0 });
    const pairs = this.add("Reshape", [all, this.constant([-1, 2])], { allowzero: 0 });
    const part = [[-1], [-(2 ** 62)], [0], [-1]].map((numbers) => this.constant(numbers));
    const turned = this.add("Transpose", [this.add("Slice", [pairs, ...part])], { perm: [1, 0] });
    return this.add("Cast", [this.add("Reshape", [turned, this.constant([-1])], { allowzero: 0 })], {
      to: INT64,
    });
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
    const data_type = this.haveSign ? INT8 : UINT8;
    const [shift, zero] = this.haveSign ? [128, 119 - 128] : [0, 119];
    this.weights.push({ name, dims, data_type, raw_data: raw_data.map((value) => value ^ shift) });
    this.weights.push({ name: `${name}_zero`, dims: [], data_type, int32_data: [zero] });
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

  norm(value: string): string {
    return this.add("LayerNormalization", [value, this.floats([WIDTH], 2), this.floats([WIDTH], 0.5)], {
      axis: -1,
    });
  }

  swish(value: string): string {
    return this.add("Mul", [value, this.add("Sigmoid", [value])]);
  }
}

/** Which frames are padding, for attention and for convolutions. */
type Masks = { attention: string; frames: string };

function masksOf(g: Builder, x: string, length: string): Masks {
  const frames = g.sizeOf(x, 1);
  const visible = g.expandedOnes(frames);
  const range = g.add("Range", [g.index(0), g.add("Cast", [frames], { to: INT64 }), g.index(1)]);
  const rows = g.expand(range, g.list(g.sizeOf(length, 0), -1));
  const isSound = g.add("Less", [rows, g.add("Unsqueeze", [length, g.constant([1])])]);
  const repeats = g.list(1, frames, 1);
  const repeated = g.add("Expand", [
    g.add("Unsqueeze", [isSound, g.constant([1])]),
    g.ones(g.add("Shape", [repeats])),
  ]);
  const tile = g.add("Tile", [repeated, repeats]);
  const across = g.add("Cast", [g.add("Transpose", [tile], { perm: [0, 2, 1] })], { to: BOOL });
  const both = g.add("And", [g.add("Cast", [tile], { to: BOOL }), across]);
  const all = g.add("And", [both, g.add("Cast", [visible], { to: BOOL })]);
  return { attention: g.add("Not", [all]), frames: g.add("Not", [isSound]) };
}

function attention(g: Builder, x: string, positions: string, mask: string): string {
  const split = (value: string, of: string) =>
    g.add("Reshape", [value, g.list(g.sizeOf(of, 0), -1, HEADS, EACH)], { allowzero: 0 });
  const linear = (value: string) =>
    split(g.rounded("MatMulInteger", value, [WIDTH, WIDTH], g.floats([WIDTH], 0.1)), value);
  const query = linear(x);
  const biased = () =>
    g.add("Transpose", [g.add("Add", [query, g.floats([HEADS, EACH], 0.1)])], { perm: [0, 2, 1, 3] });
  const key = g.add("Transpose", [linear(x)], { perm: [0, 2, 3, 1] });
  const value = g.add("Transpose", [linear(x)], { perm: [0, 2, 1, 3] });
  const places = split(g.rounded("MatMulInteger", positions, [WIDTH, WIDTH]), positions);
  const far = g.add("MatMul", [biased(), g.add("Transpose", [places], { perm: [0, 2, 3, 1] })]);
  const [batch, heads, rows, columns] = [0, 1, 2, 3].map((at) => g.sizeOf(far, at)) as string[];
  const padded = g.add("Pad", [far, g.around(1, 0, 4), ""]);
  const part = (from: string, to: string, axis: number) =>
    [from, to, g.constant([axis]), g.constant([1])] as const;
  const turned = g.add("Reshape", [padded, g.list(batch ?? "", heads ?? "", -1, rows ?? "")], {
    allowzero: 0,
  });
  const cut = g.add("Slice", [turned, ...part(g.constant([1]), g.constant([2 ** 62]), 2)]);
  const sizes = g.list(batch ?? "", heads ?? "", rows ?? "", columns ?? "");
  const shifted = g.add("Reshape", [cut, sizes], { allowzero: 0 });
  const near = g.add("MatMul", [biased(), key]);
  const frames = g.add("Unsqueeze", [g.sizeOf(near, 3), g.constant([0])]);
  const sum = g.add("Add", [near, g.add("Slice", [shifted, ...part(g.constant([0]), frames, 3)])]);
  const isHidden = g.add("Cast", [g.add("Unsqueeze", [mask, g.constant([1])])], { to: BOOL });
  const scores = g.add("Where", [
    isHidden,
    g.constant(-10_000),
    g.add("Div", [sum, g.constant(EACH ** 0.5)]),
  ]);
  const weights = g.add("Where", [isHidden, g.constant(0), g.add("Softmax", [scores], { axis: -1 })]);
  const mixed = g.add("Transpose", [g.add("MatMul", [weights, value])], { perm: [0, 2, 1, 3] });
  return g.add("Reshape", [mixed, g.list(g.sizeOf(value, 0), -1, WIDTH)], { allowzero: 0 });
}

function convolution(g: Builder, x: string, mask: string): string {
  const turned = g.add("Transpose", [x], { perm: [0, 2, 1] });
  const wide = g.rounded("ConvInteger", turned, [2 * WIDTH, WIDTH, 1], g.floats([2 * WIDTH], 1));
  const half = g.add("Split", [wide], { axis: 1, num_outputs: 2 }, 2);
  const gated = g.add("Mul", [half, g.add("Sigmoid", [`${half}.1`])]);
  const isPadding = g.add("Cast", [g.add("Unsqueeze", [mask, g.constant([1])])], { to: BOOL });
  const sound = g.add("Where", [isPadding, g.constant(0), gated]);
  const padded = g.add("Pad", [sound, g.around((TAPS - 1) / 2, (TAPS - 1) / 2, 3), ""]);
  const plain = { group: WIDTH, pads: [0, 0] };
  const own = g.rounded("ConvInteger", padded, [WIDTH, 1, TAPS], g.floats([WIDTH], 1), plain);
  const mixed = g.rounded("ConvInteger", g.swish(own), [WIDTH, WIDTH, 1], g.floats([WIDTH], 1));
  return g.add("Transpose", [mixed], { perm: [0, 2, 1] });
}

/** A mask of frames for values of the bands, 1 for sound: batch × 1 × frames × bands. */
function bandMask(g: Builder, of: string, length: string): string {
  const [batch, frames, bands] = [0, 2, 3].map((at) => g.sizeOf(of, at)) as [string, string, string];
  const range = g.add("Range", [g.index(0), g.add("Cast", [frames], { to: INT64 }), g.index(1)]);
  const isSound = g.add("Less", [
    g.expand(range, g.list(batch, frames)),
    g.add("Unsqueeze", [length, g.constant([1])]),
  ]);
  const wide = g.expand(g.add("Unsqueeze", [isSound, g.constant([-1])]), g.list(batch, frames, bands));
  return g.add("Unsqueeze", [g.add("Cast", [wide], { to: FLOAT }), g.constant([1])]);
}

/** Three convolutions that halve frames and bands, each value masked. @returns frames, and how many are no padding */
function subsampling(g: Builder): { x: string; length: string } {
  const halving = { strides: [2, 2], pads: [1, 1, 1, 1] };
  const bias = () => g.floats([CHANNELS], 1);
  let x = g.add("Unsqueeze", [g.add("Transpose", ["audio_signal"], { perm: [0, 2, 1] }), g.constant([1])]);
  let exact = g.add("Cast", ["length"], { to: FLOAT });
  let mask = bandMask(g, x, g.add("Cast", [exact], { to: INT64 }));
  const masked = () => {
    x = g.add("Mul", [x, g.expand(mask, g.list(...[0, 1, 2, 3].map((at) => g.sizeOf(x, at))))]);
  };
  const halve = (group: number) => {
    masked();
    x = g.rounded("ConvInteger", x, [CHANNELS, 1, 3, 3], bias(), { ...halving, group });
    const around = g.add("Add", [g.add("Add", [exact, g.constant(1)]), g.constant(1)]);
    const half = g.add("Div", [g.add("Sub", [around, g.constant(3)]), g.constant(2)]);
    const whole = g.add("Cast", [g.add("Cast", [half], { to: INT64 })], { to: FLOAT });
    exact = g.add("Add", [whole, g.constant(1)]);
    mask = bandMask(g, x, g.add("Cast", [exact], { to: INT64 }));
  };
  const relu = () => {
    masked();
    x = g.add("Relu", [x]);
  };
  halve(1);
  relu();
  for (let n = 0; n < 2; n++) {
    halve(CHANNELS);
    masked();
    x = g.rounded("ConvInteger", x, [CHANNELS, CHANNELS, 1, 1], bias());
    relu();
  }
  masked();
  const rows = (CHANNELS * ROUNDED_BINS) / 8;
  const sizes = g.list(g.sizeOf(x, 0), g.sizeOf(x, 2), -1);
  x = g.add("Reshape", [g.add("Transpose", [x], { perm: [0, 2, 1, 3] }), sizes], { allowzero: 0 });
  x = g.rounded("MatMulInteger", x, [rows, WIDTH], g.floats([WIDTH], 1));
  return { x, length: g.add("Cast", [exact], { to: INT64 }) };
}

/** Cuts the positions from a table that are as far away as frames can be from each other. */
function positionsOf(g: Builder, x: string): string {
  const [table, frames] = [g.floats([1, 2 * MOST_PLACES - 1, WIDTH], 2), g.sizeOf(x, 1)];
  const from = g.add("Sub", [g.index(MOST_PLACES), frames]);
  const to = g.add("Sub", [g.add("Add", [g.index(MOST_PLACES), frames]), g.index(1)]);
  const bounds = [from, to].map((at) => g.add("Unsqueeze", [at, g.constant([0])]));
  return g.add("Slice", [table, ...bounds, g.constant([1]), g.constant([1])]);
}

/** Makes the graph. Its result are scores of tokens for every eighth frame of features. */
export function roundedConformer({ haveSign = false } = {}): Graph {
  const g = new Builder(haveSign);
  const { x: sound, length } = subsampling(g);
  let x = g.add("Mul", [sound, g.constant(WIDTH ** 0.5)]);
  const [positions, masks] = [positionsOf(g, x), masksOf(g, x, length)];
  const inner = g.swish(g.rounded("MatMulInteger", g.norm(x), [WIDTH, 4 * WIDTH], g.floats([4 * WIDTH], 1)));
  x = g.add("Add", [x, g.rounded("MatMulInteger", inner, [4 * WIDTH, WIDTH], g.floats([WIDTH], 1))]);
  x = g.add("Add", [x, attention(g, g.norm(x), positions, masks.attention)]);
  x = g.add("Add", [x, convolution(g, g.norm(x), masks.frames)]);
  const head = g.rounded("ConvInteger", g.add("Transpose", [g.norm(x)], { perm: [0, 2, 1] }), [
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
