import type { FilePart, OnnxGraph, OnnxNode } from "./onnx-edit.ts";
import { attribute, FLOAT, type Network, ours, UINT8 } from "./onnx-network.ts";

/*
 * Products of rounded values with rounded weights (`MatMulInteger`, `Cast`, `Mul`, `Add`) as one operation of the addon, with weights
 * in the order in which it reads them (src/native/onnx/products.h). The sums are whole numbers, so they stay the same.
 */

const INT8 = 3;
/** Columns of a panel (PRODUCT_COLUMNS in src/native/onnx/products.h), and bytes of what a column has besides its weights. */
const [COLUMNS, COLUMN_BYTES] = [64, 8];
/** Weights with fewer columns may waste this many bytes. */
const [LEAST_COLUMNS, MOST_WASTED] = [16, 1024 * 1024];

/** Rounded weights: rows × columns, row after row. */
type Weights = {
  raw: Uint8Array | FilePart;
  rows: number;
  columns: number;
  isSigned: boolean;
  /** One, or one for each column. */
  zeros: number[];
};

/** A product with the names of its inputs, and its nodes, the last of which makes the result. */
type Product = {
  weights: Weights;
  inputs: string[];
  step: string;
  bias: string | undefined;
  nodes: OnnxNode[];
};

/** Makes one operation of each product of rounded weights, with its scale, its bias and, where it is rounded then, swish. */
export function byteProducts(net: Network): boolean {
  // Products that share weights share their panels.
  const made = new Map<string, string>();
  for (const node of net.graph.nodes) {
    const product = productOf(net, node);
    const last = product?.nodes.at(-1);
    if (!product || !last) continue;
    const { weights, inputs, step, nodes } = product;
    const shared = JSON.stringify([node.inputs[1], node.inputs[3]]);
    const panels = made.get(shared) ?? panelsOf(net, weights);
    made.set(shared, panels);
    const bias = product.bias ?? net.weights(noBias(weights.columns));
    const [result = ""] = last.outputs;
    const swish = net.onlyReader(result, "RoundedSwish");
    for (const each of nodes) net.replace(each, []);
    const all = [...inputs, panels, step, bias];
    if (swish) net.replace(swish, [ours("ByteProductsSwish", all, [...swish.outputs])]);
    else net.replace(last, [ours("ByteProducts", all, [result])]);
  }
  return net.finish();
}

function panelsOf(net: Network, weights: Weights): string {
  const [count, bytes] = [Math.ceil(weights.columns / COLUMNS), panelBytes(weights.rows)];
  return net.weights({
    ...{ dims: [count, bytes], type: UINT8 },
    raw: { of: weights.raw, length: count * bytes, make: (from, to) => arrangeWeights(from, weights, to) },
  });
}

const noBias = (columns: number) => ({ dims: [columns], type: FLOAT, raw: new Uint8Array(4 * columns) });

function productOf(net: Network, node: OnnxNode): Product | undefined {
  const [bytes = "", weightName = "", zero = "", zeroName = ""] = node.inputs;
  const weights = node.kind === "MatMulInteger" && weightsOf(net.graph, weightName, zeroName);
  const cast = net.onlyReader(node.outputs[0], "Cast");
  const scaled = net.onlyReader(cast?.outputs[0], "Mul");
  if (node.domain !== "" || !weights || !cast || !scaled) return;
  const factors =
    net.maker(scaled.inputs.find((name) => name !== cast.outputs[0]) ?? "", "Mul")?.inputs ?? [];
  const [inputStep = "", step = ""] = net.isStep(factors[0] ?? "") ? factors : factors.toReversed();
  const areOne = net.isStep(inputStep) && net.zeroOf(inputStep) === zero;
  if (!areOne || attribute(cast, "to")?.number !== FLOAT) return;
  const { columns } = weights;
  if (![1, columns].some((count) => isRow(net.graph, step, count))) return;
  const add = net.onlyReader(scaled.outputs[0], "Add");
  const bias = add?.inputs.find((name) => isRow(net.graph, name, columns));
  const nodes = [node, cast, scaled, ...(add && bias !== undefined ? [add] : [])];
  return { weights, inputs: [bytes, inputStep, zero], step, bias, nodes };
}

