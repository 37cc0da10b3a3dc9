import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { amplified, asChannels, joined, sampleSound, silence, wavOf } from "../../e2e/sounds.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { decodeAudio } from "./decode.ts";
import { gainFor } from "./quiet-tracks.ts";

let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-measurements-"));
  nativeFiles = await extractNativeFiles(join(folder, "native"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("loud and silent tracks are not changed, and others are amplified to -20 dB, by 40 dB at most", () => {
  expect(gainFor(-14)).toBe(0);
  expect(gainFor(-36)).toBe(0);
  expect(gainFor(-44)).toBe(24);
  expect(gainFor(-70)).toBe(40);
  expect(gainFor(-120)).toBe(0);
});

const peakOf = (path: string) => {
  const samples = new Int16Array(new Uint8Array(readFileSync(path)).buffer);
  return samples.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0) / 32_768;
};

test("each channel is amplified separately, and keeps its length", async () => {
  const speech = sampleSound("04-en");
  const path = join(folder, "call.wav");
  writeFileSync(path, wavOf(asChannels(speech, amplified(speech, -30), silence(1))));
  const decoded = await decodeAudio(nativeFiles, path, {
    output: { directory: folder, channels: "separate" },
    maxDurationMs: 60_000,
    timeoutMs: 30_000,
  });
  const [near = "", far = "", idle = ""] = decoded.files;
  const peak = speech.channels[0]?.reduce((most, value) => Math.max(most, Math.abs(value)), 0) ?? 0;
  const peakDb = 20 * Math.log10(peak);
  const tracks = decoded.measurements.tracks.map((track) => Math.round(track.peakDb));
  expect(tracks).toEqual([Math.round(peakDb), Math.round(peakDb - 30), -120]);
  expect(peakOf(near)).toBeCloseTo(peak, 2);
  expect(peakOf(far)).toBeGreaterThan(0.2);
  expect(peakOf(far)).toBeLessThan(0.6);
  expect(peakOf(idle)).toBe(0);
  for (const file of decoded.files) expect(readFileSync(file).byteLength).toBe(decoded.samples * 2);
  expect(readdirSync(folder).filter((name) => name.includes("unfinished"))).toEqual([]);
});

test("a few quiet words in long silence are amplified like a quiet track", async () => {
  const { rateHz, channels } = amplified(sampleSound("04-en"), -30);
  const words = { rateHz, channels: channels.map((values) => values.slice(0, 3 * rateHz)) };
  const path = join(folder, "sparse.wav");
  writeFileSync(path, wavOf(joined(silence(100), words, silence(200))));
  const output = join(folder, "sparse.pcm");
  const options = { output, maxDurationMs: 400_000, timeoutMs: 30_000 };
  const { measurements } = await decodeAudio(nativeFiles, path, options);
  expect(measurements.tracks[0]?.peakDb).toBeLessThan(-30);
  expect(peakOf(output)).toBeGreaterThan(0.15);
});

test("a mix of two full channels does not clip", async () => {
  const speech = sampleSound("04-en");
  const loud = amplified(speech, 6);
  const path = join(folder, "loud.wav");
  writeFileSync(path, wavOf(asChannels(loud, loud)));
  const output = join(folder, "mix.pcm");
  const decoded = await decodeAudio(nativeFiles, path, { output, maxDurationMs: 60_000, timeoutMs: 30_000 });
  expect(peakOf(output)).toBeCloseTo(10 ** (decoded.measurements.peakDb / 20), 2);
  expect(peakOf(output)).toBeLessThan(1);
});
