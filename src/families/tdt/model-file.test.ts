import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GgufValue } from "../../lib/gguf-file.ts";
import { readGgufFile } from "../../lib/gguf-file.ts";
import { ggufHead } from "../../model-import/gguf-head.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { writeTdtModel } from "../../testing/makers/tdt-model.ts";
import { FAMILIES } from "../families.ts";
import { checkTdtFile } from "./model-file.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-tdt-file-"));
const path = join(folder, "tiny.gguf");
let whole: Buffer;
beforeAll(async () => {
  await writeTdtModel("parakeet", path);
  whole = readFileSync(path);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function refusal(bytes: Uint8Array): string {
  const changed = join(folder, "changed.gguf");
  writeFileSync(changed, bytes);
  try {
    checkTdtFile(changed);
    return "accepted";
  } catch (error) {
    const { message } = error as Error;
    expect(message).toContain(changed);
    return message;
  }
}

/** Replaces the first occurrence of some bytes. */
function replaced(from: Uint8Array, to: Uint8Array): Buffer {
  const bytes = Buffer.from(whole);
  const at = bytes.indexOf(from);
  expect(at).toBeGreaterThan(0);
  bytes.set(to, at);
  return bytes;
}

/** The durations of the model, which are 0 to 4, or others. */
const durations = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);

/** The entry of a number in the head: its name, the type and the value. */
function entry(name: string, value: number): Buffer {
  const tail = Buffer.alloc(8);
  tail.writeUInt32LE(4);
  tail.writeUInt32LE(value, 4);
  return Buffer.concat([Buffer.from(name), tail]);
}

describe("the file of a TDT model", () => {
  test("is found among the families, and by no other one", () => {
    const found = FAMILIES.given(path);
    expect(found?.family.name).toBe("nemo_tdt");
    expect(found?.model).toMatchObject({ kind: "a GGUF file of a TDT model", name: "tiny" });
    expect(FAMILIES.of("whisper").given(path)).toBeUndefined();
  });

  test("says what a chunk needs, and which languages it has", () => {
    const family = FAMILIES.of("nemo_tdt");
    const files = { weights: path };
    const machine = { engine: engineOptions(), processorFlags: new Set<string>() };
    const { encoderBytes, sharedBytes, sharing } = family.needs(files, machine);
    expect(encoderBytes).toBeGreaterThan(16 * 1024 ** 2);
    // 250 frames before and behind, 2 layers of width 64, numbers of 4 bytes. A model has them once.
    expect(sharedBytes).toBe(2 * 250 * 2 * 64 * 4);
    expect(sharing).toEqual({ onProcessor: true, onGpu: false });
    expect(family.needs({ weights: join(folder, "none") }, machine)).toEqual({});
    expect(() => family.describe(files, {})).toThrow("give each one with --language");
    expect(family.describe(files, { languages: [{ code: "hi" }] })).toEqual({
      family: "nemo_tdt",
      languages: [{ code: "hi", name: "Hindi", modes: ["native"] }],
      decoding: { unknownToken: "<unk>" },
    });
  });

  const cases: [what: string, bytes: () => Uint8Array, reason: string][] = [
    ["that is empty", () => new Uint8Array(), "it is not a GGUF file"],
    ["with another version", () => replacedAt(4, 2), "it is of version 2 of GGUF, not 3"],
    ["that is cut", () => whole.subarray(0, 200_000), "it is truncated"],
    ["with a byte less", () => whole.subarray(0, -64), "it is truncated"],
    [
      "with more behind it",
      () => Buffer.concat([whole, new Uint8Array(64)]),
      "it has more after its tensors",
    ],
    ["with a million tensors", () => replacedAt(8, 1_000_000), "it claims 1000000 tensors"],
    ["with a million values", () => replacedAt(16, 1_000_000), "it claims 1000000 values"],
    [
      "of another program",
      () => replaced(Buffer.from("shruti-tdt"), Buffer.from("llama-2000")),
      'it is a GGUF file of "llama-2000", not of a TDT model',
    ],
    [
      "with another width",
      () => replaced(entry("tdt.width", 64), entry("tdt.width", 66)),
      "its 4 heads do not fit",
    ],
    [
      "without layers",
      () => replaced(entry("tdt.layers", 2), entry("tdt.layers", 0)),
      "its layers is 0, not 1 to 64",
    ],
    [
      "with fewer layers",
      () => replaced(entry("tdt.layers", 2), entry("tdt.layers", 1)),
      "it has an unknown tensor",
    ],
    [
      "with more layers",
      () => replaced(entry("tdt.layers", 2), entry("tdt.layers", 3)),
      "layers.2.norm_ff1.weight is missing",
    ],
    [
      "with another factor",
      () => replaced(entry("tdt.factor", 8), entry("tdt.factor", 6)),
      "its factor is 6",
    ],
    [
      "with a duration that goes back",
      () => replaced(durations(0, 1, 2, 3, 4), durations(0, 1, 2, 3, 2 ** 32 - 1)),
      "its durations are not at most 64 numbers up to 64",
    ],
    [
      "whose durations are all 0",
      () => replaced(durations(0, 1, 2, 3, 4), durations(0, 0, 0, 0, 0)),
      "its durations are all 0",
    ],
    ["with a value without a name", () => named(""), "it has a value without a name"],
    [
      "with another alignment",
      () => named("general.alignment", 64),
      "its tensors begin at multiples of 64, not 32",
    ],
    [
      "with an alignment that is a text",
      () => named("general.alignment", "many"),
      "its tensors begin at multiples of many, not 32",
    ],
    [
      "with too long a head",
      () => named("texts", new Array<string>(520).fill("x".repeat(64 * 1024))),
      "its head has more than 33554432 bytes",
    ],
    [
      "with fewer tokens",
      () => replaced(entry("tdt.token_count", 22), entry("tdt.token_count", 21)),
      "it has the texts of 22 tokens, not of 21",
    ],
    [
      "with another inner width",
      () => replaced(entry("tdt.inner", 256), entry("tdt.inner", 255)),
      "its tensor layers.0.ff1.up.weight is 64 × 256, not 64 × 255",
    ],
  ];
  test.each(cases)("%s is refused", (_what, bytes, reason) => expect(refusal(bytes())).toContain(reason));

  test("never reads outside of itself, whatever a byte of its head is", () => {
    const head = 6_000;
    let accepted = 0;
    for (let at = 0; at < head; at += 7) {
      const bytes = Buffer.from(whole);
      bytes[at] = ((bytes[at] ?? 0) + 1 + (at % 251)) & 0xff;
      if (refusal(bytes) === "accepted") accepted++;
    }
    // The texts of tokens may be any.
    expect(accepted).toBeLessThan(300);
  });
});

/** A file with one value. */
const named = (name: string, value: GgufValue = 1) => ggufHead(new Map([[name, value]]), []);

function replacedAt(at: number, value: number): Buffer {
  const bytes = Buffer.from(whole);
  bytes.writeUInt32LE(value, at);
  return bytes;
}

test("values of a head are read as they were written", () => {
  const values = new Map<string, GgufValue>([
    ["text", "देवनागरी"],
    ["number", 7],
    ["flag", true],
    ["numbers", [1, 2, 3]],
    ["texts", ["a", "", "▁b"]],
  ]);
  const tensors = [
    { name: "first", shape: [3], type: "f32" },
    { name: "second", shape: [32, 2], type: "q8_0" },
  ] as const;
  const head = ggufHead(values, tensors);
  writeFileSync(join(folder, "made.gguf"), Buffer.concat([head, Buffer.alloc(32 + 96)]));
  const file = readGgufFile(join(folder, "made.gguf"));
  expect(file.values).toEqual(values);
  expect([...file.tensors]).toEqual([
    ["first", { type: 0, shape: [3], position: head.length, bytes: 12 }],
    ["second", { type: 8, shape: [32, 2], position: head.length + 32, bytes: 68 }],
  ]);
});
