import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles } from "../native/native-files.ts";
import { CTC_INPUT, loadOnnx, type OnnxAddon } from "../native/onnx/onnx-addon.ts";
import { seededRandom } from "../testing/makers/audio-makers.ts";
import {
  type Graph,
  type Node,
  portOf,
  readOnnx,
  type Tensor,
  tensorOf,
  writeOnnx,
} from "../testing/makers/onnx-graph.ts";
import { withFasterProducts } from "./onnx-faster.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-products-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "model.onnx");
let addon: OnnxAddon;
beforeAll(async () => {
  addon = loadOnnx(await extractNativeFiles("")).addon;
}, 60_000);

const [FLOAT, UINT8, INT8, INT64] = [1, 2, 3, 7];
const BINS = 80;

/** How a product is written. Weights and zeros are random where they are not given. */
type Layer = {
  columns: number;
  isSigned?: boolean;
  weight?: number;
  zero?: number;
  /** Zeros and steps of each column. */
  isByColumn?: boolean;
  hasBias?: boolean;
  isSwish?: boolean;
};

/** Products one after the other, with a normalization before the last one. */
function graphOf(layers: readonly Layer[]): Graph {
  const random = seededRandom(5);
  const node: Node[] = [];
  const initializer: Tensor[] = [];
  const add = (op_type: string, input: string[], outputs = 1, attribute: Node["attribute"] = []) => {
    const name = `${op_type}_${node.length}`;
    const output = Array.from({ length: outputs }, (_, n) => (n === 0 ? name : `${name}.${n}`));
    node.push({ op_type, input, output, attribute });
    return name;
  };
  const floats = (dims: number[], size: number) => {
    const name = `floats_${initializer.length}`;
    const count = dims.reduce((product, each) => product * each, 1);
    initializer.push(
      tensorOf(
        name,
        dims,
        Float32Array.from({ length: count }, () => (random() + 0.1) * size),
      ),
    );
    return name;
  };
  const bytes = (dims: number[], value: number | undefined, isSigned: boolean) => {
    const name = `bytes_${initializer.length}`;
    const length = dims.reduce((product, each) => product * each, 1);
    const raw_data = Uint8Array.from({ length }, () => value ?? Math.floor(random() * 256));
    initializer.push({ name, dims, data_type: isSigned ? INT8 : UINT8, raw_data });
    return name;
  };
  let x = add("Transpose", ["audio_signal"], 1, [{ name: "perm", type: 7, ints: [0, 2, 1] }]);
  let rows = BINS;
  for (const [at, layer] of layers.entries()) {
    const { columns, isSigned = false, isByColumn = false } = layer;
    if (at === layers.length - 1)
      x = add("LayerNormalization", [x, floats([rows], 1), floats([rows], 1)], 1, [
        { name: "epsilon", type: 1, f: 0.01 },
      ]);
    const rounded = add("DynamicQuantizeLinear", [x], 3);
    const own = isByColumn ? [columns] : [];
    const inputs = [bytes([rows, columns], layer.weight, isSigned), `${rounded}.2`];
    const sums = add("MatMulInteger", [rounded, ...inputs, bytes(own, layer.zero, isSigned)]);
    const scale = add("Mul", [`${rounded}.1`, floats(own, 0.1 / rows)]);
    x = add("Mul", [add("Cast", [sums], 1, [{ name: "to", type: 2, i: FLOAT }]), scale]);
    if (layer.hasBias) x = add("Add", [floats([columns], 1), x]);
    if (layer.isSwish) x = add("Mul", [x, add("Sigmoid", [x])]);
    rows = columns;
  }
  const last = node.at(-1);
  if (last) last.output = ["logprobs"];
  return {
    ...{ node, name: "net", initializer },
    input: [portOf("audio_signal", FLOAT, ["n", BINS, "t"]), portOf("length", INT64, ["n"])],
    output: [portOf("logprobs", FLOAT, ["n", "t", rows])],
  };
}

function faster(graph: Graph) {
  writeFileSync(path, writeOnnx({ ir_version: 9, graph, opset_import: [{ version: 18 }] }));
  return withFasterProducts(path, { areSigned: false, areOurs: true }) ?? new Uint8Array();
}

const kindsOf = (bytes: Uint8Array) =>
  readOnnx(bytes)
    .graph.node.filter(({ domain }) => domain === "shruti")
    .map(({ op_type }) => op_type);

async function run(file: string | Uint8Array, tokens: number, samples: number) {
  const session = await addon.open(file, 1, false);
  const random = seededRandom(samples);
  const sound = Float32Array.from({ length: samples }, () => random() - 0.5);
  return addon.run(session, sound, CTC_INPUT.nemo, BINS, new Uint8Array(tokens).fill(1), null, null).promise;
}

