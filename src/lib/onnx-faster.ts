import {
  attributeOf,
  type Encoded,
  editOnnx,
  type FilePart,
  type OnnxGraph,
  type OnnxNode,
  type OnnxTensor,
} from "./onnx-edit.ts";
import { signWeights } from "./onnx-signed.ts";

/*
 * Exporters round a network to bytes operation by operation (`quantize_dynamic`). Convolutions become `ConvInteger`, for which
 * onnxruntime has plain code alone: it rounds one frame for each product, and each channel of its own is a product of its own. The
 * same numbers come of operations that it is fast with: the products of whole numbers are exact, in whichever order they are added.
 */

/** Numbers of ONNX data types. */
const [FLOAT, UINT8, INT64] = [1, 2, 7];
/** Channels of bands come in multiples of this (LAYER_CHANNELS in src/native/onnx/layers.h). */
const REGISTER = 16;
/** The domain of the addon's operations. Those that round have the same outputs as DynamicQuantizeLinear. */
const OWN_DOMAIN = "shruti";
/** Constants with more numbers than this are not looked at. */
const MOST_NUMBERS = 16;
/** By the dimensions of a kernel: how channels become the last dimension, and the second one again. */
const ORDERS: readonly ({ rows: number[]; channels: number[] } | undefined)[] = [
  undefined,
  { rows: [0, 2, 1], channels: [0, 2, 1] },
  { rows: [0, 2, 3, 1], channels: [0, 3, 1, 2] },
];

/**
 * Returns an ONNX file that computes the same in less time.
 *
 * @param path of a file that `readOnnxFile` has accepted
 * @param options `areSigned`: whether the processor multiplies bytes with a sign faster
 * @returns undefined: there is nothing to make faster
 * @throws Error when the file is not a complete ONNX model; RegularFileError; the system's error
 */
export function withFasterProducts(
  path: string,
  { areSigned }: { areSigned: boolean },
): Uint8Array<ArrayBuffer> | undefined {
  return editOnnx(path, (graph) => {
    const isRounded = graph.nodes.some(({ kind }) => kind === "DynamicQuantizeLinear");
    if (graph.isOpen || !isRounded) return false;
    const done = STEPS.map((step) => step(new Network(graph)));
    while (done.some(Boolean) && turnLess(new Network(graph)));
    if (areSigned) done.push(signWeights(graph));
    dropUnread(graph);
    return done.some(Boolean);
  });
}

const STEPS = [
  ...[relativeSoftmaxes, firstConvolutions, separateConvolutions, gatedConvolutions, roundedSwishes],
  ...[pointwiseAsProducts, biasesLast],
];

/** Leaves out nodes whose results nothing reads any more. */
function dropUnread(graph: OnnxGraph): void {
  for (let before = -1; before !== graph.nodes.length; ) {
    before = graph.nodes.length;
    const read = new Set(graph.nodes.flatMap(({ inputs }) => inputs));
    graph.nodes = graph.nodes.filter(({ outputs }) =>
      outputs.some((name) => read.has(name) || graph.ports.has(name)),
    );
  }
}

/** A graph with who makes and reads each value. A change of a node is seen by the next step. */
class Network {
  readonly graph: OnnxGraph;
  private readonly makers = new Map<string, OnnxNode>();
  private readonly readers = new Map<string, OnnxNode[]>();
  private readonly replaced = new Map<OnnxNode, OnnxNode[]>();
  private count = 0;

  constructor(graph: OnnxGraph) {
    this.graph = graph;
    for (const node of graph.nodes) {
      for (const name of node.outputs) this.makers.set(name, node);
      for (const name of node.inputs) {
        const all = this.readers.get(name) ?? [];
        if (all.push(node) === 1) this.readers.set(name, all);
      }
    }
  }

  /** The node of a kind that makes a value. */
  maker(name: string | undefined, kind: string): OnnxNode | undefined {
    const node = this.makers.get(name ?? "");
    return node?.kind === kind && node.domain === "" ? node : undefined;
  }

  readersOf(name: string): readonly OnnxNode[] {
    return this.readers.get(name) ?? [];
  }

  /** The node of a kind that alone reads a value, which nothing else does, the caller included. */
  onlyReader(name: string | undefined, kind: string): OnnxNode | undefined {
    if (name === undefined || this.graph.ports.has(name)) return undefined;
    const [node, ...others] = this.readersOf(name);
    return node?.kind === kind && node.domain === "" && others.length === 0 ? node : undefined;
  }