/** Whether a name is that of so many floats that the file has; one is without a dimension, too. */
function isRow({ tensors }: OnnxGraph, name: string, count: number): boolean {
  const found = tensors.get(name);
  const isLong = `${found?.dims}` === `${count}` || (count === 1 && found?.dims.length === 0);
  return found?.type === FLOAT && !found.isElsewhere && isLong;
}

/** Weights of bytes in two dimensions, with their zeros. An empty name is that of no zero. */
function weightsOf({ tensors, read }: OnnxGraph, name: string, zeroName: string): Weights | undefined {
  const [weight, zero] = [tensors.get(name), tensors.get(zeroName)];
  const [rows = 0, columns = 0, ...more] = weight?.dims ?? [];
  const raw = weight?.raw;
  if (!weight || !raw || "make" in raw || weight.isElsewhere || rows * columns === 0 || more.length > 0)
    return;
  // Few columns fill a small part of a panel, so it would be many times as large as they are.
  if (columns < LEAST_COLUMNS && rows * COLUMNS > MOST_WASTED) return;
  const isSigned = weight.type === INT8;
  if (!isSigned && weight.type !== UINT8) return;
  if (zeroName === "") return { raw, rows, columns, isSigned, zeros: [0] };
  if (zero?.type !== weight.type || zero.isElsewhere || zero.dims.length > 1) return;
  const zeros = zero.raw
    ? [...read(zero.raw)].map((value) => (isSigned ? (value << 24) >> 24 : value))
    : zero.values;
  const areIn = zeros.every((value) => value >= -128 && value <= (isSigned ? 127 : 255));
  const areAll = zeros.length === 1 || zeros.length === columns;
  return areIn && areAll ? { raw, rows, columns, isSigned, zeros } : undefined;
}

/** Bytes of a panel: its weights by fours, then the sum and the zero of each column. */
export const panelBytes = (rows: number) => COLUMNS * (Math.ceil(rows / 4) * 4 + COLUMN_BYTES);

/**
 * Writes weights in panels, with a sign.
 *
 * @param from the weights as the file has them
 * @param to all panels, whose bytes are 0
 */
export function arrangeWeights(
  from: Uint8Array,
  { rows, columns, isSigned, zeros }: Omit<Weights, "raw">,
  to: Uint8Array,
): void {
  // A byte without a sign less 128 is the same byte with another highest bit, read with a sign.
  const moved = isSigned ? 0 : 0x80;
  const bytes = panelBytes(rows);
  const sums = new Int32Array(COLUMNS);
  const numbers = new Int32Array(2 * COLUMNS);
  for (let first = 0; first < columns; first += COLUMNS) {
    const panel = to.subarray((first / COLUMNS) * bytes, (first / COLUMNS + 1) * bytes);
    const count = Math.min(COLUMNS, columns - first);
    sums.fill(0);
    for (let row = 0; row < rows; row++) {
      const start = row * columns + first;
      let at = (row >> 2) * 4 * COLUMNS + (row & 3);
      for (let column = 0; column < count; column++, at += 4) {
        const value = (from[start + column] as number) ^ moved;
        panel[at] = value;
        sums[column] = (sums[column] as number) + ((value << 24) >> 24);
      }
    }
    numbers.fill(0);
    for (let column = 0; column < count; column++) {
      numbers[column] = sums[column] as number;
      numbers[COLUMNS + column] = (zeros[zeros.length === 1 ? 0 : first + column] ?? 0) - moved;
    }
    panel.set(new Uint8Array(numbers.buffer), bytes - numbers.byteLength);
  }
}
