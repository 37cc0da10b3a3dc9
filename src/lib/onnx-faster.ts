import { relativeAttentions } from "./onnx-attentions.ts";
import {
  firstConvolutions,
  gatedConvolutions,
  pointwiseAsProducts,
  separateConvolutions,
  swishOf,
} from "./onnx-convolutions.ts";
import { editOnnx, type OnnxGraph, type OnnxNode } from "./onnx-edit.ts";
import { knownValues } from "./onnx-known.ts";
import { leaveOutMasks, writeSizes } from "./onnx-masks.ts";
import { attribute, change, FLOAT, Network, nodeOf, orderOf, ours, turned } from "./onnx-network.ts";
import { normalizations } from "./onnx-normalizations.ts";
import { byteProducts } from "./onnx-products.ts";
import { signWeights } from "./onnx-signed.ts";

/**
 * Returns an ONNX file that computes the same in less time.
 *
 * @param path of a file that `readOnnxFile` has accepted
 * @param options `areOurs`: whether the addon multiplies bytes faster than onnxruntime; `areSigned`: whether onnxruntime multiplies
 *   those with a sign faster
 * @returns undefined: there is nothing to make faster
 * @throws Error when the file is not a complete ONNX model; RegularFileError; the system's error
 */
export function withFasterProducts(
  path: string,
  { areSigned, areOurs }: { areSigned: boolean; areOurs: boolean },
): Uint8Array<ArrayBuffer> | undefined {
  return editOnnx(path, (graph) => {
    const isRounded = graph.nodes.some(({ kind }) => kind === "DynamicQuantizeLinear");
    if (graph.isOpen || !isRounded) return false;
    const done = [withoutPadding(graph), ...STEPS.map((step) => step(new Network(graph)))];
    // Each round moves a transposition behind another node, so more rounds than nodes are those of a circle.
    for (
      let left = graph.nodes.length;
      left > 0 && done.some(Boolean) && turnLess(new Network(graph));
      left--
    );
    if (done.some(Boolean)) dropUnread(graph);
    done.push(relativeAttentions(new Network(graph)), normalizations(new Network(graph)));
    if (areOurs) done.push(byteProducts(new Network(graph)));
    if (areSigned) done.push(signWeights(graph));
    dropUnread(graph);
    return done.some(Boolean);
  });
}

/** Leaves out what networks compute for sounds that are padded. */
function withoutPadding(graph: OnnxGraph): boolean {
  const known = knownValues(graph);
  if (!known) return false;
  const done = [leaveOutMasks, writeSizes].map((step) => step(new Network(graph), known));
  if (!done.some(Boolean)) return false;
  dropUnread(graph);
  return true;
}

const STEPS = [
  ...[relativeSoftmaxes, firstConvolutions, separateConvolutions, gatedConvolutions, roundedSwishes],
  ...[pointwiseAsProducts, biasesLast],
];

/** Leaves out nodes and weights that nothing reads any more. */
function dropUnread(graph: OnnxGraph): void {
  for (let before = -1; before !== graph.nodes.length; ) {
    before = graph.nodes.length;
    const read = new Set(graph.nodes.flatMap(({ inputs }) => inputs));
    graph.nodes = graph.nodes.filter(({ outputs }) =>
      outputs.some((name) => read.has(name) || graph.ports.has(name)),
    );
  }
  const read = new Set(graph.nodes.flatMap(({ inputs }) => inputs));
  for (const name of graph.tensors.keys())
    if (!read.has(name) && !graph.ports.has(name)) graph.tensors.delete(name);
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
    const found = scaledOf(net, softmax.inputs[0]);
    const sum = net.maker(found?.value, "Add");
    const shifts = sum?.inputs.map((name) => shiftOf(net, name)) ?? [];
    const shift = shifts.find((each) => each !== undefined);
    const content = sum?.inputs[shift === shifts[0] ? 1 : 0];
    const isLast = LAST_AXES.has(attribute(softmax, "axis")?.number ?? -1);
    if (!found || !sum || !shift || content === undefined || !isLast) continue;
    const { by, factor } = found;
    if (!net.onlyReader(by.outputs[0], "Softmax") || !net.onlyReader(sum.outputs[0], by.kind)) continue;
    for (const node of [by, sum, ...shift.nodes]) net.replace(node, []);
    const scale = net.weights({ dims: [], type: FLOAT, raw: new Uint8Array(Float32Array.of(factor).buffer) });
    net.replace(softmax, [ours("RelativeSoftmax", [content, shift.distance, scale], [...softmax.outputs])]);
  }
  return net.finish();
}

/** The last of four dimensions, from the beginning or from the end. */
const LAST_AXES = new Set([-1, 3]);

/** The product of a value and a number, or its quotient: the operation, the value, and what it is multiplied by. */
function scaledOf(net: Network, name: string | undefined) {
  const by = net.maker(name, "Mul") ?? net.maker(name, "Div");
  const scale = by?.inputs.find((each) => net.numbers(each)?.length === 1);
  const [number = 0] = net.numbers(scale ?? "") ?? [];
  const value = by?.inputs.find((each) => each !== scale);
  if (!by || scale === undefined || (by.kind === "Div" && by.inputs[1] !== scale)) return;
  return { by, value, factor: by.kind === "Div" ? 1 / number : number };
}

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
    is(near, 3, [3]) &&
    [cut, near].every(({ inputs: [, , , , step = ""] }) => step === "" || `${net.numbers(step)}` === "1");
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