  /** Whether a value is the step of rounded ones: one number. */
  isStep(name: string): boolean {
    const node = this.makers.get(name);
    const isRounding = node?.kind === "DynamicQuantizeLinear" || node?.domain === OWN_DOMAIN;
    return isRounding && node?.outputs[1] === name;
  }

  /** A few numbers that the file itself has. */
  numbers(name: string): number[] | undefined {
    const constant = this.maker(name, "Constant");
    const tensor = this.graph.tensors.get(name) ?? (constant && attribute(constant, "value")?.tensor);
    if (!tensor?.raw || tensor.isElsewhere || countOf(tensor) > MOST_NUMBERS) return undefined;
    const { buffer } = this.graph.read(tensor.raw);
    if (tensor.type === FLOAT) return [...new Float32Array(buffer)];
    return tensor.type === INT64 ? Array.from(new BigInt64Array(buffer), Number) : undefined;
  }

  /** A name for a new value. */
  fresh(): string {
    let name = "";
    do name = `shruti.${this.graph.nodes.length}.${++this.count}`;
    while (this.graph.ports.has(name) || this.graph.tensors.has(name) || this.makers.has(name));
    return name;
  }

  /** Adds weights. @returns their name */
  weights(tensor: Pick<OnnxTensor, "dims" | "type"> & { raw: Encoded; values?: number[] }): string {
    const name = this.fresh();
    this.graph.tensors.set(name, { values: [], isElsewhere: false, ...tensor, name });
    return name;
  }

  /** Leaves out a node, and lets those that read its result read another value. */
  rename(node: OnnxNode, result: string, value: string, touched: Set<OnnxNode>): void {
    this.replace(node, []);
    for (const reader of this.readersOf(result)) {
      change(reader, { inputs: reader.inputs.map((name) => (name === result ? value : name)) });
      touched.add(reader);
    }
  }

  replace(node: OnnxNode, by: OnnxNode[]): void {
    this.replaced.set(node, by);
  }

  /** Takes over what was replaced, and leaves out weights that nothing reads any more. @returns whether anything was */
  finish(): boolean {
    const { graph, replaced } = this;
    graph.nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
    const read = new Set(graph.nodes.flatMap(({ inputs }) => inputs));
    for (const name of graph.tensors.keys())
      if (this.readersOf(name).length > 0 && !read.has(name)) graph.tensors.delete(name);
    return replaced.size > 0;
  }
}

function nodeOf(kind: string, inputs: string[], outputs: string[], attributes: OnnxNode["attributes"] = []) {
  return { kind, domain: "", inputs, outputs, attributes };
}

/** A node of an operation of the addon (src/native/onnx/operations.c). */
const ours = (kind: string, inputs: string[], outputs: string[]) => ({
  ...nodeOf(kind, inputs, outputs),
  domain: OWN_DOMAIN,
});
const turned = (from: string, to: string, order: number[]) =>
  nodeOf("Transpose", [from], [to], [attributeOf("perm", order)]);

/** Changes what a node reads or makes. */
function change(node: OnnxNode, changed: Partial<Pick<OnnxNode, "inputs" | "outputs" | "attributes">>): void {
  Object.assign(node, changed);
  delete node.original;
}

const attribute = (node: OnnxNode, name: string) => node.attributes.find((each) => each.name === name);
/** The order of a transposition. */
const orderOf = (node: OnnxNode) =>
  node.kind === "Transpose" && node.domain === "" ? attribute(node, "perm")?.numbers : undefined;
const areAll = (numbers: readonly number[] | undefined, value: number) =>
  (numbers ?? []).every((each) => each === value);
const countOf = ({ dims }: Pick<OnnxTensor, "dims">) => dims.reduce((product, size) => product * size, 1);

/** A rounded convolution: its weights, and the operations that make floats of its sums. */
type Rounded = {
  conv: OnnxNode;
  /** The rounded input, its step and its zero. */
  input: string;
  inputStep: string;
  inputZero: string;
  weight: OnnxTensor & { raw: FilePart };
  zero: OnnxTensor;
  /** The weights' step. */
  step: string;
  cast: OnnxNode;
  scaled: OnnxNode;
  /** Where in `scaled` the scale is. */
  scale: string;
};

