import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { LOW_VOICE, randomFrom, talk } from "../testing/makers/voices.ts";
import { holdsBothBands, limitToTelephone } from "./neural-bands.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "shruti-bands-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const scaled = (pcm: Int16Array) => Float32Array.from(pcm, (sample) => sample / 32_768);
const telephoned = (pcm: Int16Array) =>
  Int16Array.from(limitToTelephone(scaled(pcm)), (value) => value * 32_768);
/** A voice before a microphone, which has some noise. */
function said(seconds: number): Int16Array {
  const random = randomFrom(3);
  return talk(LOW_VOICE, seconds, random).map((sample) => sample + Math.round(400 * (random() - 0.5)));
}

/** Writes the parts, each a second after the one before, and says whether they are of both bands. */
async function isBoth(parts: readonly Int16Array[]): Promise<boolean> {
  const regions: { startSample: number; endSample: number }[] = [];
  let at = 0;
  for (const { length } of parts) {
    regions.push({ startSample: at, endSample: at + length });
    at += length + SAMPLE_RATE_HZ;
  }
  const pcm = new Int16Array(at);
  for (const [index, part] of parts.entries()) pcm.set(part, regions[index]?.startSample);
  const pcmPath = join(directory, "track.pcm");
  writeFileSync(pcmPath, pcm);
  return await holdsBothBands({ pcmPath, regions }, async () => undefined);
}

const PART_SECONDS = 6;
let wide: Int16Array;
let narrow: Int16Array;
beforeAll(() => {
  wide = said(PART_SECONDS);
  narrow = telephoned(wide);
});

test.each([
  ["in wideband", 5, 0, false],
  ["over the telephone", 0, 5, false],
  ["in wideband and over the telephone", 3, 3, true],
  ["over the telephone for less than ten seconds", 10, 1, false],
  ["in wideband for less than a tenth", 2, 20, false],
])("speech %s: %i and %i parts of 6 s", async (_title, wides, narrows, expected) => {
  const parts = [...new Array(wides).fill(wide), ...new Array(narrows).fill(narrow)];
  expect(await isBoth(parts)).toBe(expected);
});

test("a track without speech has not both bands", async () => {
  expect(await isBoth([])).toBe(false);
});

test("a telephone carries a tone of 1 kHz as it is, and none of 5 kHz", () => {
  const tone = (hz: number) =>
    Float32Array.from({ length: 4_000 }, (_, n) => 0.5 * Math.sin((2 * Math.PI * hz * n) / SAMPLE_RATE_HZ));
  const inside = (sound: Float32Array) => sound.subarray(200, 3_800);
  const [kept, gone] = [limitToTelephone(tone(1_000)), limitToTelephone(tone(5_000))];
  const most = (sound: Float32Array) =>
    inside(sound).reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  const changed = kept.map((value, n) => value - (tone(1_000)[n] ?? 0));
  expect(most(changed)).toBeLessThan(1e-4);
  expect(most(gone)).toBeLessThan(1e-4);
});
