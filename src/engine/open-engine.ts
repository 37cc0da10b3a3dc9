import { readFileSync } from "node:fs";
import { join } from "node:path";
import { NATIVE_HASH } from "#native-parts";
import type { TrackChoice } from "../domain/reading.ts";
import type { Log } from "../lib/log.ts";
import { requireProgram } from "../lib/program-file.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { listBackends } from "../native/backend-files.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { chosenGpu, requireDevice } from "./devices.ts";
import { createLocalEngine, type Engine } from "./engine.ts";
import { measureMachine } from "./machine.ts";
import { probeEngine } from "./probe-engine.ts";
import type { DevicePreference, EngineInfo, Precision, SharedSteps } from "./protocol.ts";
import { chooseSpeechWorkers } from "./sizing.ts";
import { endOrphans } from "./workers/orphans.ts";

/** The settings of the engine, by their names in the config. */
export type EngineSettings = {
  engine: {
    device: DevicePreference;
    precision: Precision;
    shared_steps: SharedSteps;
    model_idle_seconds: number;
    workers: number | "auto";
    speech_workers: number | "auto";
    threads_per_worker: number | "auto";
    background_niceness: number;
    decoder: string;
    tracks: TrackChoice;
  };
  limits: { max_duration_seconds: number };
};

export type OpenedEngine = {
  engine: Engine;
  /** Free memory of the GPU on which models run; undefined: they run on the processor. */
  gpuFreeBytes: number | undefined;
  /**
   * Names the code that decodes recordings and finds speech. Machines with the same version of the program and the same
   * name here find the same chunks.
   */
  soundCode: string;
  /** What the backends reported; undefined: there are none, or the config asks for the processor. */
  probed: EngineInfo | undefined;
};

/** How far a data directory is trusted. */
export type DataDirTrust = {
  /** false: nothing that is there runs, unless it is exactly what the executable carries. Default: true. */
  isTrusted?: boolean;
  /** Receives a sentence about what is left out. */
  onLeftOut?: ((line: string) => void) | undefined;
};

/**
 * Opens the native engine of this machine, and copies its carried files to disk first.
 *
 * @param dataDir receives native files (`native/`); an admin puts GPU backends there (`backends/`)
 * @throws NativeFilesError when the files cannot be copied; ProgramFileError when `engine.decoder` names no program; Error
 *   when `engine.device` names a missing device
 */
export async function openEngine(
  settings: EngineSettings,
  dataDir: string,
  log: Log,
  { isTrusted = true, onLeftOut }: DataDirTrust = {},
): Promise<OpenedEngine> {
  const { device, workers, threads_per_worker: threadsPerWorker } = settings.engine;
  const backends = join(dataDir, "backends");
  const nativeFiles = withDecoder(await extractNativeFiles(dataDir, isTrusted), settings.engine.decoder);
  const ended = endOrphans(nativeFiles.decoder);
  if (ended > 0) log.info({ count: ended }, "decoders of a killed program were ended");
  const offered = device !== "cpu" && hasBackends(backends) ? [backends] : [];
  if (offered.length > 0 && !isTrusted)
    onLeftOut?.(`${backends} is not used: name the config file with --config, and its GPU backends may run.`);
  const backendDirs = isTrusted ? offered : [];
  const poolOptions = {
    nativeFiles,
    backendDirs,
    device,
    precision: settings.engine.precision,
    sharedSteps: settings.engine.shared_steps,
    speechWorkers: chooseSpeechWorkers(settings.engine.speech_workers, measureMachine()),
    modelIdleMs: settings.engine.model_idle_seconds * 1000,
    log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) =>
      log[level](fields, message),
  };
  const isNamed = device !== "cpu" && device !== "auto";
  // Without backends there is only the processor, so starting a process to ask is not worth it.
  const isProbed = isNamed || backendDirs.length > 0;
  const probed = isProbed ? await probeEngine(poolOptions, new AbortController().signal) : undefined;
  if (probed) requireDevice(probed, device, backends);
  const gpu = probed && chosenGpu(probed, device);
  if (probed && !gpu) log.warn({ device }, "no GPU can be used, the processor takes its place");
  const gpuFreeBytes = gpu?.freeBytes;
  const engine = createLocalEngine({
    ...poolOptions,
    // Backends that cannot be used would fail in every worker process, or end it.
    backendDirs: gpu ? backendDirs : [],
    gpuFreeBytes,
    wanted: { workers, threadsPerWorker },
    backgroundNiceness: settings.engine.background_niceness,
    // A reloaded config changes it.
    maxDurationMs: () => settings.limits.max_duration_seconds * 1000,
    tracks: settings.engine.tracks,
  });
  return { engine, gpuFreeBytes, soundCode: soundCodeOf(settings.engine.decoder), probed };
}

/** @param decoder path of a decoder that takes the place of ours; empty: none does */
function soundCodeOf(decoder: string): string {
  return sha256Hex(`${NATIVE_HASH} ${decoder === "" ? "" : sha256Hex(readFileSync(decoder))}`);
}

/**
 * Puts another decoder in the place of ours. FFmpeg's licence gives the user the right to run another FFmpeg
 * (docs/release.md section 5).
 */
function withDecoder(nativeFiles: NativeFiles, program: string): NativeFiles {
  if (program === "") return nativeFiles;
  return { ...nativeFiles, decoder: requireProgram("engine.decoder", program) };
}

function hasBackends(directory: string): boolean {
  try {
    return listBackends(directory).length > 0;
  } catch {
    return false;
  }
}
