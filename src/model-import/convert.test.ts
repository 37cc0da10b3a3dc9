import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Hex } from "../lib/sha256.ts";
import {
  type MadeFolder,
  type MadeForm,
  type MadeType,
  makeOpenAiFile,
  makeTensors,
  makeWords,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../testing/makers/checkpoint-makers.ts";
import {
  listTokens,
  type MadeQuantization,
  roundedTensors,
  writeCt2Folder,
} from "../testing/makers/ctranslate2-maker.ts";
import { makeZip } from "../testing/makers/zip-maker.ts";
import { readCarriedVocabulary } from "./carried-vocabulary.ts";
import { sizeOf } from "./convert.ts";
import { importModel } from "./import-worker.ts";
import type { ImportRequest } from "./protocol.ts";
import type { WeightType } from "./quantise.ts";

/**
 * SHA-256 of what other programs make of the same generated checkpoints: `f16` is the output of whisper.cpp 1.9.1's
 * `models/convert-h5-to-ggml.py`, the others of its `whisper-quantize`. src/testing/reference-converter/README.md says how
 * to run them.
 */
const REFERENCE: {
  vocab: number;
  mels: number;
  checkpoints: [type: MadeType, form: MadeForm][];
  hashes: Partial<Record<WeightType, string>>;
}[] = [
  {
    vocab: 51864,
    mels: 80,
    checkpoints: [["F32", "safetensors"]],
    hashes: {
      f16: "54796f9dbbfefefbf9f1707c3abf03a3f5d20378e05028aa20672990d3a1a488",
      q8_0: "42109ad4570df8e514361aa3a17aa4ea522acb2bfe15ae4bd163e97e75f08507",
      q5_0: "2adeb4ae14fb9a3ed41e73bf51c745ca1dfbabd513bcc525807e12aef17d3d6e",
      q5_1: "c266e43d8ced4420188f022a13f7f553f9bd8bac400b1eebe706382707c5436d",
    },
  },
  {
    vocab: 51864,
    mels: 80,
    checkpoints: [["BF16", "torch"]],
    hashes: { f16: "a86b4ea8fe68d11e75a6a4db82b31760c3749bade2ad0ddd5aa3ddeda224772a" },
  },
  {
    vocab: 51865,
    mels: 80,
    checkpoints: [
      ["F32", "torch"],
      ["F16", "torch"],
    ],
    hashes: {
      f16: "b981ddd0f19f3586b90d873d907bc7d0dea561ca5275c696979ee94d7ddb8208",
      q8_0: "3db33d717e0f45daf3e707ccd99ddd8d2d02bf53aee297aea4e03f958d8cb9c1",
      q5_0: "f8ee8ea2bdcb536f587bef4fe96b033e6e4d63e6deeae0732cf9b6a52a35b707",
      q5_1: "3fce0c9993c699c6c8ea7774b85e0fd4b6a527d19422680f3da8cedeb0927cd3",
    },
  },
  {
    vocab: 51865,
    mels: 80,
    checkpoints: [["BF16", "sharded"]],
    hashes: { f16: "8c112bb1f1f82a9e1c22153e6b5e9d4b4071e45a64963807e0d8f3a83567e3f8" },
  },
  {
    vocab: 51866,
    mels: 128,
    checkpoints: [
      ["F32", "safetensors"],
      ["F16", "torch"],
    ],
    hashes: {
      f16: "1b576057951ed99c5f8ccc05fcc259f20c361b670f23cc135a595bc1b54ce444",
      q8_0: "c84a6e4bb8c32999a1f728646638f5825cd6eea4afd439554f0feb2c8e3d91e7",
      q5_0: "d7c69b8b5c88729622bcd08fd559afe4228fe0d905982fac0246b8d3b29826a9",
      q5_1: "9abe6343c1f2dd6c2142458084cbd0764b19e63688df731773317e4e6018abba",
    },
  },
  {
    vocab: 51866,
    mels: 128,
    checkpoints: [["BF16", "safetensors"]],
    hashes: { f16: "00b3a5203f4f845e31aa84707e36d20fc7e4f7e1b719a243716089a91d440224" },
  },
];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-convert-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let count = 0;
async function convert(request: Pick<ImportRequest, "kind" | "source" | "type">, scratch = folder) {
  const output = join(folder, `${count++}.bin`);
  const progress: number[] = [];
  const imported = await importModel(
    { ...request, output, scratch, reserveBytes: 0 },
    (done) => void progress.push(done),
  );
  expect(progress.at(-1)).toBeCloseTo(1);
  expect(progress).toEqual(progress.toSorted((a, b) => a - b));
  const bytes = readFileSync(output);
  expect({ sha256: imported.sha256, bytes: imported.bytes }).toEqual({
    sha256: sha256Hex(bytes),
    bytes: bytes.length,
  });
  return { output, ...imported };
}

describe.each(REFERENCE)(
  "a checkpoint of $vocab tokens and $mels mel bands: $checkpoints",
  ({ vocab, mels, checkpoints, hashes }) => {
    test("becomes, byte for byte, what whisper.cpp's own programs make of it", async () => {
      const shape = { ...SMALL_SHAPE, vocab, mels };
      for (const [type, form] of checkpoints) {
        const source = writeCheckpoint(join(folder, `${vocab}-${type}-${form}`), {
          shape,
          tensors: makeTensors(shape),
          type,
          form,
        });
        const f16 = await convert({ kind: "folder", source, type: "f16" });
        expect(f16.sha256).toBe(hashes.f16 ?? "");
        expect(f16.size).toBe(sizeOf(shape));
        for (const [quantised, sha256] of Object.entries(hashes)) {
          if (quantised === "f16") continue;
          const asType = quantised as WeightType;
          expect((await convert({ kind: "folder", source, type: asType })).sha256).toBe(sha256);
          // The same in two steps.
          expect((await convert({ kind: "ggml", source: f16.output, type: asType })).sha256).toBe(sha256);
        }
      }
    }, 60_000);
  },
);

describe("the same weights give the same file, byte for byte", () => {
  const shape = { ...SMALL_SHAPE, vocab: 51865 };
  const tensors = makeTensors(shape);
  const ofTransformers = async (name: string, made: Partial<MadeFolder>) => {
    const source = writeCheckpoint(join(folder, name), {
      ...{ shape, tensors, type: "F32", form: "safetensors" },
      ...made,
    });
    return (await convert({ kind: "folder", source, type: "f16" })).sha256;
  };

  test.each<[MadeQuantization, Partial<MadeFolder>]>([
    ["float32", {}],
    ["float16", { type: "F16" }],
    ["bfloat16", { type: "BF16" }],
    ["int8", { tensors: roundedTensors(shape, tensors, "int8") }],
    ["int8_float16", { tensors: roundedTensors(shape, tensors, "int8_float16") }],
    ["int16", { tensors: roundedTensors(shape, tensors, "int16") }],
  ])(
    "in a folder of CTranslate2: %s",
    async (quantization, made) => {
      const source = writeCt2Folder(join(folder, `ct2-${quantization}`), { shape, tensors, quantization });
      const expected = await ofTransformers(`of-${quantization}`, made);
      const imported = await convert({ kind: "folder", source, type: "f16" });
      expect(imported).toMatchObject({
        sha256: expected,
        size: sizeOf(shape),
        sources: [{ name: "model.bin" }],
      });
      // The newer list of tokens, and packed in a ZIP.
      const list = JSON.stringify(listTokens({ shape }));
      const entries = ["config.json", "model.bin"].map((name) => ({
        name: `whisper/${name}`,
        content: readFileSync(join(source, name)),
        isPacked: name.endsWith(".json"),
      }));
      const zip = join(folder, `${quantization}.zip`);
      writeFileSync(
        zip,
        makeZip([
          ...entries,
          { name: "whisper/vocabulary.json", content: Buffer.from(list), isPacked: true },
        ]),
      );
      const scratch = join(folder, `scratch-${quantization}`);
      mkdirSync(scratch);
      expect((await convert({ kind: "zip", source: zip, type: "f16" }, scratch)).sha256).toBe(expected);
    },
    60_000,
  );

  test.each([
    ["multilingual", 51865],
    ["gpt2", 51864],
  ] as const)(
    "in a checkpoint of OpenAI with the vocabulary %s",
    async (name, vocab) => {
      const words = await readCarriedVocabulary(name);
      const own = { ...shape, vocab };
      const ownTensors = makeTensors(own);
      const path = join(folder, `${name}.pt`);
      writeFileSync(path, makeOpenAiFile(own, ownTensors, "F16"));
      const expected = await ofTransformers(`of-${name}`, {
        ...{ shape: own, tensors: ownTensors, type: "F16", words: makeWords(vocab, words) },
      });
      expect(await convert({ kind: "openai", source: path, type: "f16" })).toMatchObject({
        ...{ sha256: expected, size: sizeOf(own), sources: [{ name: `${name}.pt` }] },
      });
    },
    60_000,
  );
});

test("the origin of the weights is known by hash", async () => {
  const source = writeCheckpoint(join(folder, "origin"), {
    shape: SMALL_SHAPE,
    tensors: makeTensors(SMALL_SHAPE),
    type: "F16",
    form: "sharded",
  });
  const { sources } = await convert({ kind: "folder", source, type: "q5_0" });
  expect(sources).toEqual(
    sources.map(({ name }) => ({ name, sha256: sha256Hex(readFileSync(join(source, name))) })),
  );
  expect(sources).toHaveLength(2);
}, 30_000);
