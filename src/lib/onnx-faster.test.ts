import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles } from "../native/native-files.ts";
import { CTC_INPUT, loadOnnx, type OnnxAddon } from "../native/onnx/onnx-addon.ts";
import { seededRandom } from "../testing/makers/audio-makers.ts";
import { type Graph, type Node, portOf, readOnnx, writeOnnx } from "../testing/makers/onnx-graph.ts";
import { ROUNDED_BINS, ROUNDED_TOKENS, roundedConformer } from "../testing/makers/rounded-conformer.ts";
import { withFasterProducts } from "./onnx-faster.ts";
import { readOnnxFile } from "./onnx-file.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-faster-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "model.onnx");
let addon: OnnxAddon;
beforeAll(async () => {
  addon = loadOnnx(await extractNativeFiles("")).addon;
}, 60_000);

function faster(made: Graph, areOurs = false): Uint8Array {
  writeFileSync(path, writeOnnx({ ir_version: 9, graph: made, opset_import: [{ version: 18 }] }));
  return withFasterProducts(path, { areSigned: false, areOurs }) ?? new Uint8Array();
}

/** How many nodes there are of each kind that the file before or after the change has. */
function kindsOf(bytes: Uint8Array, kinds: readonly string[]): Record<string, number> {
  const { node } = readOnnx(bytes).graph;
  return Object.fromEntries(
    kinds.map((kind) => [kind, node.filter(({ op_type }) => op_type === kind).length]),
  );
}

async function run(file: string | Uint8Array, samples: number) {
  const session = await addon.open(file, 1, false);
  const random = seededRandom(samples);
  const sound = Float32Array.from({ length: samples }, () => random() - 0.5);
  const allowed = new Uint8Array(ROUNDED_TOKENS).fill(1);
  return addon.run(session, sound, CTC_INPUT.nemo, ROUNDED_BINS, allowed, null, null).promise;
}

const KINDS = ["ConvInteger", "Pad", "Softmax", "Sigmoid", "MatMulInteger", "LayerNormalization"];
const OWN_KINDS = [
  ...["RelativeSoftmax", "RelativeAttention"],
  "GatedConvolution",
  "RoundedSwish",
  "FirstConvolution",
  "SeparateConvolution",
  ...["ByteProducts", "ByteProductsSwish", "Normalized", "NormalizedRounded"],
];
/** Products and what may be a part of them, of onnxruntime and of the addon. */
const PRODUCTS = {
  theirs: { MatMulInteger: 12, RoundedSwish: 1, ByteProducts: 0, ByteProductsSwish: 0 },
  ours: { MatMulInteger: 0, RoundedSwish: 0, ByteProducts: 11, ByteProductsSwish: 1 },
};
const NORMALIZATIONS = { Normalized: 1, NormalizedRounded: 3 };

// Lengths that fill the processor's registers and others, fewer frames than a kernel has taps, and one frame.
const LENGTHS = [1_600, 2_400, 5_120, 32_000, 48_160];
test.each(LENGTHS.flatMap((samples) => [false, true].map((areOurs) => ({ samples, areOurs }))))(
  "a layer writes the same tokens: $samples samples, products of our own: $areOurs",
  async ({ samples, areOurs }) => {
    const bytes = faster(roundedConformer(), areOurs);
    expect(kindsOf(bytes, [...KINDS, ...OWN_KINDS])).toEqual({
      ...{ ConvInteger: 0, Pad: 0, Softmax: 0, Sigmoid: 0, LayerNormalization: 0 },
      ...{
        RelativeSoftmax: 0,
        RelativeAttention: 1,
        GatedConvolution: 1,
        FirstConvolution: 1,
        SeparateConvolution: 2,
      },
      ...(areOurs ? PRODUCTS.ours : PRODUCTS.theirs),
      ...NORMALIZATIONS,
    });
    const [plain, changed] = [await run(path, samples), await run(bytes, samples)];
    expect(changed.ids).toEqual(plain.ids);
    const differences = plain.probabilities.map((each, at) =>
      Math.abs(each - (changed.probabilities[at] ?? 0)),
    );
    expect(Math.max(...differences)).toBeLessThan(1e-4);
    // The results differ from frame to frame.
    expect(new Set(plain.probabilities).size).toBeGreaterThan(plain.ids.length / 2);
  },
  60_000,
);

test("weights that have a sign in the file give the same", async () => {
  const bytes = faster(roundedConformer());
  const plain = await run(bytes, 32_000);
  const signed = faster(roundedConformer({ haveSign: true }));
  expect(kindsOf(signed, [...KINDS, ...OWN_KINDS])).toEqual(kindsOf(bytes, [...KINDS, ...OWN_KINDS]));
  // Processors without instructions for bytes with a sign add products of them inexactly (fasterFile).
  const found = await run(signed, 32_000);
  expect(found.ids).toEqual(plain.ids);
}, 60_000);

test("swish of numbers that all lie above its lowest place has the same bytes", async () => {
  const made = roundedConformer();
  const inputs = new Set(
    made.node.filter(({ op_type }) => op_type === "Sigmoid").map(({ input }) => input?.[0]),
  );
  const biased = made.node.filter(({ op_type, output }) => op_type === "Add" && inputs.has(output[0]));
  for (const { name, raw_data } of made.initializer ?? [])
    if (raw_data && biased.some(({ input }) => input?.includes(name ?? "")))
      new Float32Array(raw_data.buffer, raw_data.byteOffset, raw_data.byteLength / 4).fill(20);
  expect(biased.length).toBeGreaterThan(0);
  const bytes = faster(made);
  expect(kindsOf(bytes, ["RoundedSwish"])).toEqual({ RoundedSwish: 1 });
  const [plain, changed] = [await run(path, 32_000), await run(bytes, 32_000)];
  expect(changed.ids).toEqual(plain.ids);
  const differences = plain.probabilities.map((each, at) =>
    Math.abs(each - (changed.probabilities[at] ?? 0)),
  );
  expect(Math.max(...differences)).toBeLessThan(1e-4);
}, 60_000);

