import {
  type Cursor,
  type Field,
  type OnnxPort,
  readNumbers,
  readPort,
  visitFields,
  withOnnxFile,
} from "./onnx-file.ts";

/*
 * Changes of a network: its nodes as objects, and its weights as parts of the file, which are read only when the changed network is
 * written. So a change of a large file takes the memory of one copy.
 */

/** Bytes, a part of the file, or what is made of either when it is written. */
export type Encoded = Uint8Array | FilePart | MadePart;
/** `change` changes the bytes in place once they are read. */
export type FilePart = { from: number; to: number; change?: (bytes: Uint8Array<ArrayBuffer>) => void };
/** `make` writes `length` bytes, all of which are 0 before. */
export type MadePart = {
  of: Uint8Array | FilePart;
  length: number;
  make: (bytes: Uint8Array, to: Uint8Array) => void;
};

/** An attribute of a node: its integer, text, integers or tensor where it has such, and all of it as it is written. */
export type OnnxAttribute = {
  name: string;
  number?: number;
  text?: string;
  numbers?: number[];
  tensor?: OnnxTensor;
  encoded: Encoded[];
};

/** A node of the graph. `original`: how the file has it, where nothing is changed. */
export type OnnxNode = {
  kind: string;
  domain: string;
  inputs: string[];
  outputs: string[];
  attributes: OnnxAttribute[];
  original?: FilePart;
};

/** Weights. `raw`: their bytes, where they are in the file as such; `values`: integers that are kept as numbers, and single bytes. */
export type OnnxTensor = {
  name: string;
  dims: number[];
  type: number;
  raw?: Encoded;
  values: number[];
  isElsewhere: boolean;
  original?: FilePart;
};

export type OnnxGraph = {
  nodes: OnnxNode[];
  tensors: Map<string, OnnxTensor>;
  /** Names that the caller gives or gets. */
  ports: Set<string>;
  /** What the caller gives, and, in older files, weights. */
  inputs: OnnxPort[];
  /** Whether nodes have graphs of their own, which could use any value, or weights lie in other files. */
  isOpen: boolean;
  /** Other fields of the graph. */
  rest: FilePart[];
  /** Reads bytes of weights. */
  read(part: Encoded): Uint8Array<ArrayBuffer>;
};

/** Fields of a model and of its graph. */
const [GRAPH, OPERATIONS] = [7, 8];
const [NODE, INITIALIZER, INPUT, OUTPUT, VALUE_INFO] = [1, 5, 11, 12, 13];
/** Fields of an attribute with graphs. */
const ATTRIBUTE_GRAPHS = new Set([6, 11]);
const [INT_ATTRIBUTE, INTS_ATTRIBUTE] = [2, 7];
const [UINT8, INT8] = [2, 3];

/**
 * Changes the graph of an ONNX file.
 *
 * @param path of a file that `readOnnxFile` has accepted
 * @param change changes nodes and weights; it returns whether it did. Of a changed node `original` is to be removed
 * @returns the bytes of the changed file; undefined: nothing was changed
 * @throws Error when the file is not a complete ONNX model; RegularFileError; the system's error
 */
export function editOnnx(
  path: string,
  change: (graph: OnnxGraph) => boolean,
): Uint8Array<ArrayBuffer> | undefined {
  return withOnnxFile(path, (cursor, size) => {
    const around: Encoded[] = [];
    const graphs: OnnxGraph[] = [];
    visitWhole(cursor, { from: 0, to: size }, (field, whole) => {
      if (field.number === GRAPH) graphs.push(readGraph(cursor, field));
      else around.push(whole);
    });
    const [graph] = graphs;
    if (graph === undefined || graphs.length > 1 || !change(graph)) return undefined;
    const domains = new Set(graph.nodes.flatMap(({ original, domain }) => (original ? [] : [domain])));
    const imports = [...domains].filter((domain) => domain !== "").flatMap(importOf);
    return joined(cursor, [...around, ...imports, ...message(GRAPH, encodedGraph(graph))]);
  });
}

/** Visits the fields of a message with the range of each, its tag included. Fields of four and eight bytes belong to the next one. */
function visitWhole(
  cursor: Cursor,
  { from, to }: FilePart,
  visit: (field: Field, whole: FilePart) => void,
): void {
  let start = from;
  visitFields(cursor, from, to, (field) => {
    visit(field, { from: start, to: field.to });
    start = field.to;
  });
}

function readGraph(cursor: Cursor, within: FilePart): OnnxGraph {
  const graph: OnnxGraph = {
    ...{ nodes: [], tensors: new Map(), ports: new Set(), inputs: [], isOpen: false, rest: [] },
    read: (part) => joined(cursor, [part]),
  };
  visitWhole(cursor, within, (field, whole) => {
    if (field.number === NODE) graph.nodes.push(readNode(cursor, field, whole, graph));
    else if (field.number === INITIALIZER) {
      const tensor = readTensor(cursor, field, whole);
      graph.tensors.set(tensor.name, tensor);
      graph.isOpen ||= tensor.isElsewhere;
    } else if (field.number !== VALUE_INFO) {
      // The shapes of values in between are left out, because they may change. onnxruntime finds them out itself.
      graph.rest.push(whole);
      if (field.number !== INPUT && field.number !== OUTPUT) return;
      const port = readPort(cursor, field);
      graph.ports.add(port.name);
      if (field.number === INPUT) graph.inputs.push(port);
    }
  });
  return graph;
}

