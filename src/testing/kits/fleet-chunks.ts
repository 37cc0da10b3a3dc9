import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { InstalledModel } from "../../domain/model.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import { type ChunkJob, type ChunkOutcome, EngineError } from "../../engine/protocol.ts";
import type { Fleet } from "../../fleet/control/open-fleet.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** Chunks and workers for tests of a fleet whose recognition is a script. */

/** Makes a model whose manifest is right. */
export function fleetModel(folder: string, content: string): InstalledModel {
  const path = join(folder, `${content}.bin`);
  writeFileSync(path, content);
  return {
    ...{
      id: content,
      name: content,
      version: "1",
      family: "whisper",
      sha256: sha256Hex(content),
      bytes: 1,
    },
    ...{
      languages: [],
      licence: "none",
      source: "",
      decoding: {},
      files: { weights: path },
      embedded: false,
    },
  };
}

/** Makes a chunk of one second, whose samples all have one value. */
export function fleetChunk(model: InstalledModel, value: number): ChunkJob {
  return {
    ...{ model, windowMs: 30_000, settings: { language: "en" }, sharers: 1, isAlone: false },
    audio: { pcm: new Uint8Array(32_000).fill(value), totalSamples: 16_000 },
  };
}

export const SEGMENT = { startMs: 0, endMs: 1_000, text: "text", language: "en", confidence: 0.9 };
export const outcome = (segments: object[]) => ({
  outcome: { segments: segments as (typeof SEGMENT)[], elapsed_ms: 5 },
});
export const said = (text: string): ChunkOutcome => ({ segments: [{ ...SEGMENT, text }], workMs: 1 });

export function executorOf(recognize: ChunkExecutor["recognize"], places = 1): ChunkExecutor {
  return {
    capacity: () => ({ chunks: places, power: 1, isElastic: false }),
    recognize,
    warm: async () => {},
  };
}

async function recognize(
  fleet: Fleet,
  job: ChunkJob,
  signal = new AbortController().signal,
): Promise<string> {
  const { segments, onStored } = await fleet.engine.recognize(job, signal);
  onStored?.();
  return segments.map(({ text }) => text).join(" ");
}

export async function kindOf(fleet: Fleet, job: ChunkJob, signal?: AbortSignal): Promise<string> {
  try {
    return await recognize(fleet, job, signal);
  } catch (error) {
    if (error instanceof EngineError) return error.kind;
    throw error;
  }
}

/** Recognizes a chunk, and again when it is interrupted. */
export async function repeated(fleet: Fleet, job: ChunkJob): Promise<string> {
  for (;;) {
    const found = await kindOf(fleet, job);
    if (found !== "interrupted") return found;
    await Bun.sleep(10);
  }
}

export async function until(isSo: () => boolean, timeoutMs = 15_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${isSo}`);
    await Bun.sleep(20);
  }
}

export const working = (fleet: Fleet, count: number) =>
  until(() => fleet.status().workers.filter(({ state }) => state === "working").length === count);
