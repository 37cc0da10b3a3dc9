import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { decodeAudio } from "../engine/audio/decode.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { diarizeNeurally } from "./diarize-neural.ts";
import { countPeople } from "./neural-turns.ts";

/** Sounds of all kinds have a result with the published nets. */

const MODELS = join(import.meta.dir, "../../models");
const WEIGHTS = {
  segmentationPath: join(MODELS, "speakers/pyannote-segmentation-3.0.onnx"),
  embeddingPath: join(MODELS, "speakers/campplus-zh-en.onnx"),
};
/** A recording of one person. */
const READER = join(MODELS, "trial/jfk.wav");
/** Recordings of people that this repository does not have. */
const REAL = join(import.meta.dir, "../../../shared/real");
const SAMPLES_PER_MS = 16;
const { signal } = new AbortController();

let directory: string;
let native: NativeFiles;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "shruti-sounds-"));
  native = await extractNativeFiles(directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Makes silence of 12 s and chords of 20 s, such as an organ plays. */
function madeSound(name: "silence" | "chords"): Int16Array {
  if (name === "silence") return new Int16Array(12_000 * SAMPLES_PER_MS);
  const tone = (hertz: number, n: number) => Math.sin((2 * Math.PI * hertz * n) / (1000 * SAMPLES_PER_MS));
  return Int16Array.from({ length: 20_000 * SAMPLES_PER_MS }, (_, n) => {
    const root = [262, 294, 349, 392][Math.floor(n / (1000 * SAMPLES_PER_MS)) % 4] ?? 262;
    return 4_000 * (tone(root, n) + tone(root * 1.26, n) + tone(root * 1.5, n));
  });
}

async function trackOf(sound: string) {
  const pcmPath = join(directory, `${basename(sound)}.pcm`);
  if (sound === "silence" || sound === "chords") writeFileSync(pcmPath, madeSound(sound));
  else {
    const limits = { maxDurationMs: 600_000, timeoutMs: 60_000 };
    await decodeAudio(native, sound, { output: pcmPath, ...limits });
  }
  const endSample = Bun.file(pcmPath).size / 2;
  return { pcmPath, regions: [{ startSample: 0, endSample }] };
}

async function expectPeople(sounds: readonly string[], people: number): Promise<void> {
  const tracks = [];
  for (const sound of sounds) tracks.push(await trackOf(sound));
  const { turns, isCountUncertain } = await diarizeNeurally(native, { tracks, threads: 2 }, WEIGHTS, {
    signal,
  });
  expect(turns).toHaveLength(sounds.length);
  expect(countPeople(turns.flat())).toBe(people);
  expect(isCountUncertain).toBe(false);
}

test.each<[string, number, string[]]>([
  ["one reader", 1, [READER]],
  ["silence", 0, ["silence"]],
  ["chords", 0, ["chords"]],
  ["the same voice on two tracks, which are different people", 2, [READER, READER]],
])("%s: %i", async (_, people, sounds) => expectPeople(sounds, people), 120_000);

test("a number that the sound does not have comes with the warning", async () => {
  const job = { tracks: [await trackOf(READER)], minSpeakers: 9, maxSpeakers: 9 };
  const { turns, isCountUncertain } = await diarizeNeurally(native, job, WEIGHTS, { signal });
  expect(countPeople(turns.flat())).toBeLessThan(9);
  expect(isCountUncertain).toBe(true);
}, 400_000);

describe.skipIf(!existsSync(REAL))("recordings of people (needs ../shared/real)", () => {
  test.each<[string, number, string]>([
    ["two women in two and a half minutes", 2, "conversations/libri2_FF.flac"],
    ["music", 0, "speech/music60.flac"],
  ])("%s: %i", async (_, people, name) => expectPeople([join(REAL, name)], people), 400_000);

  test("three readers from a microphone and then over the telephone are three", async () => {
    const seconds = 90;
    const parts: Uint8Array[] = [];
    for (const name of ["libri3", "libri3_phone"]) {
      const { pcmPath } = await trackOf(join(REAL, `conversations/${name}.flac`));
      parts.push(readFileSync(pcmPath).subarray(0, seconds * 2_000 * SAMPLES_PER_MS));
    }
    const pcmPath = join(directory, "both.pcm");
    writeFileSync(pcmPath, Buffer.concat(parts));
    const regions = [{ startSample: 0, endSample: 2 * seconds * 1_000 * SAMPLES_PER_MS }];
    const { turns } = await diarizeNeurally(native, { tracks: [{ pcmPath, regions }], threads: 2 }, WEIGHTS, {
      signal,
    });
    expect(countPeople(turns.flat())).toBe(3);
  }, 400_000);
});
