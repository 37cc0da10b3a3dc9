import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EngineError } from "../engine/protocol.ts";
import { createPool } from "../engine/workers/pool.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { extractNativeFiles } from "../native/native-files.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { BAND_NORM_METADATA, bandNormModel, emptyModel } from "../testing/makers/onnx-makers.ts";
import { HIGH_VOICE, LOW_VOICE, makeConversation } from "../testing/makers/voices.ts";

/**
 * A network without weights, which returns the norm of each mel band, takes the place of the net that describes voices. So
 * these tests show that the native code runs to its end. `neural-inputs.test.ts` has the real nets.
 */
const SEGMENTATION = join(import.meta.dir, "../../models/speakers/pyannote-segmentation-3.0.onnx");

let directory: string;
let pool: ReturnType<typeof createPool>;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "shruti-neural-"));
  pool = createPool({
    nativeFiles: await extractNativeFiles(directory),
    backendDirs: [],
    engine: engineOptions({ device: "cpu", model_idle_seconds: 0 }),
    log: () => undefined,
  });
});
afterAll(async () => {
  await pool.close();
  rmSync(directory, { recursive: true, force: true });
});

function write(name: string, bytes: Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

/** Makes a conversation of this length, repeated this many times. */
function track(seconds: number, times = 1) {
  const { pcm, regions } = makeConversation([LOW_VOICE, HIGH_VOICE], seconds, 3);
  const bytes = Buffer.from(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  const pcmPath = write("talk.pcm", Buffer.concat(Array.from({ length: times }, () => bytes)));
  const again = Array.from({ length: times }, (_, time) =>
    regions.map(({ startSample, endSample }) => ({
      startSample: startSample + time * pcm.length,
      endSample: endSample + time * pcm.length,
    })),
  );
  return { pcmPath, regions: again.flat() };
}

describe("with weights", () => {
  test("segmentation, embedding and clustering run to their end", async () => {
    const weights = { segmentationPath: SEGMENTATION, embeddingPath: write("bands.onnx", bandNormModel()) };
    const job = { tracks: [track(20)], minSpeakers: 2, maxSpeakers: 2, weights };
    const { turns, isCountUncertain, weightHashes } = await pool.diarize(job, new AbortController().signal);
    const found = turns[0] ?? [];
    expect(found.length).toBeGreaterThan(1);
    expect(new Set(found.map(({ speaker }) => speaker)).size).toBe(2);
    expect(found.every(({ startMs, endMs }) => startMs >= 0 && endMs > startMs && endMs <= 30_000)).toBe(
      true,
    );
    expect(isCountUncertain).toBe(false);
    expect(weightHashes).toEqual({
      segmentation: sha256Hex(readFileSync(weights.segmentationPath)),
      speaker: sha256Hex(readFileSync(weights.embeddingPath)),
    });
  }, 60_000);

  test("weights without a network fail only this work, and with a reason", async () => {
    const embeddingPath = write("empty.onnx", emptyModel(BAND_NORM_METADATA));
    const weights = { segmentationPath: SEGMENTATION, embeddingPath };
    const { pcmPath, regions } = track(5);
    const signal = new AbortController().signal;
    const broken = pool.diarize({ tracks: [{ pcmPath, regions }], weights }, signal);
    const acoustic = pool.diarize({ tracks: [{ pcmPath, regions }] }, signal);
    const error = await broken.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(EngineError);
    expect((await acoustic).turns[0]?.length).toBeGreaterThan(0);
  }, 60_000);

  test.each([
    ["output_dim", "512", /describes a voice by 80 numbers, and its output_dim says 512/],
    ["receptive_field_shift", "540", /589 frames in a window, and its receptive_field_shift of 540 makes/],
  ])(
    "metadata that the net does not keep is found before the first recording: %s %s",
    async (key, value, reason) => {
      const bytes = readFileSync(SEGMENTATION);
      const at = bytes.indexOf("270", bytes.indexOf("receptive_field_shift"));
      if (key === "receptive_field_shift") bytes.write(value, at);
      const metadata = key === "output_dim" ? { ...BAND_NORM_METADATA, [key]: value } : BAND_NORM_METADATA;
      const weights = {
        segmentationPath: write("changed-segmentation.onnx", bytes),
        embeddingPath: write("changed-bands.onnx", bandNormModel(metadata)),
      };
      const running = pool.diarize({ tracks: [track(2)], weights }, new AbortController().signal);
      await expect(running).rejects.toThrow(reason);
    },
    60_000,
  );

  test("an abort ends the run of the net", async () => {
    const weights = { segmentationPath: SEGMENTATION, embeddingPath: write("bands.onnx", bandNormModel()) };
    const controller = new AbortController();
    const running = pool.diarize({ tracks: [track(120, 8)], weights }, controller.signal);
    const outcome = running.then(
      () => "done",
      (reason: EngineError) => reason.kind,
    );
    await Bun.sleep(500);
    const abortedAt = performance.now();
    controller.abort();
    expect(await outcome).toBe("aborted");
    expect(performance.now() - abortedAt).toBeLessThan(2_500);
  }, 60_000);
});

test("missing weights are an error, and the program survives", async () => {
  const weights = { segmentationPath: join(directory, "no.onnx"), embeddingPath: join(directory, "no.onnx") };
  const failing = pool.diarize({ tracks: [track(2)], weights }, new AbortController().signal);
  const error = await failing.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EngineError);
}, 30_000);
