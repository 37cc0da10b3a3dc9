import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pcmOf, utterancesIn } from "../../e2e/samples.ts";
import { FAMILIES } from "../../families/families.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { layoutChunk } from "../../pipeline/chunk-audio.ts";
import { chunkLimits } from "../../pipeline/chunks.ts";
import { packChunks } from "../../testing/makers/pack-chunks.ts";
import { openVad } from "./vad.ts";

/** How full the windows of dense speech are, with the real speech detector. */

const RATE_HZ = 16_000;
const PAUSE_SECONDS = 0.2;

let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-windows-"));
  nativeFiles = await extractNativeFiles(folder);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Puts the utterances of the samples one after the other, with pauses of a fifth of a second, up to a length. */
function denseSpeech(seconds: number): Int16Array {
  const utterances = ["04-en", "12-en-long", "01-en"].flatMap((name) => {
    const pcm = new Int16Array(pcmOf(name).buffer);
    return utterancesIn(name).map(({ start, end }) =>
      pcm.slice(start * RATE_HZ, (end + PAUSE_SECONDS) * RATE_HZ),
    );
  });
  const dense = new Int16Array(seconds * RATE_HZ);
  for (let at = 0, n = 0; at < dense.length; n++) {
    const utterance = utterances[n % utterances.length] ?? new Int16Array(1);
    dense.set(utterance.subarray(0, dense.length - at), at);
    at += utterance.length;
  }
  return dense;
}

const { maxChunkMs, windowMs } = FAMILIES.of("whisper");

test.each([
  [30, 1],
  [60, 3],
  [120, 5],
  [240, 9],
  [600, 21],
])("%d s of dense speech take %d windows", async (seconds, windows) => {
  const path = join(folder, `${seconds}.pcm`);
  writeFileSync(path, new Uint8Array(denseSpeech(seconds).buffer));
  const limits = chunkLimits(maxChunkMs);
  const chunks = packChunks(await openVad(nativeFiles).detectSpeech(path, { limits }), limits);
  const lengths = chunks.map(({ regions }) => (layoutChunk(regions).totalSamples * 1000) / RATE_HZ);
  expect(Math.max(...lengths)).toBeLessThanOrEqual(maxChunkMs);
  expect(chunks).toHaveLength(windows);
  if (seconds === 600) {
    const filled = lengths.reduce((sum, ms) => sum + ms, 0);
    expect(filled / windowMs / chunks.length).toBeGreaterThanOrEqual(0.95);
  }
});
