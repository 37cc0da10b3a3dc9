import { readFileSync } from "node:fs";
import { type Cursor, type Field, readNumbers, visitFields, withOnnxFile } from "./onnx-file.ts";

/*
 * Exporters round the weights of a network to bytes without a sign (`quantize_dynamic` with QUInt8). onnxruntime multiplies bytes
 * with a sign two and a half times as fast on a processor with VNNI. A weight less 128 whose zero is less 128 as well is the same
 * number, and the products are whole numbers, so a network with such weights computes exactly the same.
 */

/** Numbers of ONNX data types. */
const [UINT8, INT8] = [2, 3];
const SIGN = 0x80;
/** Fields of a model and of its graph. */
const [GRAPH, INITIALIZER] = [7, 5];
/** The field of weights in a graph, and one that no graph has and readers leave out. */
const [INITIALIZER_TAG, UNUSED_TAG] = [(INITIALIZER << 3) | 2, (3 << 3) | 2];
/** Fields of an attribute with graphs, whose nodes could use any weight. */
const ATTRIBUTE_GRAPHS = new Set([6, 11]);

/** Weights or zeros within the file. `values`: a zero's, where it is not kept as raw bytes. */
type Bytes = {
  name: string;
  dims: number[];
  type: number;
  /** Where its type is, and where the field of the graph begins. */
  typeAt: number;
  tagAt: number;
  raw?: { from: number; to: number };
  values: number[];
};
/** A product of whole numbers with the weights of a name, and the weights' zero. */
type Product = { weight: string; zero: string };
type Plan = { graph: Pick<Field, "from" | "to">; weights: Bytes[]; zeros: Bytes[] };

/**
 * Returns an ONNX file whose weights of products of whole numbers (`MatMulInteger`) have a sign.
 *
 * @param path of a file that `readOnnxFile` has accepted
 * @returns undefined: there are no such weights without a sign
 * @throws Error when the file is not a complete ONNX model; RegularFileError; the system's error
 */
export function withSignedWeights(path: string): Uint8Array<ArrayBuffer> | undefined {
  const { graph, weights, zeros } = withOnnxFile(path, planOf);
  if (weights.length === 0) return undefined;
  const file = readFileSync(path);
  const more = Buffer.concat(zeros.map((zero) => field(INITIALIZER, tensorOf(zero, zeroValues(zero, file)))));
  // The graph is one field, which becomes longer. Nothing within it knows its place.
  const length = graph.to - graph.from;
  const head = field(GRAPH, new Uint8Array(0), length + more.length);
  const start = graph.from - field(GRAPH, new Uint8Array(0), length).length;
  const moved = start + head.length - graph.from;
  const bytes = new Uint8Array(file.length + moved + more.length);
  bytes.set(file.subarray(0, start));
  bytes.set(head, start);
  bytes.set(file.subarray(graph.from, graph.to), graph.from + moved);
  bytes.set(more, graph.to + moved);
  bytes.set(file.subarray(graph.to), graph.to + moved + more.length);
  for (const { raw, typeAt } of weights) {
    if (raw) changeSigns(bytes.subarray(raw.from + moved, raw.to + moved));
    bytes[typeAt + moved] = INT8;
  }
  for (const { tagAt } of zeros) bytes[tagAt + moved] = UNUSED_TAG;
  return bytes;
}

/** Finds the weights that can be changed: all that is multiplied by them is a product of whole numbers, with a zero of its own. */
function planOf(cursor: Cursor, size: number): Plan {
  const known = new Map<string, Bytes>();
  const products: Product[] = [];
  const others = new Set<string>();
  let hasInner = false;
  let graph: Plan["graph"] = { from: 0, to: 0 };
  visitFields(cursor, 0, size, (field) => {
    if (field.number !== GRAPH) return;
    graph = field;
    visitFields(cursor, field.from, field.to, (part) => {
      if (part.number === 1) hasInner ||= noteNode(cursor, part, products, others);
      if (part.number === INITIALIZER) noteBytes(cursor, part, known);
      if (part.number === 12)
        visitFields(cursor, part.from, part.to, (name) => {
          if (name.number === 1) others.add(cursor.text(name.from, name.to));
        });
    });
  });
  if (hasInner) return { graph, weights: [], zeros: [] };
  const isOne = (name: string) => known.has(name) && !others.has(name);
  // A product whose weights or zero stay keeps the other one, too, and with it those of further products.
  for (let before = -1; before !== others.size; ) {
    before = others.size;
    for (const { weight, zero } of products)
      if (!isOne(weight) || !isOne(zero) || known.get(weight)?.raw === undefined)
        others.add(weight).add(zero);
  }
  const chosen = (names: string[]) =>
    [...new Set(names)].filter(isOne).flatMap((name) => known.get(name) ?? []);
  return {
    graph,
    weights: chosen(products.map(({ weight }) => weight)),
    zeros: chosen(products.map(({ zero }) => zero)),
  };
}

