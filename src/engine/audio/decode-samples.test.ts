import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wavFile } from "../../e2e/samples.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { decodeAudio } from "./decode.ts";

const RATE_HZ = 16_000;

let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-decode-samples-"));
  nativeFiles = await extractNativeFiles(folder);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function decode(wav: Uint8Array) {
  const path = join(folder, "sound.wav");
  const output = join(folder, "out.pcm");
  writeFileSync(path, wav);
  const decoded = await decodeAudio(nativeFiles, path, { output, maxDurationMs: 60_000, timeoutMs: 30_000 });
  const samples = new Int16Array(new Uint8Array(readFileSync(output)).buffer);
  return { samples: [...samples], measurements: decoded.measurements };
}

/** A WAV file of 32-bit floats. */
function floatWav(samples: Float32Array): Uint8Array {
  const file = wavFile([new Uint8Array(samples.buffer)], { rateHz: RATE_HZ, channels: 1 });
  const view = new DataView(file.buffer);
  view.setUint16(20, 3, true);
  view.setUint32(28, RATE_HZ * 4, true);
  view.setUint16(32, 4, true);
  view.setUint16(34, 32, true);
  return file;
}

/** Rounds half to even, as the decoder does. */
function to16Bits(sample: number): number {
  const value = sample * 32_768;
  if (Number.isNaN(value)) return 0;
  const below = Math.floor(value);
  const isUp = value - below > 0.5 || (value - below === 0.5 && below % 2 !== 0);
  // `+ 0` makes 0 of -0.
  return Math.max(-32_768, Math.min(32_767, isUp ? below + 1 : below)) + 0;
}

/** Seven of eight numbers lie between two samples of 16 bits, one of them in the middle. */
const steps = (from: number, to: number) =>
  Float32Array.from({ length: (to - from) * 8 }, (_, index) => (from + index / 8) / 32_768);

// So loud that no quiet track is amplified.
test.each<[string, Float32Array]>([
  ["between the limits", steps(-20_000, 20_000)],
  ["up to the limits", steps(-32_768, 32_767)],
  ["beyond the limits", steps(-40_000, 40_000)],
  [
    "no number, and no finite one",
    steps(-20_000, 20_000).map((sample, index) => [Number.NaN, Infinity, -Infinity][index % 1000] ?? sample),
  ],
])("floats are rounded to 16 bits: %s", async (_, sound) => {
  const { samples } = await decode(floatWav(sound));
  expect(samples).toEqual([...sound].map(to16Bits));
});

/** Power above 5 kHz relative to all power, in dB: the decoder's filter, one sample after the other. */
function highFrequencyDb(sound: Int16Array): number {
  const w = (2 * Math.PI * 5_000) / RATE_HZ;
  const alpha = Math.sin(w) * Math.SQRT1_2;
  const edge = (1 + Math.cos(w)) / 2 / (1 + alpha);
  const [a1, a2] = [(-2 * Math.cos(w)) / (1 + alpha), (1 - alpha) / (1 + alpha)];
  const stages = Array.from({ length: 4 }, () => ({ z1: 0, z2: 0 }));
  let [all, high] = [0, 0];
  for (const sample of sound) {
    let value = sample / 32_768;
    all += value * value;
    for (const stage of stages) {
      const out = edge * value + stage.z1;
      stage.z1 = -2 * edge * value - a1 * out + stage.z2;
      stage.z2 = edge * value - a2 * out;
      value = out;
    }
    high += value * value;
  }
  return 10 * Math.log10(high / all);
}

/** The filter passes nothing of a constant: it hears the edges, where it begins, and where it loses its state. */
const constant = (count: number, edgeEvery: number) =>
  Int16Array.from({ length: count }, (_, index) => (Math.floor(index / edgeEvery) % 2 ? 8_000 : 24_000));

test.each([
  ["shorter than a block", constant(1_001, Infinity)],
  ["of many blocks and a rest", constant(70_003, Infinity)],
  ["with edges at the blocks", constant(70_003, 1_024)],
  ["with edges beside the blocks", constant(70_003, 1_021)],
])("stretches that are filtered side by side make one level above 5 kHz: %s", async (_, sound) => {
  const wav = wavFile([new Uint8Array(sound.buffer)], { rateHz: RATE_HZ, channels: 1 });
  const { samples, measurements } = await decode(wav);
  expect(samples).toEqual([...sound]);
  expect(measurements.highFrequencyDb).toBeCloseTo(highFrequencyDb(sound), 2);
});
