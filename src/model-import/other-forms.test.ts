import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type MadeTensor,
  makeOpenAiFile,
  makeTensors,
  makeTorchFile,
  openAiSizes,
  pickledDict,
  pickledGlobal,
  pickledText,
  SMALL_SHAPE,
} from "../testing/makers/checkpoint-makers.ts";
import {
  type Ct2Variable,
  listTokens,
  makeCt2File,
  writeCt2Folder,
} from "../testing/makers/ctranslate2-maker.ts";
import { makeZip } from "../testing/makers/zip-maker.ts";
import { importModel } from "./import-worker.ts";
import type { ImportRequest } from "./protocol.ts";

/** Damaged, foreign and hostile folders of CTranslate2 and checkpoints of OpenAI. */

const root = mkdtempSync(join(tmpdir(), "shruti-other-forms-"));
const shape = SMALL_SHAPE;
const tensors = makeTensors(shape);
let good: Buffer;
let int8: Buffer;
let goodPt: Buffer;
beforeAll(() => {
  good = makeCt2File({ shape, tensors });
  int8 = makeCt2File({ shape, tensors, quantization: "int8" });
  goodPt = makeOpenAiFile(shape, tensors, "F16");
}, 60_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

let count = 0;

/** Imports and returns the message of the refusal; undefined when there was none. Nothing may be left of a refused one. */
async function refusalOf(kind: ImportRequest["kind"], source: string): Promise<string | undefined> {
  const scratch = join(root, `scratch-${count++}`);
  mkdirSync(scratch);
  const output = join(scratch, "output.bin");
  try {
    await importModel({ kind, source, type: "f16", output, scratch, reserveBytes: 0 }, () => {});
    return undefined;
  } catch (error) {
    expect((error as Error).name).toBe("ImportError");
    return (error as Error).message;
  }
}

type Folder = { config?: string; tokens?: string; weights?: Uint8Array };

function folderOf({
  config = "{}",
  tokens = listTokens({ shape }).join("\n"),
  weights = good,
}: Folder): string {
  const path = join(root, `folder-${count++}`);
  mkdirSync(path);
  writeFileSync(join(path, "config.json"), config);
  writeFileSync(join(path, "vocabulary.txt"), tokens);
  writeFileSync(join(path, "model.bin"), weights);
  return path;
}

const changed = (change: (variables: Ct2Variable[]) => Ct2Variable[]): Folder => ({
  weights: makeCt2File({ shape, tensors, change }),
});
const withVariable = (name: string, change: (variable: Ct2Variable) => Ct2Variable | undefined): Folder =>
  changed((all) => all.flatMap((variable) => (variable.name === name ? (change(variable) ?? []) : variable)));
const withNumber = (name: string, value: number): Folder =>
  withVariable(name, (variable) => ({ ...variable, bytes: Buffer.alloc(variable.bytes.length, value) }));
const withInteger = (at: number, value: number): Folder => {
  const weights = Buffer.from(good);
  weights.writeUInt32LE(value, at);
  return { weights };
};
const tokensWith = (change: (tokens: string[]) => void): Folder => {
  const tokens = listTokens({ shape });
  change(tokens);
  return { tokens: tokens.join("\n") };
};
/** Place of the number of variables, after version, kind and revision. */
const COUNT_AT = 4 + 2 + "WhisperSpec".length + 1 + 4;
const NORM = "encoder/layer_0/ffn/layer_norm/gamma";
const FUSED = "decoder/layer_0/self_attention/linear_0";

const CT2: [string, () => Folder, string][] = [
  [
    "an older layout",
    () => withInteger(0, 3),
    "model.bin: it is not a model of CTranslate2 in a known version (3)",
  ],
  ["something else", () => ({ weights: Buffer.from("ggml, or whatever") }), "in a known version"],
  ["nothing", () => ({ weights: Buffer.alloc(0) }), "model.bin: the file is truncated"],
  [
    "the half of a file",
    () => ({ weights: good.subarray(0, good.length / 2) }),
    "model.bin: the file is truncated",
  ],
  [
    "a file that is cut within its aliases",
    () => ({ weights: good.subarray(0, -3) }),
    "model.bin: the file is truncated",
  ],
  [
    "bytes after the end",
    () => ({ weights: Buffer.concat([good, Buffer.alloc(7)]) }),
    "7 bytes belong to no tensor",
  ],
  [
    "four thousand million variables",
    () => withInteger(COUNT_AT, 0xffffffff),
    "it claims 4294967295 variables",
  ],
  [
    "a name without an end",
    () => {
      const weights = Buffer.from(good);
      weights.writeUInt16LE(0xffff, COUNT_AT + 4);
      return { weights };
    },
    "a name has 65535 bytes",
  ],
  [
    "a tensor with an astronomic shape",
    () => withVariable(NORM, (variable) => ({ ...variable, shape: [0xffffffff, 0xffffffff] })),
    `the tensor ${NORM} is too large`,
  ],
  [
    "a tensor with more values than bytes",
    () => withVariable(NORM, (variable) => ({ ...variable, shape: [64] })),
    `the tensor ${NORM} has 64 bytes for 64 values of 2 bytes`,
  ],
  [
    "values of an unknown type",
    () => withVariable(NORM, (variable) => ({ ...variable, type: 9 })),
    `the tensor ${NORM} has values of the unknown type 9`,
  ],
  ["a missing tensor", () => withVariable(NORM, () => undefined), `the tensor ${NORM} is missing`],
  [
    "a tensor twice",
    () =>
      changed((all) => all.flatMap((variable) => (variable.name === NORM ? [variable, variable] : variable))),
    `the tensor ${NORM} is there twice`,
  ],
  [
    "a tensor of no Whisper model",
    () =>
      changed((all) => [...all, { name: "decoder/adapter", shape: [2], type: 4, bytes: Buffer.alloc(4) }]),
    "the tensor decoder/adapter belongs to no Whisper model",
  ],
  [
    "a tensor of another size",
    () => withVariable(NORM, () => ({ name: NORM, shape: [64], type: 4, bytes: Buffer.alloc(128) })),
    `the tensor ${NORM} is 64; the token embedding says 32`,
  ],
  [
    "query, key and value of different sizes",
    () =>
      withVariable(`${FUSED}/bias`, (variable) => ({
        ...variable,
        shape: [95],
        bytes: variable.bytes.subarray(2),
      })),
    "has 95 rows, which are not 3 equal parts",
  ],
  [
    "a bias of keys",
    () =>
      withVariable(`${FUSED}/bias`, (variable) => ({
        ...variable,
        bytes: Buffer.alloc(variable.bytes.length, 0x3c),
      })),
    "has a bias of keys",
  ],
  [
    "a value that is not a number",
    () =>
      withVariable(NORM, (variable) => ({ ...variable, bytes: Buffer.alloc(variable.bytes.length, 0xff) })),
    `the tensor ${NORM} holds a value that is not a number`,
  ],
  ["another activation", () => withNumber("decoder/activation", 1), "decoder/activation is 1"],
  ["scaled embeddings", () => withNumber("decoder/scale_embeddings", 1), "decoder/scale_embeddings is 1"],
  ["no heads", () => withVariable("encoder/num_heads", () => undefined), "0 attention heads"],
  [
    "whole numbers without scales",
    () => ({
      weights: makeCt2File({ shape, tensors, quantization: "int8", change: without("weight_scale") }),
    }),
    "has no scales",
  ],
  [
    "scales of another number of rows",
    () => scales((variable) => ({ ...variable, shape: [2], bytes: Buffer.alloc(8, 0x3f) })),
    "are 2, and the tensor has 128 rows",
  ],
  [
    "scales of zero",
    () => scales((variable) => ({ ...variable, bytes: Buffer.alloc(variable.bytes.length) })),
    "are not all above zero",
  ],
  [
    "a translator",
    () => ({ weights: other(good) }),
    "it is a model of the kind OthererSpec, not WhisperSpec",
  ],
  ["a config that is no JSON", () => ({ config: "{" }), "config.json: the file is not valid JSON"],
  [
    "too few tokens",
    () => tokensWith((tokens) => tokens.pop()),
    "vocabulary.txt: it lists 51864 tokens, and the model has 51865",
  ],
  [
    "tokens of another model",
    () => tokensWith((tokens) => tokens.splice(50359, 0, ...tokens.splice(50358, 1))),
    "vocabulary.txt: the token",
  ],
  [
    "tokens that no file of bytes has",
    () =>
      tokensWith((tokens) => {
        tokens[5] = "क";
      }),
    "byte characters",
  ],
];
const SCALES = "encoder/layer_0/ffn/linear_0/weight_scale";
const without = (ending: string) => (all: Ct2Variable[]) => all.filter(({ name }) => !name.endsWith(ending));
const scales = (change: (variable: Ct2Variable) => Ct2Variable): Folder => ({
  weights: makeCt2File({
    ...{ shape, tensors, quantization: "int8" },
    change: (all) => all.map((variable) => (variable.name === SCALES ? change(variable) : variable)),
  }),
});
const other = (weights: Buffer): Buffer =>
  Buffer.from(weights.toString("latin1").replace("WhisperSpec", "OthererSpec"), "latin1");

describe("a folder of CTranslate2", () => {
  test("that the cases spoil is accepted", async () => {
    expect(await refusalOf("folder", folderOf({}))).toBeUndefined();
    expect(await refusalOf("folder", folderOf({ weights: int8 }))).toBeUndefined();
    expect(await refusalOf("folder", writeCt2Folder(join(root, "made"), { shape, tensors }))).toBeUndefined();
  }, 60_000);

  test.each(CT2)(
    "is refused that has %s",
    async (_name, make, message) => {
      const folder = folderOf(make());
      expect(await refusalOf("folder", folder)).toContain(message);
      expect(readdirSync(folder)).toHaveLength(3);
    },
    30_000,
  );

  test("is refused without a list of tokens", async () => {
    const folder = folderOf({});
    rmSync(join(folder, "vocabulary.txt"));
    expect(await refusalOf("folder", folder)).toBe(
      "vocabulary.json: neither this file nor vocabulary.txt is there",
    );
    writeFileSync(join(folder, "vocabulary.json"), "[1, 2]");
    expect(await refusalOf("folder", folder)).toBe("vocabulary.json: the file is not a list of texts");
  });
});

const withSizes = (sizes: Record<string, number>): Buffer =>
  makeOpenAiFile(shape, tensors, "F16", { sizes: { ...openAiSizes(shape), ...sizes } });
const withTensors = (change: (all: MadeTensor[]) => MadeTensor[]): Buffer =>
  makeOpenAiFile(shape, change([...tensors]), "F16");
const FIRST = "model.encoder.conv1.bias";

const OPENAI: [string, () => Buffer, string][] = [
  ["nothing", () => Buffer.alloc(0), "it is not a file of torch 1.6 or newer"],
  ["the half of a file", () => goodPt.subarray(0, goodPt.length / 2), "it is not a usable ZIP"],
  ["a plain state_dict", () => makeTorchFile(tensors, "F16"), "it has no dims"],
  ["another width of text", () => withSizes({ n_text_state: 64 }), "n_text_state is 64"],
  ["another audio window", () => withSizes({ n_audio_ctx: 3000 }), "n_audio_ctx is 3000"],
  ["an unknown vocabulary", () => withSizes({ n_vocab: 60_000 }), "vocab_size is 60000"],
  ["a million layers", () => withSizes({ n_audio_layer: 1e6 }), "1000000 layers"],
  [
    "more layers than there are",
    () => withSizes({ n_audio_layer: 2 }),
    "encoder.blocks.1.attn.key.weight is missing",
  ],
  [
    "a missing tensor",
    () => withTensors((all) => all.filter(({ name }) => name !== FIRST)),
    "encoder.conv1.bias is missing",
  ],
  [
    "a tensor of no Whisper model",
    () => withTensors((all) => [...all, { name: "decoder.head", shape: [2], values: new Float32Array(2) }]),
    "the tensor decoder.head belongs to no Whisper model",
  ],
  [
    "a tensor of another size",
    () =>
      withTensors((all) =>
        all.map((tensor) =>
          tensor.name === FIRST ? { ...tensor, shape: [64], values: new Float32Array(64) } : tensor,
        ),
      ),
    "the tensor encoder.conv1.bias is 64; dims says 32",
  ],
  [
    "packed entries",
    () => makeZip([{ name: "base/data.pkl", content: Buffer.alloc(1000), isPacked: true }]),
    "is packed, which torch never does",
  ],
  [
    "a pickle that runs code",
    () => makeZip([{ name: "base/data.pkl", content: pickledDict([["dims", CODE]]) }]),
    'its pickle names "os system": it could run code',
  ],
];
const CODE = Buffer.concat([pickledGlobal("os", "system"), pickledText("true"), Buffer.from([0x85, 0x52])]);

describe("a checkpoint of OpenAI", () => {
  test("that the cases spoil is accepted", async () => {
    const path = join(root, "good.pt");
    writeFileSync(path, goodPt);
    expect(await refusalOf("openai", path)).toBeUndefined();
    expect(readFileSync(path).length).toBe(goodPt.length);
  });

  test.each(OPENAI)(
    "is refused that has %s",
    async (_name, make, message) => {
      const path = join(root, `bad-${count++}.pt`);
      writeFileSync(path, make());
      const refusal = await refusalOf("openai", path);
      expect(refusal).toStartWith(`${path.split("/").at(-1)}: `);
      expect(refusal).toContain(message);
    },
    30_000,
  );
});
