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
  writeOnnx,
} from "../testing/makers/onnx-graph.ts";
import { TINY_CTC } from "../testing/makers/tiny-ctc.ts";
import { withFasterProducts } from "./onnx-faster.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-signed-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "model.onnx");
let addon: OnnxAddon;
beforeAll(async () => {
  addon = loadOnnx(await extractNativeFiles("")).addon;
}, 60_000);

const [FLOAT, UINT8, INT8, INT64] = [1, 2, 3, 7];
const [BINS, TOKENS] = [80, 90];
const node = (op_type: string, input: string[], output: string[], more: Partial<Node> = {}): Node => ({
  ...{ op_type, input, output },
  ...more,
});

/** Bytes without a sign, as rounded weights are. Their numbers of 90 columns differ in sign, length and place in the file. */
function weights(name: string, seed: number): Tensor {
  const random = seededRandom(seed);
  const raw_data = Uint8Array.from({ length: BINS * TOKENS }, () => Math.floor(random() * 256));
  return { name, dims: [BINS, TOKENS], data_type: UINT8, raw_data };
}

/** A zero as exporters write it: a number, or raw bytes. */
const zero = (name: string, value: number, isRaw: boolean): Tensor => ({
  ...{ name, dims: [], data_type: UINT8 },
  ...(isRaw ? { raw_data: Uint8Array.of(value) } : { int32_data: [value] }),
});

/** A net with two products of rounded features: one frame of output for each of them. */
function graph(): Graph {
  return {
    node: [
      node("Transpose", ["audio_signal"], ["x"], {
        attribute: [{ name: "perm", type: 7, ints: [0, 2, 1] }],
      }),
      node("DynamicQuantizeLinear", ["x"], ["q", "scale", "shift"]),
      node("MatMulInteger", ["q", "one", "shift", "one_zero"], ["a"]),
      node("MatMulInteger", ["q", "two", "shift", "two_zero"], ["b"]),
      node("Sub", ["a", "b"], ["both"]),
      node("Cast", ["both"], ["floats"], { attribute: [{ name: "to", type: 2, i: FLOAT }] }),
      node("Mul", ["floats", "scale"], ["scaled"]),
      node("Mul", ["scaled", "least"], ["logprobs"]),
    ],
    name: "net",
    initializer: [
      weights("one", 1),
      zero("one_zero", 131, false),
      weights("two", 2),
      zero("two_zero", 7, true),
      { name: "least", dims: [], data_type: FLOAT, raw_data: new Uint8Array(Float32Array.of(0.001).buffer) },
    ],
    input: [portOf("audio_signal", FLOAT, ["n", BINS, "t"]), portOf("length", INT64, ["n"])],
    output: [portOf("logprobs", FLOAT, ["n", "t", TOKENS])],
  };
}

function signed(changed: Graph): ReturnType<typeof withFasterProducts> {
  writeFileSync(path, writeOnnx({ ir_version: 9, graph: changed, opset_import: [{ version: 18 }] }));
  return withFasterProducts(path, { areSigned: true, areOurs: false });
}

async function run(file: string | Uint8Array) {
  const session = await addon.open(file, 1, false);
  const random = seededRandom(3);
  const sound = Float32Array.from({ length: 32_000 }, () => random() - 0.5);
  const allowed = new Uint8Array(TOKENS).fill(1);
  return addon.run(session, sound, CTC_INPUT.nemo, BINS, allowed, null, null).promise;
}

test("a network with signed weights computes exactly the same", async () => {
  const bytes = signed(graph());
  const types = readOnnx(bytes ?? new Uint8Array()).graph.initializer?.map(({ name, data_type }) => [
    name,
    data_type,
  ]);
  expect(types).toEqual([
    ["one", INT8],
    ["one_zero", INT8],
    ["two", INT8],
    ["two_zero", INT8],
    ["least", FLOAT],
  ]);
  const [plain, changed] = [await run(path), await run(bytes ?? "")];
  expect(changed).toEqual(plain);
  expect(new Set(plain.ids).size).toBeGreaterThan(3);
}, 60_000);

describe("nothing is changed", () => {
  const inner = { name: "body", type: 5, g: { ...graph(), initializer: [] } };
  test.each<[string, (made: Graph) => void]>([
    [
      "where weights have a sign",
      ({ initializer }) => initializer?.forEach((each) => void Object.assign(each, { data_type: INT8 })),
    ],
    [
      "where another node reads them",
      ({ node: nodes }) => {
        nodes.push(node("Cast", ["one"], ["read"]), node("Cast", ["two_zero"], ["read2"]));
      },
    ],
    [
      "where they are a result",
      ({ output }) =>
        void output.push(portOf("one", UINT8, [BINS, TOKENS]), portOf("two", UINT8, [BINS, TOKENS])),
    ],
    [
      "where a product has no zero",
      ({ node: nodes }) =>
        nodes.forEach((each) => void (each.op_type === "MatMulInteger" && each.input?.pop())),
    ],
    [
      "of another operator with the name",
      ({ node: nodes }) => nodes.forEach((each) => void Object.assign(each, { domain: "other" })),
    ],
    [
      "where a node has a graph",
      ({ node: nodes }) => void (nodes[0] ?? node("", [], [])).attribute?.push(inner),
    ],
    [
      "where weights lie in another file",
      ({ initializer }) => initializer?.forEach((each) => void Object.assign(each, { data_location: 1 })),
    ],
  ])("%s", (_name, change) => {
    const made = graph();
    change(made);
    expect(signed(made)).toBeUndefined();
  });

  test("of a network without such products", () => {
    expect(
      withFasterProducts(join(TINY_CTC, "model.onnx"), { areSigned: true, areOurs: false }),
    ).toBeUndefined();
  });
});

test("weights that share a zero with others stay as these do", () => {
  const made = graph();
  const [, , , second] = made.node;
  if (second?.input) second.input[3] = "one_zero";
  made.node.push(node("Cast", ["two"], ["read"]));
  expect(signed(made)).toBeUndefined();
});
