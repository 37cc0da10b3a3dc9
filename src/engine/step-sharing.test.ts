import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStepSharing, type SharingMachine } from "./step-sharing.ts";
import { FILE_TYPES } from "./whisper/whisper-model-file.ts";

/** Whether steps of several chunks are made together, by the machine and by the weights. */

const DEMO = join(import.meta.dirname, "../../models/demo.bin");
const TYPE_OFFSET = 44;
const WIDTH_OFFSETS = [12, 28];
const MACHINE: SharingMachine = { precision: "fast", isGpu: false, hasKernels: true };

let dir = "";
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "shruti-sharing-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

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
  test("with types of weights that have a kernel for it", () => {
    const sharesSteps = createStepSharing(MACHINE);
    const sharing = [...FILE_TYPES].filter(([number]) => sharesSteps(model(headWith(number))));
    expect(sharing.map(([, { name }]) => name)).toEqual(["f16", "q4_1", "q8_0", "q5_0", "q5_1"]);
    expect(sharesSteps(model(DEMO))).toBe(true);
  });

  const others: [string, SharingMachine][] = [
    ["with whisper.cpp's own code", { ...MACHINE, precision: "exact" }],
    ["on a GPU", { ...MACHINE, isGpu: true }],
    ["on a processor without AVX2", { ...MACHINE, hasKernels: false }],
  ];
  for (const [name, machine] of others) {
    test(`not ${name}`, () => expect(createStepSharing(machine)(model(DEMO))).toBe(false));
  }

  test("not when rows are no whole blocks of the kernel", () => {
    expect(createStepSharing(MACHINE)(model(headWith(1, 192)))).toBe(true);
    expect(createStepSharing(MACHINE)(model(headWith(1, 96)))).toBe(false);
  });

  test("not with other families, and not before a model is known or when its file is none", () => {
    const sharesSteps = createStepSharing(MACHINE);
    expect(sharesSteps(model(DEMO, "nemo_ctc"))).toBe(false);
    expect(sharesSteps({})).toBe(false);
    expect(sharesSteps(model(join(dir, "missing.bin")))).toBe(false);
    expect(sharesSteps(model(import.meta.path))).toBe(false);
  });
});
