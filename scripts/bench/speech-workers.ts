/**
 * Finds the speech of several hour-long recordings at once, with one process and with more.
 *
 *   bun scripts/bench/speech-workers.ts [recordings, default 4] [numbers of processes, default 1,2]
 *
 * The recordings are the long sample, repeated. Prints the time until the first and the last recording are done.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeAudio } from "../../src/engine/audio/decode.ts";
import { createPool } from "../../src/engine/workers/pool.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { chunkLimits } from "../../src/pipeline/chunks.ts";
import { engineOptions } from "../../src/testing/kits/test-config.ts";

const [count = 4, processes = [1, 2]] = [
  process.argv[2] === undefined ? undefined : Number(process.argv[2]),
  process.argv[3]?.split(",").map(Number),
];
const HOUR_BYTES = 3_600 * 16_000 * 2;
const directory = mkdtempSync(join(tmpdir(), "shruti-bench-"));
try {
  const nativeFiles = await extractNativeFiles(directory);
  const sample = join(directory, "sample.pcm");
  await decodeAudio(nativeFiles, join(import.meta.dir, "../../models/samples/12-en-long.flac"), {
    output: sample,
    maxDurationMs: 3_600_000,
    timeoutMs: 60_000,
  });
  const bytes = readFileSync(sample);
  const hour = Buffer.concat(Array.from({ length: Math.ceil(HOUR_BYTES / bytes.length) }, () => bytes));
  const path = join(directory, "hour.pcm");
  await Bun.write(path, hour.subarray(0, HOUR_BYTES));
  const options = { nativeFiles, backendDirs: [], log: () => {} };
  for (const speechWorkers of processes) {
    const pool = createPool({
      ...options,
      engine: engineOptions({ device: "cpu", model_idle_seconds: 0, speech_workers: speechWorkers }),
    });
    const { signal } = new AbortController();
    await pool.warmSpeech(signal);
    const startedAt = performance.now();
    const seconds = await Promise.all(
      Array.from({ length: count }, async () => {
        await pool.detectSpeech({ pcmPath: path, limits: chunkLimits(30_000) }, signal);
        return (performance.now() - startedAt) / 1000;
      }),
    );
    seconds.sort((a, b) => a - b);
    const speed = (count * 3_600) / (seconds.at(-1) ?? 1);
    console.log(
      `${speechWorkers} processes: first of ${count} hours after ${seconds[0]?.toFixed(1)} s, last after ${seconds.at(-1)?.toFixed(1)} s, ${speed.toFixed(0)} x real time`,
    );
    await pool.close();
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
