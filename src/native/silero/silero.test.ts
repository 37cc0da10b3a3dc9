import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { InferenceSession, Tensor } from "onnxruntime-web";
import { pcmOf } from "../../e2e/samples.ts";
import { sumsOf } from "../../engine/audio/offset.ts";
import { SILERO_ONNX, sileroWeights } from "../build/silero.ts";
import { extractNativeFiles, type NativeFiles } from "../native-files.ts";
import { openSilero, type Silero } from "./silero.ts";

const WINDOW = 512;
let nativeFiles: NativeFiles;
let silero: Silero;
let speech: Int16Array;

// onnxruntime-web replaces this global by Node's own, with which the program's threads do not start in other tests.
const { Worker } = globalThis;
afterAll(() => {
  globalThis.Worker = Worker;
});

beforeAll(async () => {
  nativeFiles = await extractNativeFiles("");
  silero = openSilero(nativeFiles);
  const bytes = pcmOf("04-en");
  const samples = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  speech = samples.slice(0, Math.floor(samples.length / WINDOW) * WINDOW);
});

/** Runs the published network, one window after the other, each with the last 64 samples of the one before. */
async function publishedProbabilities(pcm: Int16Array): Promise<number[]> {
  const session = await InferenceSession.create(new Uint8Array(readFileSync(SILERO_ONNX)));
  const rate = new Tensor("int64", BigInt64Array.from([16_000n]), []);
  let state = new Tensor("float32", new Float32Array(2 * 128), [2, 1, 128]);
  const heard = new Float32Array(64 + WINDOW);
  const found: number[] = [];
  for (let start = 0; start < pcm.length; start += WINDOW) {
    heard.copyWithin(0, WINDOW);
    for (let n = 0; n < WINDOW; n++) heard[64 + n] = (pcm[start + n] ?? 0) / 32_768;
    const input = new Tensor("float32", heard.slice(), [1, heard.length]);
    const answer = await session.run({ input, state, sr: rate });
    state = answer.stateN as Tensor as typeof state;
    found.push(...(answer.output as Tensor & { data: Float32Array }).data);
  }
  return found;
}

describe("the network", () => {
  test("gives the results of the published one, over speech and pauses, in each of its builds", async () => {
    const pcm = speech.slice(0, 300 * WINDOW);
    const published = await publishedProbabilities(pcm);
    expect(Math.max(...published)).toBeGreaterThan(0.9);
    expect(Math.min(...published)).toBeLessThan(0.1);
    for (let variant = 0; variant < silero.variants; variant++) {
      const ours = silero.listen(variant).probabilities(pcm);
      for (const [n, probability] of published.entries())
        expect(Math.abs((ours[n] ?? 2) - probability)).toBeLessThan(1e-4);
    }
  }, 60_000);

  test("gives the same results however the recording is cut into blocks", () => {
    const whole = silero.listen().probabilities(speech);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 70 }), { maxLength: 12 }), (blocks) => {
        const listener = silero.listen();
        const found: number[] = [];
        for (const windows of [...blocks, Number.POSITIVE_INFINITY]) {
          const start = found.length * WINDOW;
          found.push(...listener.probabilities(speech.slice(start, start + windows * WINDOW)));
        }
        expect(found).toEqual([...whole]);
      }),
      { numRuns: 30 },
    );
  });

  test("stays within 0 and 1 at full scale, and two detectors do not affect each other", () => {
    const square = Int16Array.from({ length: 40 * WINDOW }, (_, n) => (n % 50 < 25 ? 32_767 : -32_768));
    const alone = silero.listen().probabilities(speech);
    const [first, second] = [silero.listen(), silero.listen()];
    for (const probability of first.probabilities(square)) {
      expect(probability).toBeGreaterThanOrEqual(0);
      expect(probability).toBeLessThanOrEqual(1);
    }
    expect([...second.probabilities(speech)]).toEqual([...alone]);
  });
});

test("adds up the samples of each window exactly", () => {
  const loudest = Int16Array.from({ length: 2 * WINDOW }, (_, n) => (n < WINDOW ? -32_768 : 32_767));
  const pcm = new Int16Array([...loudest, ...speech.subarray(0, 20 * WINDOW), ...new Int16Array(WINDOW)]);
  const expected = Array.from({ length: pcm.length / WINDOW }, (_, n) => {
    const { sum, squares, counted } = sumsOf(pcm.subarray(n * WINDOW, (n + 1) * WINDOW));
    return [sum, squares, counted];
  });
  expect([...silero.sums(pcm)]).toEqual(expected.flat());
  expect(silero.sums(new Int16Array(0))).toHaveLength(0);
});

test("rejects input of the wrong size", () => {
  expect(() => silero.listen().probabilities(new Int16Array(100))).toThrow("whole windows");
  expect(() => silero.sums(new Int16Array(100))).toThrow("whole windows");
  expect(() => silero.listen(silero.variants)).toThrow(RangeError);
  expect(() => sileroWeights(new Uint8Array([10, 0]))).toThrow("has no stft.forward_basis_buffer");
  const folder = mkdtempSync(join(tmpdir(), "shruti-silero-"));
  const sileroWeightsPath = join(folder, "short.weights");
  writeFileSync(sileroWeightsPath, new Uint8Array(400));
  expect(() => openSilero({ ...nativeFiles, sileroWeights: sileroWeightsPath })).toThrow("do not fit");
  rmSync(folder, { recursive: true });
});