/** Notes what a node reads. @returns whether it has graphs of its own */
function noteNode(cursor: Cursor, node: Field, products: Product[], others: Set<string>): boolean {
  const inputs: string[] = [];
  let [kind, domain] = ["", ""];
  let hasGraph = false;
  visitFields(cursor, node.from, node.to, (part) => {
    if (part.number === 1) inputs.push(cursor.text(part.from, part.to));
    if (part.number === 4) kind = cursor.text(part.from, part.to);
    if (part.number === 7) domain = cursor.text(part.from, part.to);
    if (part.number !== 5) return;
    visitFields(cursor, part.from, part.to, ({ number }) => {
      hasGraph ||= ATTRIBUTE_GRAPHS.has(number);
    });
  });
  const [, weight, , zero] = inputs;
  const isProduct = kind === "MatMulInteger" && domain === "" && weight && zero;
  if (isProduct) products.push({ weight, zero });
  for (const [place, name] of inputs.entries()) if (!isProduct || place % 2 === 0) others.add(name);
  return hasGraph;
}

/** Notes a tensor of bytes without a sign. */
function noteBytes(cursor: Cursor, tensor: Field, known: Map<string, Bytes>): void {
  const found: Bytes = { name: "", dims: [], type: 0, typeAt: 0, tagAt: 0, values: [] };
  let isElsewhere = false;
  visitFields(cursor, tensor.from, tensor.to, (part) => {
    if (part.number === 1) readNumbers(cursor, part, (size) => found.dims.push(size));
    if (part.number === 2) [found.type, found.typeAt] = [part.value, part.from - 1];
    if (part.number === 5) readNumbers(cursor, part, (value) => found.values.push(value));
    if (part.number === 8) found.name = cursor.text(part.from, part.to);
    if (part.number === 9) found.raw = { from: part.from, to: part.to };
    if (part.number === 13 || part.number === 14) isElsewhere ||= part.number === 13 || part.value !== 0;
  });
  found.tagAt = tensor.from - varint(tensor.to - tensor.from).length - 1;
  if (
    found.type !== UINT8 ||
    isElsewhere ||
    found.name === "" ||
    cursor.byte(found.tagAt) !== INITIALIZER_TAG
  )
    return;
  known.set(found.name, found);
}

function zeroValues({ raw, values }: Bytes, file: Uint8Array): Uint8Array {
  const zeros = raw ? file.slice(raw.from, raw.to) : Uint8Array.from(values);
  return zeros.map((value) => value ^ SIGN);
}

/** Changes the highest bit of each byte, which is to take 128 away and to read the byte with a sign. */
function changeSigns(bytes: Uint8Array<ArrayBuffer>): void {
  const ahead = Math.min(bytes.length, (4 - (bytes.byteOffset % 4)) % 4);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset + ahead, (bytes.length - ahead) >> 2);
  for (let at = 0; at < words.length; at++) words[at] = (words[at] ?? 0) ^ 0x80808080;
  const flip = (from: number, to: number) => {
    for (let at = from; at < to; at++) bytes[at] = (bytes[at] ?? 0) ^ SIGN;
  };
  flip(0, ahead);
  flip(ahead + 4 * words.length, bytes.length);
}

/** Encodes a tensor of bytes with a sign. */
function tensorOf({ name, dims }: Bytes, values: Uint8Array): Uint8Array {
  return Buffer.concat([
    ...dims.flatMap((size) => [Uint8Array.of(1 << 3), varint(size)]),
    Uint8Array.of(2 << 3, INT8),
    field(8, new TextEncoder().encode(name)),
    field(9, values),
  ]);
}

/** Encodes a field. @param length of all its content, where that is not all there */
function field(number: number, content: Uint8Array, length = content.length): Uint8Array {
  return Buffer.concat([Uint8Array.of((number << 3) | 2), varint(length), content]);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Uint8Array.of(...bytes, rest);
}
