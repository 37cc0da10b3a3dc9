import type { FilePart, OnnxNode, OnnxTensor } from "./onnx-edit.ts";
import {
  areAll,
  attribute,
  change,
  countOf,
  FLOAT,
  INT8,
  type Network,
  nodeOf,
  ours,
  turned,
  UINT8,
} from "./onnx-network.ts";

/*
 * Exporters round a network to bytes operation by operation (`quantize_dynamic`). Convolutions become `ConvInteger`, for which
 * onnxruntime has plain code alone: it rounds one frame for each product, and each channel of its own is a product of its own. The
 * same numbers come of operations that it is fast with: the products of whole numbers are exact, in whichever order they are added.
 */

/** Channels of bands come in multiples of this (LAYER_CHANNELS in src/native/onnx/layers.h). */
const REGISTER = 16;
/** Types of rounded weights: bytes without a sign and with one. */
const BYTES = new Set([UINT8, INT8]);
/** By the dimensions of a kernel: how channels become the last dimension, and the second one again. */
const ORDERS: readonly ({ rows: number[]; channels: number[] } | undefined)[] = [
  undefined,
  { rows: [0, 2, 1], channels: [0, 2, 1] },
  { rows: [0, 2, 3, 1], channels: [0, 3, 1, 2] },
];

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
  if (
    !raw ||
    raw instanceof Uint8Array ||
    "make" in raw ||
    [weight, zero].some(({ name }) => net.graph.ports.has(name))
  )
    return;
  if (!BYTES.has(weight.type) || weight.isElsewhere || zero.type !== weight.type || zero.values.length !== 1)
    return;
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
export function pointwiseAsProducts(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const [outputs = 0, inputs = 0, ...kernel] = rounded?.weight.dims ?? [];
    const order = ORDERS[kernel.length];
    if (!rounded || !order || !areAll(kernel, 1) || !isPlain(conv)) continue;
    const { input, inputZero, weight, zero, cast, scaled, scale } = rounded;
    const last = biasOf(net, scaled.outputs[0], outputs);
    const raw = { ...weight.raw, change: transposition(outputs, inputs) };
    const { type } = weight;
    const matrix = net.weights({ dims: [inputs, outputs], type, raw });
    const matrixZero = net.weights({
      ...{ dims: [], type },
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

/** Joins gates (GLU), a convolution with a kernel for each channel, its bias and swish to one operation over frames. */
export function gatedConvolutions(net: Network): boolean {
  for (const conv of net.graph.nodes) {
    const rounded = roundedOf(net, conv);
    const [channels = 0, inputs = 0, taps = 0, ...more] = rounded?.weight.dims ?? [];
    if (!rounded || inputs !== 1 || more.length > 0 || taps % 2 === 0) continue;
    const { weight, zero, step, scaled, input } = rounded;
    const rounding = net.maker(input, "DynamicQuantizeLinear");
    const pad = padOf(net, rounding?.inputs[0]);
    if (!isOwn(conv, channels, taps, pad?.around ?? [0, 0])) continue;
    const gate = gateOf(net, pad ? pad.node.inputs[0] : rounding?.inputs[0]);
    const last = biasOf(net, scaled.outputs[0], channels);
    const swish = swishOf(net, last?.add.outputs[0]);
    if (!rounding || !gate || !last || !swish) continue;
    if (net.onlyReader(input, "ConvInteger") !== conv || !net.onlyReader(rounding.inputs[0], rounding.kind))
      continue;
    const kernels = kernelsOf(net, weight, zero);
    const bias = net.weights({ dims: [channels], type: FLOAT, raw: last.raw });
    const [rows, result] = [net.fresh(), net.fresh()];
    for (const node of [
      rounding,
      conv,
      rounded.cast,
      scaled,
      last.add,
      swish.sigmoid,
      gate.product,
      gate.sigmoid,
      ...(pad ? [pad.node] : []),
    ])
      net.replace(node, []);
    net.replace(gate.split, [turned(gate.split.inputs[0] ?? "", rows, [0, 2, 1])]);
    const joined = ours("GatedConvolution", [rows, kernels, step, bias], [result]);
    net.replace(swish.product, [joined, turned(result, swish.product.outputs[0] ?? "", [0, 2, 1])]);
  }
  return net.finish();
}

/** Makes one operation of the first convolution of the bands and the rounding behind it, and leaves channels last. */
export function firstConvolutions(net: Network): boolean {
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
      ours("FirstConvolution", inputs, [turnedBytes, step, zero]),
      turned(turnedBytes, bytes, [0, 3, 1, 2]),
    ]);
  }
  return net.finish();
}

/** The same of convolutions of the bands with a kernel for each channel. */
export function separateConvolutions(net: Network): boolean {
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
  { dims, raw, type }: Rounded["weight"],
  { values: [least = 0] }: OnnxTensor,
): string {
  const [channels = 0] = dims;
  const read = net.graph.read(raw);
  const bytes = type === INT8 ? new Int8Array(read.buffer, read.byteOffset, read.length) : read;
  const taps = bytes.length / channels;
  const numbers = new Float32Array(bytes.length);
  for (const [at, value] of bytes.entries())
    numbers[(at % taps) * channels + Math.floor(at / taps)] = value - least;
  return net.weights({ dims: [taps, channels], type: FLOAT, raw: new Uint8Array(numbers.buffer) });
}

/** Silence that is put around the frames of a value before it is rounded: an operation of its own, and the number of frames. */
function padOf(net: Network, value: string | undefined) {
  const node = net.maker(value, "Pad");
  const [, around = "", filling = "", axes = ""] = node?.inputs ?? [];
  const [from = 0, to = 0] = [2, 5].map((at) => net.numbers(around)?.[at]);
  const isSilence = filling === "" || `${net.numbers(filling)}` === "0";
  const mode = node && attribute(node, "mode")?.text;
  if (!node || `${net.numbers(around)}` !== `${[0, 0, from, 0, 0, to]}` || axes !== "" || !isSilence) return;
  // Negative numbers cut frames off.
  if (from < 0 || to < 0 || !net.onlyReader(node.inputs[0], node.kind)) return;
  return mode === undefined || mode === "constant" ? { node, around: [from, to] } : undefined;
}

/** Whether a convolution has a kernel for each channel, and as many frames as before. @param around frames that were put around */
function isOwn(conv: OnnxNode, channels: number, taps: number, around: number[]): boolean {
  const [group, strides, dilations, pads] = ["group", "strides", "dilations", "pads"].map((name) =>
    attribute(conv, name),
  );
  if (!areAll(strides?.numbers, 1) || !areAll(dilations?.numbers, 1)) return false;
  const all = around.map((count, side) => count + (pads?.numbers?.[side] ?? 0));
  return group?.number === channels && `${all}` === `${[(taps - 1) / 2, (taps - 1) / 2]}`;
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
export function swishOf(net: Network, value: string | undefined) {
  const readers = net.readersOf(value ?? "");
  const sigmoid = readers.find(({ kind, domain }) => kind === "Sigmoid" && domain === "");
  const product = net.onlyReader(sigmoid?.outputs[0], "Mul");
  if (!sigmoid || !product || readers.length !== 2 || !readers.includes(product)) return;
  return net.graph.ports.has(value ?? "") ? undefined : { sigmoid, product };
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
