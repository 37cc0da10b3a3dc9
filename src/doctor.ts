import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "./config/schema.ts";
import { describeBroken } from "./engine/cpu-variants.ts";
import { measureMachine } from "./engine/machine.ts";
import { chooseSizing, type SizingInfo } from "./engine/sizing.ts";
import type { LocalOptions } from "./local.ts";
import { openLocalParts } from "./local.ts";
import { familyOf } from "./pipeline/families/families.ts";

export type EngineReport = {
  whisperVersion: string;
  cpuVariant: string;
  devices: string[];
  backendFailures: string[];
  /** Code for this processor that ended workers. */
  avoidedCode: string[];
  model: string;
  /** How many chunks `serve` would decode side by side. */
  workers: string;
  speeds: string[];
};

const SAMPLE_RATE_HZ = 16_000;
const WINDOW_SECONDS = 30;
const ROUNDS = 2;
const GIB = 1024 ** 3;

/**
 * Starts the engine with the default model and measures how many windows it gets through with few chunks of many
 * threads and with many chunks of one: the choice behind `engine.workers`. The sound is noise, so that what is
 * measured is the encoder and little else.
 */
export async function examineEngine(options: LocalOptions): Promise<EngineReport> {
  const { engine, gpuFreeBytes, probed, models, close } = await openLocalParts(withSharedThreads(options));
  const directory = mkdtempSync(join(tmpdir(), "shruti-doctor-"));
  try {
    const model = models.resolve(undefined);
    const signal = new AbortController().signal;
    await engine.warm(model, signal);
    const pcmPath = join(directory, "noise.pcm");
    writeFileSync(pcmPath, noise(WINDOW_SECONDS * SAMPLE_RATE_HZ));
    const totalSamples = WINDOW_SECONDS * SAMPLE_RATE_HZ;
    const audio = {
      pcmPath,
      slices: [{ sourceStartSample: 0, samples: totalSamples, targetStartSample: 0 }],
      totalSamples,
    };
    const language = model.languages[0]?.code ?? "en";
    const family = familyOf(model.family);
    const settings = family.singlePass(family.settingsFor({ language, mode: "native" }, model));
    const recognize = (sharers: number) =>
      engine.recognize(
        {
          model,
          audio,
          windowMs: family.windowMs,
          settings,
          sharers,
          isAlone: false,
        },
        signal,
      );
    const machine = measureMachine();
    const { cores } = machine;
    const speeds: string[] = [];
    for (const workers of new Set([1, cores])) {
      const threads = Math.max(1, Math.floor(cores / workers));
      await Promise.all(Array.from({ length: workers }, () => recognize(workers)));
      const startedMs = performance.now();
      for (let round = 0; round < ROUNDS; round++) {
        await Promise.all(Array.from({ length: workers }, () => recognize(workers)));
      }
      const ratio = (ROUNDS * workers * WINDOW_SECONDS * 1000) / (performance.now() - startedMs);
      speeds.push(`${workers} at once, ${threads} threads each: ${ratio.toFixed(1)} × real time on noise`);
    }
    const status = engine.status();
    const facts = probed ?? status.engine;
    // The worker that has decoded knows best.
    const cpuVariant = status.engine?.cpuVariant ?? facts?.cpuVariant;
    return {
      whisperVersion: facts?.whisperVersion ?? "unknown",
      cpuVariant: cpuVariant ?? "unknown",
      devices: (facts?.devices ?? []).map(
        ({ name, type, description, freeBytes }) =>
          `${name} (${type}): ${description}, ${(freeBytes / GIB).toFixed(1)} GiB of memory free`,
      ),
      backendFailures: [
        ...(facts?.backendFailures ?? []).map(({ path, reason }) => `${path}: ${reason}`),
        ...status.models.flatMap(({ gpuFailure }) => (gpuFailure === undefined ? [] : [gpuFailure])),
      ],
      avoidedCode: status.brokenVariants.map(describeBroken),
      model: `${model.id} ${model.version} on ${status.models[0]?.device ?? "cpu"}${model.notice ? ` – ${model.notice}` : ""}`,
      workers: describeSizing(options.config, { ...machine, gpuFreeBytes }, model.bytes),
      speeds,
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
    await close();
  }
}

/** The cores are shared out over the chunks that run, whatever the config says: both ways are measured. */
function withSharedThreads({ config, ...options }: LocalOptions): LocalOptions {
  return { ...options, config: { ...config, engine: { ...config.engine, threads_per_worker: "auto" } } };
}

function describeSizing(config: Config, machine: SizingInfo, weightsBytes: number): string {
  const { workers, threads_per_worker } = config.engine;
  const wanted = { workers, threadsPerWorker: threads_per_worker };
  const sizing = chooseSizing(wanted, machine, weightsBytes);
  const threads = sizing.threadsPerWorker ?? Math.max(1, Math.floor(machine.cores / sizing.workers));
  const further = config.engine.synchronous_workers;
  return `${sizing.workers} chunks at once (${workers}), ${threads} threads each (${threads_per_worker}); ${further} further for synchronous requests`;
}

/** Deterministic noise, 16-bit. */
function noise(samples: number): Uint8Array {
  const pcm = new Int16Array(samples);
  let state = 1;
  for (let i = 0; i < samples; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    pcm[i] = (state >> 16) % 2000;
  }
  return new Uint8Array(pcm.buffer);
}
