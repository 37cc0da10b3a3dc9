import { attributeOf, type Encoded, type OnnxGraph, type OnnxNode, type OnnxTensor } from "./onnx-edit.ts";
import { OWN_DOMAIN } from "./onnx-file.ts";

/** Numbers of ONNX data types. */
export const [FLOAT, UINT8, INT8, INT64, BOOL] = [1, 2, 3, 7, 9];
/** Constants with more numbers than this are not looked at. */
const MOST_NUMBERS = 16;

/** A graph with who makes and reads each value. A change of a node is seen by the next step. */
export class Network {
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

  /** The node of a kind that alone reads a value, which nothing else does, the caller included. The addon's kinds count, too. */
  onlyReader(name: string | undefined, kind: string): OnnxNode | undefined {
    if (name === undefined || this.graph.ports.has(name)) return undefined;
    const [node, ...others] = this.readersOf(name);
    const isPlain = node?.domain === "" || node?.domain === OWN_DOMAIN;
    return node?.kind === kind && isPlain && others.length === 0 ? node : undefined;
  }

  /** Whether a value is the step of rounded ones: one number. */
  isStep(name: string): boolean {
    const node = this.makers.get(name);
    const isRounding = node?.kind === "DynamicQuantizeLinear" || node?.domain === OWN_DOMAIN;
    return isRounding && node?.outputs[1] === name;
  }

  /** Whether the file itself has a value. */
  isConstant(name: string): boolean {
    return name === "" || this.graph.tensors.has(name) || this.maker(name, "Constant") !== undefined;
  }

  /** The zero of the rounded values of a step. */
  zeroOf(step: string): string | undefined {
    return this.makers.get(step)?.outputs[2];
  }

  /** A few numbers that the file itself has. */
  numbers(name: string): number[] | undefined {
    const constant = this.maker(name, "Constant");
    const tensor = this.graph.tensors.get(name) ?? (constant && attribute(constant, "value")?.tensor);
    return tensor && countOf(tensor) <= MOST_NUMBERS ? numbersOf(this.graph, tensor) : undefined;
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

/** A node of an operation of ONNX. */
export function nodeOf(
  kind: string,
  inputs: string[],
  outputs: string[],
  attributes: OnnxNode["attributes"] = [],
) {
  return { kind, domain: "", inputs, outputs, attributes };
}

/** A node of an operation of the addon (src/native/onnx/operations.c). */
export const ours = (kind: string, inputs: string[], outputs: string[]) => ({
  ...nodeOf(kind, inputs, outputs),
  domain: OWN_DOMAIN,
});
/** A transposition. @param order of the dimensions */
export const turned = (from: string, to: string, order: number[]) =>
  nodeOf("Transpose", [from], [to], [attributeOf("perm", order)]);

/** Changes what a node reads or makes. */
export function change(
  node: OnnxNode,
  changed: Partial<Pick<OnnxNode, "inputs" | "outputs" | "attributes">>,
): void {
  Object.assign(node, changed);
  delete node.original;
}

/** The attribute of a name, if there is one. */
export const attribute = (node: OnnxNode, name: string) => node.attributes.find((each) => each.name === name);
/** The order of a transposition. */
export const orderOf = (node: OnnxNode) =>
  node.kind === "Transpose" && node.domain === "" ? attribute(node, "perm")?.numbers : undefined;
/** Whether all numbers are the same one; so are those that are missing. */
export const areAll = (numbers: readonly number[] | undefined, value: number) =>
  (numbers ?? []).every((each) => each === value);
/** The numbers of a tensor that the file itself has. */
export function numbersOf(graph: OnnxGraph, tensor: OnnxTensor): number[] | undefined {
  const { raw, type, values, isElsewhere } = tensor;
  if (isElsewhere) return undefined;
  if (!raw) return type === INT64 && values.length === countOf(tensor) ? values : undefined;
  const { buffer } = graph.read(raw);
  if (type === FLOAT) return [...new Float32Array(buffer)];
  if (type === BOOL) return [...new Uint8Array(buffer)];
  return type === INT64 ? Array.from(new BigInt64Array(buffer), Number) : undefined;
}

/** How many numbers a tensor has. */
export const countOf = ({ dims }: Pick<OnnxTensor, "dims">) =>
  dims.reduce((product, size) => product * size, 1);