function roundedOf(net: Network, conv: OnnxNode): Rounded | undefined {
  const [input = "", weightName = "", inputZero = "", zeroName = ""] = conv.inputs;
  const { tensors } = net.graph;
  const [weight, zero] = [tensors.get(weightName), tensors.get(zeroName)];
  const cast = net.onlyReader(conv.outputs[0], "Cast");
  const scaled = net.onlyReader(cast?.outputs[0], "Mul");
  const raw = weight?.raw;
  if (conv.kind !== "ConvInteger" || conv.domain !== "" || !weight || !zero || !cast || !scaled) return;
  if (!raw || raw instanceof Uint8Array || [weight, zero].some(({ name }) => net.graph.ports.has(name)))
    return;
  if (weight.type !== UINT8 || weight.isElsewhere || zero.type !== UINT8 || zero.values.length !== 1) return;
  if (attribute(cast, "to")?.number !== FLOAT || attribute(conv, "auto_pad")) return;
  const scale = scaled.inputs.find((name) => name !== cast.outputs[0]) ?? "";
  const steps = net.maker(scale, "Mul")?.inputs ?? [];
  const inputStep = steps.find((name) => net.isStep(name));
  const step = steps.find((name) => countOf(tensors.get(name) ?? { dims: [0] }) === 1);
  if (inputStep === undefined || step === undefined) return;
  return { conv, input, inputStep, inputZero, weight: { ...weight, raw }, zero, step, cast, scaled, scale };
}

/** A bias that is added to each channel: the operation, and its numbers. */
function biasOf(net: Network, of: string | undefined, channels: number) {
  const add = net.onlyReader(of, "Add");
  const other = add?.inputs.find((name) => name !== of);
  const source = net.maker(other, "Reshape")?.inputs[0] ?? other;
  const bias = net.graph.tensors.get(source ?? "");
  if (!add || !bias?.raw || bias.type !== FLOAT || bias.isElsewhere || countOf(bias) !== channels) return;
  return { add, raw: bias.raw };
}

/** Makes products of matrices of convolutions with a kernel of 1: a row for each frame, or for each band, times a matrix. */
function pointwiseAsProducts(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const [outputs = 0, inputs = 0, ...kernel] = rounded?.weight.dims ?? [];
    const order = ORDERS[kernel.length];
    if (!rounded || !order || !areAll(kernel, 1) || !isPlain(conv)) continue;
    const { input, inputZero, weight, zero, cast, scaled, scale } = rounded;
    const last = biasOf(net, scaled.outputs[0], outputs);
    const raw = { ...weight.raw, change: transposition(outputs, inputs) };
    const matrix = net.weights({ dims: [inputs, outputs], type: UINT8, raw });
    const matrixZero = net.weights({
      ...{ dims: [], type: UINT8 },
      ...{ raw: Uint8Array.from(zero.values), values: zero.values },
    });
    const [rows, sums, floats, products] = [net.fresh(), net.fresh(), net.fresh(), net.fresh()];
    net.replace(conv, [
      turned(input, rows, order.rows),
      nodeOf("MatMulInteger", [rows, matrix, inputZero, matrixZero], [sums]),
    ]);
    const result = (last?.add ?? scaled).outputs[0] ?? "";
    change(cast, { inputs: [sums], outputs: [floats] });
    change(scaled, { inputs: [floats, scale], outputs: [products] });
    if (last) {
      const sum = net.fresh();
      const bias = net.weights({ dims: [outputs], type: FLOAT, raw: last.raw });
      change(last.add, { inputs: [products, bias], outputs: [sum] });
      net.replace(last.add, [last.add, turned(sum, result, order.channels)]);
    } else net.replace(scaled, [scaled, turned(products, result, order.channels)]);
  }
  return net.finish();
}

/** Whether a convolution is one of all channels, frame by frame. */
function isPlain(conv: OnnxNode): boolean {
  const [group, strides, pads] = ["group", "strides", "pads"].map((name) => attribute(conv, name));
  return (group?.number ?? 1) === 1 && areAll(strides?.numbers, 1) && areAll(pads?.numbers, 0);
}

