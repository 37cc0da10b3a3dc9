import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Attribute,
  floatsOf,
  type Graph,
  type Model,
  type Node,
  type Port,
  portOf,
  readOnnx,
  type Tensor,
  tensorOf,
  writeOnnx,
} from "./onnx-graph.ts";
import { TINY_CTC } from "./tiny-ctc.ts";

/**
 * Makes an IndicConformer in the layout of AI4Bharat's repository (`ai4bharat/indic-conformer-600m-multilingual`) of the
 * tiny CTC model: encoder and CTC head as two graphs, each of the encoder's weights in a file of its own, also one that
 * is the value of a constant, tokens of each language as JSON, and a mask of the outputs for each.
 */

const FLOAT = 1;
const INT64 = 7;
const EXTERNAL = 1;
/** Numbers of attributes' types. */
const [INT, TENSOR] = [2, 4];

/** The last value of the tiny model that is the encoder's. */
const ENCODED = "/inner/norm/Add_1_output_0";
const HEAD_WEIGHTS = ["inner.out.weight", "inner.out.bias"];
const WIDTH = 144;
/** A bias with which an output is never chosen. */
const NEVER = -100;

export type IndicForm = {
  /** `float`: as published. `int8`: dynamic 8 bits, in the file itself, as its public quantizations are. */
  weights?: "float" | "int8";
  /** `ai4bharat`: as published. `vernacula`: repackaged, with other names, a flat list of tokens, and spans. */
  layout?: "ai4bharat" | "vernacula";
  /** Further languages, which have the tokens of Hindi. */
  further?: readonly string[];
};

/** Languages of the made model, and the tokens of the tiny one that are theirs. */
const LANGUAGES = { hi: /\p{Script=Devanagari}/u, en: /[a-z]/ } as const;

/**
 * Writes the files into a folder.
 *
 * @returns the numbers that the tokens of each language have in the tiny model, in the order of the language's outputs; the first one, `<unk>`, has none
 */
export function writeIndic(
  folder: string,
  { weights = "float", layout = "ai4bharat", further = [] }: IndicForm = {},
) {
  mkdirSync(folder, { recursive: true });
  const tiny = readOnnx(readFileSync(join(TINY_CTC, "model.onnx")));
  const texts = readFileSync(join(TINY_CTC, "tokens.txt"), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.slice(0, line.lastIndexOf(" ")));
  const languages = { ...LANGUAGES, ...Object.fromEntries(further.map((code) => [code, LANGUAGES.hi])) };
  const own = Object.values(languages).map((script) =>
    texts.flatMap((text, id) => (script.test(text) && text !== "<unk>" && text !== "<blk>" ? [id] : [])),
  );
  const isPublished = layout === "ai4bharat";
  const encoder = encoderOf(tiny);
  if (weights === "int8") quantizeConvolutions(encoder.graph);
  else placeOutside(encoder.graph, folder, isPublished ? undefined : "encoder-model.onnx.data");
  const blank = texts.length - 1;
  writeFileSync(join(folder, isPublished ? "encoder.onnx" : "encoder-model.onnx"), writeOnnx(encoder));
  writeFileSync(
    join(folder, isPublished ? "ctc_decoder.onnx" : "ctc_decoder-model.onnx"),
    writeOnnx(headOf(tiny, [...own.flatMap((ids) => [undefined, ...ids]), blank])),
  );
  writeLists(folder, isPublished, Object.keys(languages), own, texts);
  return Object.fromEntries(Object.keys(LANGUAGES).map((code, index) => [code, own[index] ?? []])) as Record<
    keyof typeof LANGUAGES,
    number[]
  >;
}

function writeLists(
  folder: string,
  isPublished: boolean,
  codes: readonly string[],
  own: number[][],
  texts: string[],
): void {
  const outputs = own.reduce((sum, ids) => sum + ids.length + 1, 1);
  const json = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  let start = 0;
  const entries = codes.map((code, index) => {
    const tokens = ["<unk>", ...(own[index] ?? []).map((id) => texts[id] ?? "")];
    const span = { start, length: tokens.length };
    start += tokens.length;
    return { code, tokens, span };
  });
  if (isPublished) {
    const maskOf = ({ span }: (typeof entries)[number]) =>
      Array.from(
        { length: outputs },
        (_, n) => n === outputs - 1 || (n >= span.start && n < span.start + span.length),
      );
    json("vocab.json", Object.fromEntries(entries.map(({ code, tokens }) => [code, [...tokens, "|"]])));
    json("language_masks.json", Object.fromEntries(entries.map((entry) => [entry.code, maskOf(entry)])));
  } else {
    writeFileSync(join(folder, "vocab.txt"), `${entries.flatMap(({ tokens }) => tokens).join("\n")}\n`);
    json("language_spans.json", Object.fromEntries(entries.map(({ code, span }) => [code, span])));
  }
}

