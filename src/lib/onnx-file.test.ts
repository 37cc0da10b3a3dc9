import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom } from "../testing/makers/audio-makers.ts";
import { ctcModel } from "../testing/makers/onnx-makers.ts";
import { TINY_CTC } from "../testing/makers/tiny-ctc.ts";
import { ONNX_FLOAT, ONNX_INT64, readOnnxFile } from "./onnx-file.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-onnx-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "model.onnx");

test("metadata, inputs and outputs are read without the weights", () => {
  const { metadata, inputs, outputs, external } = readOnnxFile(join(TINY_CTC, "model.onnx"));
  expect(metadata.get("vocab_size")).toBe("90");
  expect(inputs).toEqual([
    { name: "audio_signal", type: ONNX_FLOAT, shape: ["n", 80, "t"] },
    { name: "length", type: ONNX_INT64, shape: ["n"] },
  ]);
  expect(outputs).toMatchObject([{ name: "logprobs", type: ONNX_FLOAT }]);
  expect(external.size).toBe(0);
});

test("damaged files are refused with a reason, at once", () => {
  const random = seededRandom(7);
  const place = (length: number) => Math.floor(random() * length);
  const sources = [
    readFileSync(join(TINY_CTC, "raw/model.onnx")),
    Buffer.from(ctcModel({ external: { location: "w.bin", offset: "0", length: "16" }, isNested: true })),
  ];
  let refused = 0;
  for (let round = 0; round < 2_000; round++) {
    const source = sources[round % 2] ?? Buffer.alloc(0);
    const damaged = Buffer.from(source.subarray(0, round % 5 === 0 ? place(source.length) : source.length));
    // Most bytes are weights, which this does not read. So the damage is near the ends.
    for (let n = 0; n < 1 + (round % 4) && damaged.length > 0; n++) {
      const at = place(Math.min(damaged.length, 2_000));
      damaged[round % 3 === 0 ? damaged.length - 1 - at : at] = place(256);
    }
    writeFileSync(path, damaged);
    const startedAt = performance.now();
    try {
      readOnnxFile(path);
    } catch (error) {
      refused++;
      expect(error).toBeInstanceOf(Error);
      expect((error as Error).message).toMatch(/^The (file|weights) /);
    }
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  }
  expect(refused).toBeGreaterThan(500);
}, 60_000);

test("more than a model has is refused before memory grows", () => {
  const entry = Buffer.from(ctcModel({ metadata: {} }));
  // A metadata entry of an empty key and value has two bytes; those of different keys are counted.
  const entries = Array.from({ length: 1_100 }, (_, n) => {
    const key = Buffer.from(String(n));
    return Buffer.concat([Buffer.from([14 * 8 + 2, key.length + 2, 10, key.length]), key]);
  });
  writeFileSync(path, Buffer.concat([entry, ...entries]));
  expect(() => readOnnxFile(path)).toThrow("too much metadata");
});