/** Moves transpositions behind what does not know the order, until two of them are one or none. */
function turnLess(net: Network): boolean {
  const touched = new Set<OnnxNode>();
  for (const turn of net.graph.nodes) {
    const order = orderOf(turn);
    const [source = ""] = turn.inputs;
    const [result = ""] = turn.outputs;
    const [next, ...others] = net.readersOf(result);
    if (!order || !next || others.length > 0 || net.graph.ports.has(result)) continue;
    if (touched.has(turn) || touched.has(next) || next.domain !== "") continue;
    const second = orderOf(next);
    const [after = "", ...more] = next.outputs;
    if (second) {
      const joined = second.map((at) => order[at] ?? 0);
      const isNone = joined.every((at, place) => at === place) && !net.graph.ports.has(after);
      net.replace(turn, []);
      if (!isNone) net.replace(next, [turned(source, after, joined)]);
      else net.rename(next, after, source, touched);
    } else if (ORDERLESS.has(next.kind) && !net.graph.ports.has(after)) {
      const before = net.fresh();
      net.replace(turn, []);
      net.replace(next, [
        { ...nodeOf(next.kind, [source], [before, ...more], next.attributes) },
        turned(before, after, order),
      ]);
    } else continue;
    touched.add(turn).add(next);
  }
  return net.finish();
}

/** Operations on each number alone. */
const ORDERLESS = new Set(["Relu", "DynamicQuantizeLinear"]);

/** Joins gates (GLU), a convolution with a kernel for each channel, its bias and swish to one operation over frames. */
function gatedConvolutions(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const [channels = 0, inputs = 0, taps = 0, ...more] = rounded?.weight.dims ?? [];
    if (!rounded || inputs !== 1 || more.length > 0 || taps % 2 === 0 || !isOwn(conv, channels, taps))
      continue;
    const { weight, zero, step, scaled, input } = rounded;
    const rounding = net.maker(input, "DynamicQuantizeLinear");
    const gate = gateOf(net, rounding?.inputs[0]);
    const last = biasOf(net, scaled.outputs[0], channels);
    const swish = swishOf(net, last?.add.outputs[0]);
    if (!rounding || !gate || !last || !swish) continue;
    if (net.onlyReader(input, "ConvInteger") !== conv || !net.onlyReader(rounding.inputs[0], rounding.kind))
      continue;
    const kernels = kernelsOf(net, weight, zero);
    const bias = net.weights({ dims: [channels], type: FLOAT, raw: last.raw });
    const [rows, result, work] = [net.fresh(), net.fresh(), net.fresh()];
    for (const node of [
      rounding,
      conv,
      rounded.cast,
      scaled,
      last.add,
      swish.sigmoid,
      gate.product,
      gate.sigmoid,
    ])
      net.replace(node, []);
    net.replace(gate.split, [turned(gate.split.inputs[0] ?? "", rows, [0, 2, 1])]);
    const joined = ours("GatedConvolution", [rows, kernels, step, bias], [result, work]);
    net.replace(swish.product, [joined, turned(result, swish.product.outputs[0] ?? "", [0, 2, 1])]);
  }
  return net.finish();
}

/** Makes one operation of the first convolution of the bands and the rounding behind it, and leaves channels last. */
function firstConvolutions(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const halving = rounded && halvingOf(net, rounded, 1);
    const relu = net.onlyReader(halving?.last.add.outputs[0], "Relu");
    const next = net.onlyReader(relu?.outputs[0], "DynamicQuantizeLinear");
    if (!rounded || !halving || !relu || !next) continue;
    const { cast, scaled } = rounded;
    const rounding = net.maker(rounded.input, "DynamicQuantizeLinear");
    if (!rounding || net.onlyReader(rounded.input, "ConvInteger") !== conv) continue;
    const [bytes = "", step = "", zero = ""] = next.outputs;
    const turnedBytes = net.fresh();
    const inputs = [rounding.inputs[0] ?? "", ...halving.weights];
    for (const node of [rounding, conv, cast, scaled, halving.last.add, relu]) net.replace(node, []);
    net.replace(next, [
      ours("FirstConvolution", inputs, [turnedBytes, step, zero, net.fresh()]),
      turned(turnedBytes, bytes, [0, 3, 1, 2]),
    ]);
  }
  return net.finish();
}