/** Takes all nodes but the last three, and adds the lengths that the published encoder returns. */
function encoderOf({ graph, ir_version, opset_import }: Model): Model {
  const nodes = graph.node.slice(0, -3).map((node) => ({
    ...node,
    output: node.output.map((name) => (name === ENCODED ? "outputs" : name)),
  }));
  const constant = (name: string, value: bigint): Node => ({
    ...{ op_type: "Constant", input: [], output: [name] },
    attribute: [{ name: "value", type: TENSOR, t: tensorOf("", [1], BigInt64Array.of(value)) }],
  });
  const lengths: Node[] = [
    constant("three", 3n),
    constant("four", 4n),
    { op_type: "Add", input: ["length", "three"], output: ["rounded"] },
    { op_type: "Div", input: ["rounded", "four"], output: ["encoded_lengths"] },
  ];
  const kept = graph.initializer?.filter(({ name = "" }) => !HEAD_WEIGHTS.includes(name)) ?? [];
  const output: Port[] = [
    portOf("outputs", FLOAT, ["n", WIDTH, "frames"]),
    portOf("encoded_lengths", INT64, ["n"]),
  ];
  return {
    ...{ ir_version, opset_import },
    graph: { ...graph, node: [...nodes, ...lengths], initializer: kept, output },
  };
}

/** Makes the head: one convolution, with the outputs in the given order; undefined: an output that is never chosen. */
function headOf({ graph, ir_version, opset_import }: Model, order: (number | undefined)[]): Model {
  const [weight, bias] = HEAD_WEIGHTS.map((wanted) => {
    const found = graph.initializer?.find(({ name }) => name === wanted);
    return found ? floatsOf(found) : new Float32Array();
  });
  const ordered = (values = new Float32Array(), width = 1, unknown = 0) =>
    Float32Array.from({ length: order.length * width }, (_, n) => {
      const row = order[Math.floor(n / width)];
      return row === undefined ? unknown : (values[row * width + (n % width)] ?? 0);
    });
  const [conv, transpose] = graph.node.slice(-3, -1) as [Node, Node];
  return {
    ...{ ir_version, opset_import },
    graph: {
      name: "head",
      node: [
        { ...conv, input: ["encoder_output", ...HEAD_WEIGHTS], output: ["turned"] },
        { ...transpose, input: ["turned"], output: ["logprobs"] },
      ],
      initializer: [
        tensorOf("inner.out.weight", [order.length, WIDTH, 1], ordered(weight, WIDTH)),
        tensorOf("inner.out.bias", [order.length], ordered(bias, 1, NEVER)),
      ],
      input: [portOf("encoder_output", FLOAT, ["n", WIDTH, "frames"])],
      output: [portOf("logprobs", FLOAT, ["n", "frames", order.length])],
    },
  };
}

/** Moves weights into files beside the graph: each into one of its own, or all into one. */
function placeOutside(graph: Graph, folder: string, together: string | undefined): void {
  const joined: Uint8Array[] = [];
  let offset = 0;
  const place = (tensor: Tensor, own: string): void => {
    const { raw_data: bytes = new Uint8Array() } = tensor;
    if (together === undefined) writeFileSync(join(folder, own), bytes);
    else joined.push(bytes);
    tensor.external_data = [
      { key: "location", value: together ?? own },
      { key: "offset", value: `${together === undefined ? 0 : offset}` },
      { key: "length", value: `${bytes.length}` },
    ];
    tensor.data_location = EXTERNAL;
    delete tensor.raw_data;
    offset += bytes.length;
  };
  for (const tensor of graph.initializer ?? []) place(tensor, tensor.name ?? "");
  const constants = graph.node.filter(({ op_type }) => op_type === "Constant");
  const value = constants
    .flatMap(({ attribute = [] }) => attribute)
    .findLast(({ t }) => t?.data_type === FLOAT)?.t;
  if (value) place(value, `Constant_${constants.length}_attr__value`);
  if (together !== undefined) writeFileSync(join(folder, together), Buffer.concat(joined));
}

/**
 * Replaces the convolutions over one frame by those of integers, as onnxruntime's dynamic quantization does: the input
 * gets 8 bits with a scale of its own at each run.
 */
function quantizeConvolutions(graph: Graph): void {
  const { initializer = [] } = graph;
  graph.node = graph.node.flatMap((node) => {
    const [input = "", weight = "", bias = ""] = node.input ?? [];
    const tensor = initializer.find(({ name }) => name === weight);
    if (node.op_type !== "Conv" || tensor?.dims?.[2] !== 1) return [node];
    const values = floatsOf(tensor);
    const scale = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    const own = initializer.indexOf(tensor);
    initializer[own] = tensorOf(
      weight,
      tensor.dims,
      Int8Array.from(values, (value) => Math.round(value / scale)),
    );
    const name = (part: string) => `${weight}.${part}`;
    initializer.push(tensorOf(name("scale"), [], Float32Array.of(scale)));
    const column = initializer.find(({ name: each }) => each === bias);
    if (column) column.dims = [1, column.dims?.[0] ?? 0, 1];
    const to: Attribute = { name: "to", type: INT, i: FLOAT };
    return [
      { op_type: "DynamicQuantizeLinear", input: [input], output: ["x", "scale_x", "zero_x"].map(name) },
      {
        ...{ op_type: "ConvInteger", attribute: node.attribute ?? [] },
        ...{ input: [name("x"), weight, name("zero_x")], output: [name("integers")] },
      },
      { op_type: "Cast", input: [name("integers")], output: [name("floats")], attribute: [to] },
      { op_type: "Mul", input: [name("scale_x"), name("scale")], output: [name("scales")] },
      { op_type: "Mul", input: [name("floats"), name("scales")], output: [name("scaled")] },
      { op_type: "Add", input: [name("scaled"), bias], output: node.output },
    ];
  });
}
