import { readFileSync } from "node:fs";
import { join } from "node:path";
import { NATIVE_HASH } from "#native-parts";
import type { EngineOptions } from "../domain/engine-options.ts";
import type { Log } from "../lib/log.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { listBackends } from "../native/backend-files.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { findGpu, wantedGpu } from "./devices.ts";
import { createLocalEngine, type Engine } from "./engine.ts";
import { otherDecoder } from "./other-decoder.ts";
import { probeEngine } from "./probe-engine.ts";
import type { EngineInfo } from "./protocol.ts";
import { endOrphans } from "./workers/orphans.ts";

/** The sections of the config that the engine needs. */
export type EngineSettings = {
  engine: EngineOptions;
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
  const gpuWish = wantedGpu(settings.engine);
  const backends = join(dataDir, "backends");
  const nativeFiles = withDecoder(await extractNativeFiles(dataDir, isTrusted), settings.engine);
  const ended = endOrphans(nativeFiles.decoder);
  if (ended > 0) log.info({ count: ended }, "decoders of a killed program were ended");
  const offered = gpuWish !== "none" && hasBackends(backends) ? [backends] : [];
  if (offered.length > 0 && !isTrusted)
    onLeftOut?.(`${backends} is not used: name the config file with --config, and its GPU backends may run.`);
  const backendDirs = isTrusted ? offered : [];
  const poolOptions = {
    nativeFiles,
    backendDirs,
    engine: settings.engine,
    log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) =>
      log[level](fields, message),
  };
  // Without backends there is only the processor, so starting a process to ask is not worth it.
  const isProbed = gpuWish === "named" || backendDirs.length > 0;
  const probed = isProbed ? await probeEngine(poolOptions, new AbortController().signal) : undefined;
  const gpu = probed && findGpu(probed, settings.engine, backends, log);
  const gpuFreeBytes = gpu?.freeBytes;
  const engine = createLocalEngine({
    ...poolOptions,
    // Backends that cannot be used would fail in every worker process, or end it.
    backendDirs: gpu ? backendDirs : [],
    gpuFreeBytes,
    // A reloaded config changes it.
    maxDurationMs: () => settings.limits.max_duration_seconds * 1000,
  });
  return { engine, gpuFreeBytes, soundCode: soundCodeOf(settings.engine), probed };
}

function soundCodeOf(engine: EngineOptions): string {
  const other = otherDecoder(engine);
  return sha256Hex(`${NATIVE_HASH} ${other === undefined ? "" : sha256Hex(readFileSync(other))}`);
}

/**
 * Puts another decoder in the place of ours. FFmpeg's licence gives the user the right to run another FFmpeg
 * (docs/release.md section 5).
 */
function withDecoder(nativeFiles: NativeFiles, engine: EngineOptions): NativeFiles {
  const other = otherDecoder(engine);
  return other === undefined ? nativeFiles : { ...nativeFiles, decoder: other };
}

function hasBackends(directory: string): boolean {
  try {
    return listBackends(directory).length > 0;
  } catch {
    return false;
  }
}