/** The same of convolutions of the bands with a kernel for each channel. */
function separateConvolutions(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const halving = rounded && halvingOf(net, rounded, rounded.weight.dims[0] ?? 0);
    const next = net.onlyReader(halving?.last.add.outputs[0], "DynamicQuantizeLinear");
    if (!rounded || !halving || !next) continue;
    const { input, inputStep, inputZero, cast, scaled } = rounded;
    const [bytes = "", step = "", zero = ""] = next.outputs;
    const [rows, turnedBytes] = [net.fresh(), net.fresh()];
    for (const node of [conv, cast, scaled, halving.last.add]) net.replace(node, []);
    net.replace(next, [
      turned(input, rows, [0, 2, 3, 1]),
      ours(
        "SeparateConvolution",
        [rows, inputStep, inputZero, ...halving.weights],
        [turnedBytes, step, zero],
      ),
      turned(turnedBytes, bytes, [0, 3, 1, 2]),
    ]);
  }
  return net.finish();
}

/** The kernels of a convolution of 3 × 3 that halves frames and bands, their step and the bias, with channels last. */
function halvingOf(net: Network, { conv, weight, zero, step, scaled }: Rounded, group: number) {
  const [channels = 0, inputs = 0, ...kernel] = weight.dims;
  const [of, strides, pads, dilations] = ["group", "strides", "pads", "dilations"].map((name) =>
    attribute(conv, name),
  );
  const isHalving =
    `${kernel}` === "3,3" && `${strides?.numbers}` === "2,2" && `${pads?.numbers}` === "1,1,1,1";
  const last = biasOf(net, scaled.outputs[0], channels);
  if (!isHalving || !areAll(dilations?.numbers, 1) || inputs !== 1 || (of?.number ?? 1) !== group) return;
  if (channels % REGISTER !== 0 || !last) return;
  const bias = net.weights({ dims: [channels], type: FLOAT, raw: last.raw });
  return { last, weights: [kernelsOf(net, weight, zero), step, bias] };
}

/** Adds kernels as whole numbers, with channels last. @returns their name */
function kernelsOf(
  net: Network,
  { dims, raw }: Rounded["weight"],
  { values: [least = 0] }: OnnxTensor,
): string {
  const [channels = 0] = dims;
  const bytes = net.graph.read(raw);
  const taps = bytes.length / channels;
  const numbers = new Float32Array(bytes.length);
  for (const [at, value] of bytes.entries())
    numbers[(at % taps) * channels + Math.floor(at / taps)] = value - least;
  return net.weights({ dims: [taps, channels], type: FLOAT, raw: new Uint8Array(numbers.buffer) });
}

/** Whether a convolution has a kernel for each channel, and as many frames as before. */
function isOwn(conv: OnnxNode, channels: number, taps: number): boolean {
  const [group, strides, dilations, pads] = ["group", "strides", "dilations", "pads"].map((name) =>
    attribute(conv, name),
  );
  if (!areAll(strides?.numbers, 1) || !areAll(dilations?.numbers, 1)) return false;
  return group?.number === channels && `${pads?.numbers}` === `${[(taps - 1) / 2, (taps - 1) / 2]}`;
}

/** The gates that a value comes from: half of the channels times the sigmoid of the others. */
function gateOf(net: Network, value: string | undefined) {
  const product = net.maker(value, "Mul");
  const sigmoid = net.maker(product?.inputs[1], "Sigmoid");
  const split = net.maker(product?.inputs[0], "Split");
  if (!product || !sigmoid || !split || attribute(split, "axis")?.number !== 1 || split.outputs.length !== 2)
    return;
  const [values, gates] = split.outputs;
  const isGate = product.inputs[0] === values && sigmoid.inputs[0] === gates;
  const isAlone =
    net.onlyReader(values, "Mul") &&
    net.onlyReader(gates, "Sigmoid") &&
    net.onlyReader(sigmoid.outputs[0], "Mul");
  return isGate && isAlone ? { product, sigmoid, split } : undefined;
}

/** The product of a value and its sigmoid, where nothing else reads either. */
function swishOf(net: Network, value: string | undefined) {
  const readers = net.readersOf(value ?? "");
  const sigmoid = readers.find(({ kind, domain }) => kind === "Sigmoid" && domain === "");
  const product = net.onlyReader(sigmoid?.outputs[0], "Mul");
  if (!sigmoid || !product || readers.length !== 2 || !readers.includes(product)) return;
  return net.graph.ports.has(value ?? "") ? undefined : { sigmoid, product };
}

/** Joins swish and the rounding behind it. */
function roundedSwishes(net: Network): boolean {
  for (const sigmoid of net.graph.nodes) {
    if (sigmoid.kind !== "Sigmoid" || sigmoid.domain !== "") continue;
    const [value = ""] = sigmoid.inputs;
    const swish = swishOf(net, value);
    const rounding = net.onlyReader(swish?.product.outputs[0], "DynamicQuantizeLinear");
    if (!swish || !rounding) continue;
    for (const node of [sigmoid, swish.product]) net.replace(node, []);
    net.replace(rounding, [ours("RoundedSwish", [value], [...rounding.outputs])]);
  }
  return net.finish();
}

