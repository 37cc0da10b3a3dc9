import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { InstalledModel } from "../../domain/model.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import { type BytesAudio, EngineError } from "../../engine/protocol.ts";
import { openWorker } from "../../fleet/worker/open-worker.ts";
import { openLog } from "../../lib/log.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/**
 * Runs as a worker of a fleet that waits instead of recognizing, so that many workers and faults cost little. The text of
 * a chunk follows from its audio. Everything else is the code of `shruti worker`. Arguments: the folder that
 * `shruti fleet add` has made, and a `ScriptedWorker` as JSON.
 */
export type ScriptedWorker = {
  modelSha256: string;
  places: number;
  /** A chunk takes a random time up to twice this. */
  meanMs: number;
};

type WorkerConfig = { fleet: { nats: string[]; name: string; worker: string } };

const [folder = "", spec = ""] = process.argv.slice(2);
const { modelSha256, places, meanMs } = JSON.parse(spec) as ScriptedWorker;
const file = (name: string) => readFileSync(join(folder, name), "utf8");
const { fleet } = Bun.TOML.parse(file("shruti.toml")) as WorkerConfig;

const model: InstalledModel = {
  ...{ id: "scripted", name: "scripted", version: "1", family: "whisper", sha256: modelSha256, bytes: 1 },
  ...{ languages: [], licence: "none", source: "", decoding: {}, files: { weights: "" }, embedded: false },
};

/** Letters only: the pipeline writes numbers in words' place. */
const wordOf = (pcm: Uint8Array) =>
  sha256Hex(pcm)
    .slice(0, 12)
    .replace(/\d/g, (digit) => "ghijklmnop"[Number(digit)] ?? "");

const executor: ChunkExecutor = {
  capacity: () => ({ chunks: places, power: places, isElastic: false }),
  async recognize({ audio, settings }, signal) {
    const { pcm, totalSamples } = audio as BytesAudio;
    const elapsedMs = 2 * meanMs * Math.random();
    await sleep(elapsedMs, undefined, { signal }).catch(() => {
      throw new EngineError("aborted", "aborted");
    });
    const segment = { startMs: 0, endMs: Math.floor(totalSamples / 16), text: wordOf(pcm), confidence: 0.9 };
    return { segments: [{ ...segment, language: settings.language }], workMs: elapsedMs };
  },
  warm: async () => {},
};

const worker = openWorker({
  ...{ servers: fleet.nats, fleet: fleet.name, worker: fleet.worker },
  ...{ ca: file("ca.pem"), seed: file("worker.key").trim(), executor, version: "scripted" },
  ...{ installed: () => [model], sha256OfFile: async () => modelSha256, device: () => "none" },
  ...{ placesAhead: 0, synchronousPlaces: 1 },
  log: openLog("info", "json", (line) => void process.stderr.write(line)),
});
process.on("SIGTERM", () => {
  void worker
    .drain(10_000)
    .then(worker.close)
    .then(() => process.exit(0));
});
