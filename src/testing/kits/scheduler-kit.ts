import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { TranscriptionCreate, Usage } from "../../http/wire/schemas.ts";
import { apiClient } from "../answers/api-client.ts";
import { CHUNK_MS, type TestApp } from "./open-test-app.ts";
import { type Interference, type Script, type ScriptedEngine, scriptedAudio } from "./scripted-engine.ts";

/** Speech without a pause. */
export const FOUR_CHUNKS: Script = { seconds: 20, text: "नमस्ते" };

/** Where the chunks of `FOUR_CHUNKS` begin, milliseconds. */
export const FOUR_STARTS = [0, 1, 2, 3].map((n) => n * CHUNK_MS);

export { CHUNK_MS };

/** Uploads a recording and starts its transcription. Returns its id. */
export async function begin(
  testApp: TestApp,
  script: Script = FOUR_CHUNKS,
  more: Partial<TranscriptionCreate> = {},
  key = testApp.key,
): Promise<string> {
  const client = apiClient(testApp.as(key));
  const upload = await client.upload(scriptedAudio(script));
  const started = await client.start({ audio: { upload_id: upload.id }, language: "hi", ...more });
  return started.body.id;
}

export const clientOf = (testApp: TestApp, key = testApp.key) => apiClient(testApp.as(key));

/** Records each run of a chunk, by its start in milliseconds, and calls `what` before it. */
export function watchChunks(engine: ScriptedEngine, what: Interference["chunk"] = () => undefined) {
  const runs: { startMs: number; isAlone: boolean }[] = [];
  engine.interfere({
    chunk(chunk, signal) {
      const { startMs, isAlone } = chunk;
      runs.push({ startMs, isAlone });
      return what(chunk, signal);
    },
  });
  return { runs, of: (startMs: number) => runs.filter((run) => run.startMs === startMs) };
}

/** Returns the speech of the first three chunks, as the detector reports it. The last of these may still grow. */
export function speechOfThree() {
  return FOUR_STARTS.slice(0, 3).map((startMs) => ({
    startSample: startMs * 16,
    endSample: (startMs + CHUNK_MS) * 16,
  }));
}

/** Lists the folder of decoded recordings. */
export function workFiles({ directory }: Pick<TestApp, "directory">): string[] {
  const work = join(directory, "work");
  return existsSync(work) ? readdirSync(work) : [];
}

export async function until(what: string, isSo: () => boolean | Promise<boolean>, timeoutMs = 30_000) {
  const deadline = performance.now() + timeoutMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await Bun.sleep(2);
  }
}

/** Returns a promise that rejects when the signal is aborted, and never resolves. */
export function forever(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

export async function usageOf(testApp: TestApp): Promise<Usage> {
  return clientOf(testApp).usage();
}