describe("stays as it is", () => {
  const nodes = ({ node }: Graph, kind: string) => node.filter(({ op_type }) => op_type === kind);
  const attributeOf = (node: Node | undefined, name: string) =>
    node?.attribute?.find((each) => each.name === name) ?? { name: "", type: 0 };
  /** Changes constants of some integers. */
  const change = (made: Graph, from: bigint[], to: bigint[]) => {
    const found = nodes(made, "Constant").flatMap((node) => {
      const { t } = attributeOf(node, "value");
      return t?.raw_data &&
        `${t.dims}:${new BigInt64Array(t.raw_data.slice().buffer, 0, t.raw_data.length >> 3)}` ===
          `${from.length}:${from}`
        ? [t]
        : [];
    });
    expect(found).toHaveLength(1);
    for (const t of found) t.raw_data = new Uint8Array(BigInt64Array.from(to).buffer);
  };
  const separate = (made: Graph) =>
    nodes(made, "ConvInteger").find((each) => attributeOf(each, "group").i === 48);
  test.each<[string, Record<string, number>, (made: Graph) => void]>([
    [
      "attention whose shift begins elsewhere",
      { RelativeSoftmax: 0, Pad: 1, Softmax: 1 },
      (made) => {
        change(made, [1n, 0n], [0n, 1n]);
      },
    ],
    [
      "attention whose scores are a result, too",
      { RelativeSoftmax: 0, Pad: 1, Softmax: 1 },
      (made) => {
        const [scores = ""] = nodes(made, "Softmax")[0]?.input ?? [];
        made.output.push(portOf(scores, 1, ["n", 2, "t", "t"]));
      },
    ],
    [
      "a mask that is not of padding alone",
      {
        RelativeSoftmax: 0,
        GatedConvolution: 0,
        FirstConvolution: 0,
        SeparateConvolution: 0,
        Where: 3,
        Tile: 1,
      },
      (made) => {
        const [sub] = nodes(made, "Sub").filter(({ input }) => input?.[0]?.startsWith("Add"));
        const three = made.node.find(({ output }) => output[0] === sub?.input?.[1]);
        const { t } = attributeOf(three, "value");
        if (t) t.raw_data = new Uint8Array(Float32Array.of(9).buffer);
      },
    ],
    [
      "attention whose weights are a result, too",
      { RelativeAttention: 0, RelativeSoftmax: 1, Softmax: 0 },
      (made) => {
        const [weights = ""] = nodes(made, "Softmax")[0]?.output ?? [];
        made.output.push(portOf(weights, 1, ["n", 2, "t", "t"]));
      },
    ],
    [
      "a softmax over another dimension",
      { RelativeSoftmax: 0, Softmax: 1 },
      (made) => void Object.assign(attributeOf(nodes(made, "Softmax")[0], "axis"), { i: 2 }),
    ],
    [
      "a convolution that looks farther back than ahead",
      { GatedConvolution: 0, ConvInteger: 1 },
      (made) => change(made, [4n, 4n], [8n, 0n]),
    ],
    [
      "a convolution whose gates come first",
      { GatedConvolution: 0, ConvInteger: 1 },
      (made) => {
        const [split] = nodes(made, "Split");
        split?.output.reverse();
      },
    ],
    [
      "swish that something else reads, too",
      { RoundedSwish: 0 },
      (made) => {
        const [sigmoid] = nodes(made, "Sigmoid");
        const swish = nodes(made, "Mul").find(({ input }) => input?.[1] === sigmoid?.output[0]);
        made.output.push(portOf(swish?.output[0] ?? "", 1, ["n", "t", 192]));
      },
    ],
    [
      "gates that are a result, too, before silence is put around them",
      { GatedConvolution: 0 },
      (made) => {
        const [rounded = ""] = separate(made)?.input ?? [];
        const rounding = made.node.find(({ output }) => output[0] === rounded);
        const pad = nodes(made, "Pad").find(({ output }) => output[0] === rounding?.input?.[0]);
        const mask = made.node.find(({ output }) => output[0] === pad?.input?.[0]);
        const gated = nodes(made, "Mul").find(({ output }) => mask?.input?.includes(output[0] ?? ""));
        expect(gated).toBeDefined();
        made.output.push(portOf(gated?.output[0] ?? "", 1, ["n", 48, "t"]));
      },
    ],
    [
      "a convolution whose rounded input something else reads, too",
      { GatedConvolution: 0 },
      (made) => made.output.push(portOf(separate(made)?.input?.[0] ?? "", 2, ["n", 48, "t"])),
    ],
  ])(
    "%s",
    async (_name, kinds, change) => {
      const made = roundedConformer();
      change(made);
      const bytes = faster(made);
      expect(kindsOf(bytes, Object.keys(kinds))).toEqual(kinds);
      expect((await run(bytes, 32_000)).ids).toEqual((await run(path, 32_000)).ids);
    },
    60_000,
  );
});

test("a changed file is none that a model may have: its operations trust what calls them", () => {
  const changed = join(folder, "changed.onnx");
  writeFileSync(changed, faster(roundedConformer(), true));
  expect(() => readOnnxFile(changed)).toThrow("The file uses operations of the domain shruti.");
});