describe("the same tokens with the same probabilities", () => {
  const products = (count: number) => [
    ...Array.from({ length: count - 1 }, () => "ByteProducts"),
    ...["NormalizedRounded", "ByteProducts"],
  ];
  test.each<[string, Layer[]]>([
    ["rows and columns of any number", [{ columns: 77 }, { columns: 1 }, { columns: 65 }, { columns: 7 }]],
    ["whole panels", [{ columns: 64 }, { columns: 128, hasBias: true }, { columns: 64 }]],
    [
      "weights with a sign",
      [
        { columns: 50, isSigned: true, hasBias: true },
        { columns: 33, isSigned: true },
      ],
    ],
    [
      "zeros and steps of columns",
      [
        { columns: 90, isByColumn: true },
        { columns: 30, isByColumn: true, isSigned: true, hasBias: true },
      ],
    ],
    ["largest weights", [{ columns: 130, weight: 255, zero: 0, hasBias: true }, { columns: 20 }]],
    ["smallest weights", [{ columns: 130, weight: 0, zero: 255, hasBias: true }, { columns: 20 }]],
    [
      "weights with a sign and zeros at the ends",
      [{ columns: 40, isSigned: true, weight: 0x80, zero: 0x7f }, { columns: 5 }],
    ],
  ])(
    "%s",
    async (_name, layers) => {
      const bytes = faster(graphOf(layers));
      expect(kindsOf(bytes)).toEqual(products(layers.length));
      const tokens = layers.at(-1)?.columns ?? 0;
      for (const samples of [1_600, 16_000]) {
        const [plain, changed] = [await run(path, tokens, samples), await run(bytes, tokens, samples)];
        expect(changed.ids).toEqual(plain.ids);
        const differences = plain.probabilities.map((each, at) =>
          Math.abs(each / (changed.probabilities[at] ?? 0) - 1),
        );
        // A number that is rounded to another byte, because the normalization has another last digit, changes this much.
        expect(Math.max(...differences)).toBeLessThan(0.01);
      }
    },
    60_000,
  );

  test("swish that is rounded then", async () => {
    const bytes = faster(
      graphOf([
        { columns: 100, isSwish: true, hasBias: true },
        { columns: 70, isSwish: true },
        { columns: 9 },
      ]),
    );
    expect(kindsOf(bytes)).toEqual([
      "ByteProductsSwish",
      "ByteProducts",
      "NormalizedRounded",
      "ByteProducts",
    ]);
    const [plain, changed] = [await run(path, 9, 16_000), await run(bytes, 9, 16_000)];
    expect(changed.ids).toEqual(plain.ids);
  }, 60_000);
});

describe("stays as it is", () => {
  const [MATRIX, ZERO] = [1, 3];
  const nodesOf = ({ node }: Graph, kind: string) => node.filter(({ op_type }) => op_type === kind);
  const inputOf = (graph: Graph, kind: string, place: number) =>
    graph.initializer?.find(({ name }) => name === nodesOf(graph, kind)[0]?.input?.[place]);
  test.each<[string, (graph: Graph) => void]>([
    [
      "a sum that is a result, too",
      (graph) =>
        graph.output.push(portOf(nodesOf(graph, "MatMulInteger")[0]?.output[0] ?? "", 6, ["n", "t", 40])),
    ],
    [
      "a product whose zero is another one's",
      (graph) => {
        const [product] = nodesOf(graph, "MatMulInteger");
        const zero = graph.initializer?.push({
          name: "other",
          dims: [],
          data_type: UINT8,
          raw_data: Uint8Array.of(3),
        });
        if (product?.input && zero) product.input[2] = "other";
      },
    ],
    [
      "weights in three dimensions",
      (graph) => {
        const weights = inputOf(graph, "MatMulInteger", MATRIX);
        if (weights) weights.dims = [1, BINS, 40];
      },
    ],
    [
      "a zero that the caller gives",
      (graph) => {
        const zero = inputOf(graph, "MatMulInteger", ZERO);
        graph.initializer = (graph.initializer ?? []).filter((each) => each !== zero);
        graph.input.push(portOf(zero?.name ?? "", UINT8, []));
      },
    ],
  ])("%s", (_name, change) => {
    const graph = graphOf([{ columns: 40 }, { columns: 20 }]);
    change(graph);
    expect(kindsOf(faster(graph))).toEqual(["NormalizedRounded", "ByteProducts"]);
  });
});