function readNode(cursor: Cursor, field: Field, original: FilePart, graph: OnnxGraph): OnnxNode {
  const node: OnnxNode = { kind: "", domain: "", inputs: [], outputs: [], attributes: [], original };
  visitWhole(cursor, field, (part, whole) => {
    const text = () => cursor.text(part.from, part.to);
    if (part.number === 1) node.inputs.push(text());
    if (part.number === 2) node.outputs.push(text());
    if (part.number === 4) node.kind = text();
    if (part.number === 5) node.attributes.push(readAttribute(cursor, part, whole, graph));
    if (part.number === 7) node.domain = text();
  });
  return node;
}

function readAttribute(cursor: Cursor, field: Field, whole: FilePart, graph: OnnxGraph): OnnxAttribute {
  const attribute: OnnxAttribute = { name: "", encoded: [whole] };
  const numbers: number[] = [];
  visitFields(cursor, field.from, field.to, (part) => {
    if (part.number === 1) attribute.name = cursor.text(part.from, part.to);
    if (part.number === 3) attribute.number = part.value;
    if (part.number === 4) attribute.text = cursor.text(part.from, part.to);
    if (part.number === 5) attribute.tensor = readTensor(cursor, part, part);
    if (part.number === 8) readNumbers(cursor, part, (value) => numbers.push(value));
    graph.isOpen ||= ATTRIBUTE_GRAPHS.has(part.number) || attribute.tensor?.isElsewhere === true;
  });
  if (numbers.length > 0) attribute.numbers = numbers;
  return attribute;
}

function readTensor(cursor: Cursor, field: Field, original: FilePart): OnnxTensor {
  const tensor: OnnxTensor = { name: "", dims: [], type: 0, values: [], isElsewhere: false, original };
  visitFields(cursor, field.from, field.to, (part) => {
    if (part.number === 1) readNumbers(cursor, part, (size) => tensor.dims.push(size));
    if (part.number === 2) tensor.type = part.value;
    if (part.number === 5 || part.number === 7)
      readNumbers(cursor, part, (value) => tensor.values.push(value));
    if (part.number === 8) tensor.name = cursor.text(part.from, part.to);
    if (part.number === 9) tensor.raw = { from: part.from, to: part.to };
    if (part.number === 13 || part.number === 14) tensor.isElsewhere ||= part.number === 13 || part.value > 0;
  });
  const { raw, type } = tensor;
  if (raw && "from" in raw && sizeOf(raw) === 1 && (type === UINT8 || type === INT8)) {
    const byte = cursor.byte(raw.from);
    tensor.values.push(type === INT8 ? (Int8Array.of(byte)[0] ?? 0) : byte);
  }
  return tensor;
}

/** Says that the model has operations of a domain, in their first version. */
const importOf = (domain: string) =>
  message(OPERATIONS, [...message(1, [textOf(domain)]), numberField(2, 1)]);

function encodedGraph({ nodes, tensors, rest }: OnnxGraph): Encoded[] {
  return [
    ...nodes.flatMap((node) => (node.original ? [node.original] : message(NODE, encodedNode(node)))),
    ...[...tensors.values()].flatMap((tensor) =>
      tensor.original ? [tensor.original] : message(INITIALIZER, encodedTensor(tensor)),
    ),
    ...rest,
  ];
}

function encodedNode({ inputs, outputs, kind, domain, attributes }: OnnxNode): Encoded[] {
  return [
    ...inputs.flatMap((name) => message(1, [textOf(name)])),
    ...outputs.flatMap((name) => message(2, [textOf(name)])),
    ...message(4, [textOf(kind)]),
    ...attributes.flatMap(({ encoded }) => encoded),
    ...(domain === "" ? [] : message(7, [textOf(domain)])),
  ];
}

function encodedTensor({ dims, type, name, raw = new Uint8Array(0) }: OnnxTensor): Encoded[] {
  return [
    ...dims.map((size) => numberField(1, size)),
    numberField(2, type),
    ...message(8, [textOf(name)]),
    ...message(9, [raw]),
  ];
}

/** Makes an attribute with an integer, or with several. */
export function attributeOf(name: string, value: number | readonly number[]): OnnxAttribute {
  const isList = typeof value !== "number";
  const content = [
    ...message(1, [textOf(name)]),
    ...(isList ? value.map((each) => numberField(8, each)) : [numberField(3, value)]),
    numberField(20, isList ? INTS_ATTRIBUTE : INT_ATTRIBUTE),
  ];
  const numbers = isList ? { numbers: [...value] } : { number: value };
  return { name, ...numbers, encoded: message(5, content) };
}

/** Joins parts into one array, which is all the memory that this takes. */
function joined(cursor: Cursor, parts: readonly Encoded[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(lengthOf(parts));
  let at = 0;
  for (const part of parts) {
    const target = bytes.subarray(at, at + sizeOf(part));
    if (part instanceof Uint8Array) target.set(part);
    else if ("make" in part) part.make(joined(cursor, [part.of]), target);
    else {
      cursor.read(part.from, target);
      part.change?.(target);
    }
    at += target.length;
  }
  return bytes;
}

const sizeOf = (part: Encoded) => ("length" in part ? part.length : part.to - part.from);
const lengthOf = (parts: readonly Encoded[]) => parts.reduce((sum, part) => sum + sizeOf(part), 0);
const textOf = (text: string) => new TextEncoder().encode(text);

/** Encodes a field with content of any length. */
function message(number: number, content: readonly Encoded[]): Encoded[] {
  return [Uint8Array.of(...varint(number * 8 + 2), ...varint(lengthOf(content))), ...content];
}

function numberField(number: number, value: number): Uint8Array {
  return Uint8Array.of(...varint(number * 8), ...varint(value));
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}
