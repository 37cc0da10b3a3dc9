import { existsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Config } from "./config/schema.ts";
import { AppError } from "./domain/errors.ts";
import type { InstalledModel } from "./domain/model.ts";
import type { TranscriptionResult } from "./domain/result.ts";
import type { ChannelMode, Mode, TranscriptionRequest } from "./domain/transcription.ts";
import type { Engine } from "./engine/engine.ts";
import { openEngine } from "./engine/open-engine.ts";
import { checkModelFile } from "./engine/whisper.ts";
import type { Clock } from "./lib/clock.ts";
import { newId } from "./lib/ids.ts";
import { silentLog } from "./lib/log.ts";
import { makeScratch, removeScratch } from "./lib/scratch.ts";
import { familyOf } from "./pipeline/families/families.ts";
import { type Format, renderResult } from "./pipeline/render.ts";
import { createMemoryCheckpoint } from "./recognition/checkpoint.ts";
import type { RecognitionTools } from "./recognition/context.ts";
import { recognizeRecording } from "./recognition/recognize.ts";
import { createSlots } from "./scheduler/slots.ts";
import { checkRequest } from "./services/acceptance.ts";
import { dataDirOf } from "./services/admin.ts";
import { createModelService, type ModelService } from "./services/models.ts";
import { databasePath, openDatabase } from "./store/database.ts";

export type LocalOptions = { config: Config; clock: Clock; environment: Record<string, string | undefined> };

/** What is asked of all files of one command. */
export type LocalRequest = {
  modelId?: string;
  language: string;
  mode: Mode;
  isDiarized: boolean;
  channelMode: ChannelMode;
};
export type LocalPlan = { model: InstalledModel; request: TranscriptionRequest };

/**
 * Opens recognition without server, rows or credit: a file goes in, its transcript comes out. Installed models are
 * those of the data directory when there is one; native files are copied into a cache directory otherwise.
 */
export async function openLocalTranscriber(options: LocalOptions) {
  const { config, clock } = options;
  const { engine, models, close } = await openLocalParts(options);

  /**
   * Transcribes a file. Speech that could not be transcribed is a gap of the result, as on the server.
   *
   * @throws AppError `not_found`, or what the audio is refused with; EngineError
   */
  async function transcribe(
    plan: LocalPlan,
    file: string,
    onProgress: (done: number) => void,
  ): Promise<TranscriptionResult> {
    if (!existsSync(file) || !statSync(file).isFile())
      throw new AppError("not_found", { message: "no such file" });
    const directory = makeScratch();
    try {
      return await run({ config, clock, engine, models, plan, file, directory, onProgress });
    } finally {
      removeScratch(directory);
    }
  }

  return {
    /** @throws AppError as for a request over HTTP */
    plan({ modelId, isDiarized, ...rest }: LocalRequest): LocalPlan {
      const request = { ...rest, timestamps: "segment" as const, ...(isDiarized ? { diarization: {} } : {}) };
      return { model: checkRequest(models, modelId, request), request };
    },

    /** Loads the model now and not with the first file. */
    warm: ({ model }: LocalPlan): Promise<void> => engine.warm(model, new AbortController().signal),

    transcribe,

    /** Renders a result of `transcribe`. */
    render: (plan: LocalPlan, result: TranscriptionResult, format: Format): string =>
      renderResult(result, format, {
        id: newId("transcription", clock.now()),
        model: plan.model.id,
        version: plan.model.version,
        mode: plan.request.mode,
        timestamps: plan.request.timestamps,
      }),

    close,
  };
}

/** Engine and models without a server. */
export async function openLocalParts({ config, clock, environment }: LocalOptions) {
  const dataDir = homeFor(config, environment);
  const path = databasePath(dataDir);
  const database = openDatabase(existsSync(path) ? path : ":memory:");
  const { engine, gpuFreeBytes, probed } = await openEngine(config, dataDir, silentLog);
  const models = await createModelService({
    database,
    config,
    dataDir,
    log: silentLog,
    clock,
    checkModelFile,
  });
  const close = async () => {
    await engine.close();
    database.close();
  };
  return { engine, gpuFreeBytes, probed, models, close };
}

type Run = {
  config: Config;
  clock: Clock;
  engine: Engine;
  models: ModelService;
  plan: LocalPlan;
  file: string;
  directory: string;
  onProgress: (share: number) => void;
};

/** Organization of all that this machine's user transcribes: there is nobody to share turns with. */
const LOCAL = { organizationId: "local", transcriptionId: "local", weight: 1, isSynchronous: false };

/** @throws the error that ended the recognition, AppError where there was none */
async function run({ config, clock, plan, file, directory, onProgress, ...parts }: Run) {
  const { request, model } = plan;
  const { chunks: workers } = parts.engine.capacity(model);
  const slots = createSlots({ slots: workers, synchronousSlots: 0 });
  const tools: RecognitionTools = {
    engine: parts.engine,
    checkpoint: createMemoryCheckpoint(onProgress),
    slots: {
      count: () => workers,
      acquire: ({ position, speechMs, hasSuccessors }, signal) =>
        slots.acquire(
          {
            ...LOCAL,
            position,
            costMs: speechMs,
            model: { id: model.id, slots: workers },
            hasSuccessors,
          },
          signal,
        ),
    },
    clock,
    log: silentLog,
    familyOf,
    speakerWeights: parts.models.speakerWeights,
    maxDurationMs: config.limits.max_duration_seconds * 1000,
    chunkAttempts: config.engine.chunk_attempts,
    // The user sees the failure, and makes space.
    isWaitedOut: () => false,
  };
  const recording = { path: file, directory: join(directory, "audio") };
  const job = { recording, request, model };
  const ending = await recognizeRecording(job, tools, new AbortController().signal);
  if (ending?.kind === "result") return ending.result;
  // Its user is the admin, who may read what the engine says.
  throw ending?.cause ?? new AppError("transcription_failed", ending && { message: ending.message });
}

function homeFor(config: Config, environment: Record<string, string | undefined>): string {
  const dataDir = dataDirOf(config);
  if (existsSync(databasePath(dataDir))) return dataDir;
  return resolve(environment.XDG_CACHE_HOME || join(homedir(), ".cache"), "shruti", "transcribe");
}
