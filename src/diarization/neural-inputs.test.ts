import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeAudio } from "../engine/audio/decode.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { diarizeNeurally } from "./diarize-neural.ts";
import { countPeople } from "./neural-turns.ts";

/** Sounds of all kinds have a result with the published nets. */

const REAL = join(import.meta.dir, "../../../shared/real");
const WEIGHTS = {
  segmentationPath: join(REAL, "pyannote-segmentation-3.0.onnx"),
  embeddingPath: join(REAL, "campplus_zh_en_common_advanced.onnx"),
};
const SAMPLES_PER_MS = 16;
const { signal } = new AbortController();

let directory: string;
let native: NativeFiles;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "shruti-sounds-"));
  native = await extractNativeFiles(directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function trackOf(name: string) {
  const pcmPath = join(directory, `${name.replaceAll("/", "-")}.pcm`);
  if (name === "silence") writeFileSync(pcmPath, new Uint8Array(12_000 * SAMPLES_PER_MS * 2));
  else {
    const limits = { maxDurationMs: 600_000, timeoutMs: 60_000 };
    await decodeAudio(native, join(REAL, name), { output: pcmPath, ...limits });
  }
  const endSample = Bun.file(pcmPath).size / 2;
  return { pcmPath, regions: [{ startSample: 0, endSample }] };
}

describe.skipIf(!existsSync(WEIGHTS.embeddingPath))("with the published nets (needs ../shared/real)", () => {
  test.each([
    { sound: "two women in two and a half minutes", files: ["conversations/libri2_FF.flac"], people: 2 },
    { sound: "one reader", files: ["speech/austen-0890.wav"], people: 1 },
    { sound: "silence", files: ["silence"], people: 0 },
    { sound: "music", files: ["speech/music60.flac"], people: 0 },
    {
      sound: "the same voice on two tracks, which are different people",
      files: ["speech/austen-0870.wav", "speech/austen-0870.wav"],
      people: 2,
    },
  ])(
    "$sound: $people",
    async ({ files, people }) => {
      const tracks = [];
      for (const file of files) tracks.push(await trackOf(file));
      const { turns, isCountUncertain } = await diarizeNeurally(native, { tracks, threads: 2 }, WEIGHTS, {
        signal,
      });
      expect(turns).toHaveLength(files.length);
      expect(countPeople(turns.flat())).toBe(people);
      expect(isCountUncertain).toBe(false);
    },
    120_000,
  );

  test("a number that the sound does not have comes with the warning", async () => {
    const job = { tracks: [await trackOf("speech/austen-0870.wav")], minSpeakers: 9, maxSpeakers: 9 };
    const { turns, isCountUncertain } = await diarizeNeurally(native, job, WEIGHTS, { signal });
    expect(countPeople(turns.flat())).toBeLessThan(9);
    expect(isCountUncertain).toBe(true);
  }, 400_000);
});
