import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FamilyMachine } from "../families/contract.ts";
import { FILE_TYPES } from "../families/whisper/model-file.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { localCapacity } from "./local-executor.ts";
import { createModelNeeds } from "./model-needs.ts";

/** Whether steps of several chunks are made together, and what memory a chunk needs, by the machine and by the weights. */

const DEMO = join(import.meta.dirname, "../../models/demo.bin");
const TYPE_OFFSET = 44;
const WIDTH_OFFSETS = [12, 28];
const HEADS_OFFSETS = [16, 32];
const TEXT_LAYERS_OFFSET = 36;
const MACHINE: FamilyMachine = {
  engine: engineOptions(),
  processorFlags: new Set(["avx2"]),
};
const withSettings = (changes: Partial<FamilyMachine["engine"]>): FamilyMachine => ({
  ...MACHINE,
  engine: { ...MACHINE.engine, ...changes },
});

let dir = "";
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "shruti-sharing-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const sharing = (machine: FamilyMachine) => {
  const needsOf = createModelNeeds(machine);
  return (of: Parameters<typeof needsOf>[0]) => {
    const { onProcessor = false, onGpu = false } = needsOf(of).sharing ?? {};
    return [...(onProcessor ? ["processor"] : []), ...(onGpu ? ["gpu"] : [])].join(" ");
  };
};
const model = (weights: string, family: "whisper" | "nemo_ctc" = "whisper") => ({
  family,
  version: "1",
  files: { weights },
});

/** The head of the demonstration model with another type of weights, or another width. */
function headWith(type: number, width?: number): string {
  const path = join(dir, `${type}-${width}.bin`);
  const head = readFileSync(DEMO).subarray(0, 4096);
  head.writeInt32LE(type, TYPE_OFFSET);
  for (const offset of width === undefined ? [] : WIDTH_OFFSETS) head.writeInt32LE(width ?? 0, offset);
  writeFileSync(path, head);
  return path;
}

describe("steps of several chunks are made together", () => {
  test.each([...FILE_TYPES].map(([number, { name }]) => [name, number] as const))(
    "with weights of %s",
    (_, number) => expect(sharing(MACHINE)(model(headWith(number, 256)))).toBe("processor gpu"),
  );

  const machines: [string, FamilyMachine, string][] = [
    ["with whisper.cpp's own code", withSettings({ precision: "exact" }), ""],
    ["on a processor without AVX2", { ...MACHINE, processorFlags: new Set() }, "gpu"],
    ["where the config says so", withSettings({ shared_steps: "auto" }), "processor gpu"],
    ["where the config leaves the GPU out", withSettings({ shared_steps: "cpu" }), "processor"],
    ["where the config allows none", withSettings({ shared_steps: "never" }), ""],
  ];
  for (const [name, machine, where] of machines) {
    test(`${name}: ${where || "nowhere"}`, () => expect(sharing(machine)(model(DEMO))).toBe(where));
  }

  test("not when rows are no whole blocks of the kernel", () => {
    expect(sharing(MACHINE)(model(headWith(1, 192)))).toBe("processor gpu");
    expect(sharing(MACHINE)(model(headWith(1, 96)))).toBe("");
  });

  test("not with other families, and not before a model is known or when its file is none", () => {
    const sharesSteps = sharing(MACHINE);
    expect(sharesSteps(model(DEMO, "nemo_ctc"))).toBe("");
    expect(sharesSteps({})).toBe("");
    expect(sharesSteps(model(join(dir, "missing.bin")))).toBe("");
    expect(sharesSteps(model(import.meta.path))).toBe("");
  });
});

test("a chunk of a CTC model runs on one thread, one of Whisper on several", () => {
  const needsOf = createModelNeeds(MACHINE);
  expect(needsOf(model(DEMO, "nemo_ctc")).isOneThread).toBe(true);
  expect(needsOf(model(DEMO)).isOneThread).toBeUndefined();
});

describe("the memory of a chunk beside the weights", () => {
  const MIB = 1024 ** 2;

  /** The head of a model of that form. */
  function formed(name: string, width: number, textLayers: number): string {
    const path = join(dir, `${name}.bin`);
    const head = readFileSync(headWith(1, width));
    for (const offset of HEADS_OFFSETS) head.writeInt32LE(width / 64, offset);
    head.writeInt32LE(textLayers, TEXT_LAYERS_OFFSET);
    writeFileSync(path, head);
    return path;
  }

  // Measured: 12 chunks of base took 502 MB less when they borrowed two of twelve.
  const ENCODER_OF_BASE_MIB = 48;

  // Measured with chunks side by side, each with an encoder: 87 MiB with base (133 after a second try), 164 with small, 172 with turbo.
  test.each([
    ["base", 512, 6, 133, 200],
    ["small", 768, 12, 164, 350],
    ["turbo", 1280, 4, 172, 330],
  ])("follows from the form of %s, and not from the size of the file", (name, width, layers, least, most) => {
    const { stateBytes = 0, encoderBytes = 0 } = createModelNeeds(MACHINE)(
      model(formed(name, width, layers)),
    );
    expect(stateBytes + encoderBytes).toBeGreaterThan(least * MIB);
    expect(stateBytes + encoderBytes).toBeLessThan(most * MIB);
    expect(encoderBytes).toBeGreaterThan((width / 512) * ENCODER_OF_BASE_MIB * MIB);
  });

  test("holds a state and an encoder of the draft model, whose weights are beside those of the model", () => {
    const [large, small] = [model(formed("medium", 1024, 24)), model(formed("tiny", 384, 4))];
    const draft = { id: "tiny", sha256: "", files: small.files, bytes: 70 * MIB, languageCodes: ["en"] };
    const needsOf = createModelNeeds(MACHINE);
    const [alone, ofDraft] = [needsOf({ ...large, bytes: 500 * MIB }), needsOf(small)];
    const both = needsOf({ ...large, bytes: 500 * MIB, draft });
    expect(both.bytes).toBe(570 * MIB);
    expect(both.stateBytes).toBe((alone.stateBytes ?? 0) + (ofDraft.stateBytes ?? 0));
    expect(both.encoderBytes).toBe((alone.encoderBytes ?? 0) + (ofDraft.encoderBytes ?? 0));
    // Without shared steps there are no drafts, and nothing is loaded for them.
    const exact = createModelNeeds(withSettings({ precision: "exact" }));
    expect(exact({ ...large, bytes: 1, draft })).toEqual(exact({ ...large, bytes: 1 }));
  });

  test("bounds the chunks that share steps, so that a model that does not fit twelve times has fewer", () => {
    const needs = createModelNeeds(MACHINE)({ ...model(formed("large", 1280, 32)), bytes: 1_080 * MIB });
    const wanted = { workers: "auto", threads_per_worker: "auto" } as const;
    const chunksIn = (gib: number) =>
      localCapacity(wanted, { cores: 2, availableMemoryBytes: gib * 1024 * MIB }, needs).chunks;
    expect([2, 4, 8, 16, 32].map(chunksIn)).toEqual([1, 1, 5, 11, 12]);
  });
});