/**
 * Joins the scores of attention with relative positions: those of distances, each row of which is shifted to its own frame by a
 * column of zeros and two reshapes, are added to those of frames and become weights.
 */
function relativeSoftmaxes(net: Network): boolean {
  for (const softmax of net.graph.nodes) {
    if (softmax.kind !== "Softmax" || softmax.domain !== "") continue;
    const scaled = net.maker(softmax.inputs[0], "Mul");
    const scale = scaled?.inputs.find((name) => net.numbers(name)?.length === 1);
    const sum = net.maker(
      scaled?.inputs.find((name) => name !== scale),
      "Add",
    );
    const shifts = sum?.inputs.map((name) => shiftOf(net, name)) ?? [];
    const shift = shifts.find((each) => each !== undefined);
    const content = sum?.inputs[shift === shifts[0] ? 1 : 0];
    const isLast = LAST_AXES.has(attribute(softmax, "axis")?.number ?? -1);
    if (!scaled || !sum || !shift || !scale || content === undefined || !isLast) continue;
    if (!net.onlyReader(scaled.outputs[0], "Softmax") || !net.onlyReader(sum.outputs[0], "Mul")) continue;
    for (const node of [scaled, sum, ...shift.nodes]) net.replace(node, []);
    net.replace(softmax, [ours("RelativeSoftmax", [content, shift.distance, scale], [...softmax.outputs])]);
  }
  return net.finish();
}

/** The last of four dimensions, from the beginning or, as the file has -1, from the end. */
const LAST_AXES = new Set([-1, 3, 2 ** 64 - 1, 2 ** 64]);

/** The scores of distances that are shifted to a value. */
function shiftOf(net: Network, value: string) {
  const near = net.maker(value, "Slice");
  const shifted = net.maker(near?.inputs[0], "Reshape");
  const cut = net.maker(shifted?.inputs[0], "Slice");
  const reshaped = net.maker(cut?.inputs[0], "Reshape");
  const padded = net.maker(reshaped?.inputs[0], "Pad");
  const distance = padded?.inputs[0];
  if (!near || !shifted || !cut || !reshaped || !padded || distance === undefined) return;
  const is = (node: OnnxNode, input: number, numbers: number[]) =>
    `${net.numbers(node.inputs[input] ?? "")}` === `${numbers}`;
  const isShift =
    is(padded, 1, [0, 0, 0, 1, 0, 0, 0, 0]) &&
    is(cut, 1, [1]) &&
    is(cut, 3, [2]) &&
    is(near, 1, [0]) &&
    is(near, 3, [3]);
  const nodes = [near, shifted, cut, reshaped, padded];
  const areAlone = nodes.every(({ outputs }) => net.readersOf(outputs[0] ?? "").length === 1);
  return isShift && areAlone ? { nodes, distance } : undefined;
}

/** Puts the bias of a product behind it, where onnxruntime looks for it. */
function biasesLast(net: Network): boolean {
  let isChanged = false;
  for (const add of net.graph.nodes) {
    const [bias = "", product = ""] = add.inputs;
    if (add.kind !== "Add" || add.domain !== "" || net.graph.tensors.get(bias)?.dims.length !== 1) continue;
    const casts = net.maker(product, "Mul")?.inputs.map((name) => net.maker(name, "Cast")) ?? [];
    if (!casts.some((cast) => net.maker(cast?.inputs[0], "MatMulInteger"))) continue;
    change(add, { inputs: [product, bias] });
    isChanged = true;
  }
  return isChanged;
}

/** Bytes of a matrix, in place. They are moved in squares, which stay in the processor's cache. */
function transposition(rows: number, columns: number) {
  const square = 64;
  return (bytes: Uint8Array<ArrayBuffer>) => {
    const from = bytes.slice();
    for (let top = 0; top < rows; top += square)
      for (let left = 0; left < columns; left += square)
        for (let row = top; row < Math.min(rows, top + square); row++)
          for (let column = left; column < Math.min(columns, left + square); column++)
            bytes[column * rows + row] = from[row * columns + column] ?? 0;
  };
}
