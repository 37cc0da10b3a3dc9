import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { createSlots, type Slots } from "../admission/slots.ts";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { InstalledModel } from "../domain/model.ts";
import { rawFormatOfName } from "../domain/raw-formats.ts";
import type { Reading } from "../domain/reading.ts";
import type { TranscriptionResult } from "../domain/result.ts";
import type { ChannelMode, Mode, Timestamps, TranscriptionRequest } from "../domain/transcription.ts";
import type { Engine } from "../engine/engine.ts";
import { openEngine } from "../engine/open-engine.ts";
import { peakMemoryOfChildren } from "../engine/workers/child-memory.ts";
import { FAMILIES } from "../families/families.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { silentLog } from "../lib/log.ts";
import { RegularFileError, statRegularFile } from "../lib/regular-file.ts";
import { makeScratch, removeScratch } from "../lib/scratch.ts";
import { type Format, renderResult, type TextOptions } from "../pipeline/render.ts";
import { createMemoryCheckpoint } from "../recognition/checkpoint.ts";
import type { RecognitionTools } from "../recognition/context.ts";
import { recognizeRecording } from "../recognition/recognize.ts";
import { dataDirOf } from "../services/data-dir.ts";
import { createModelService, type MeasuredFigures, type ModelService } from "../services/models/models.ts";
import { checkRequest } from "../services/transcriptions/acceptance.ts";
import { databasePath, openDatabase } from "../store/database.ts";

export type LocalOptions = {
  config: Config;
  clock: Clock;
  environment: Record<string, string | undefined>;
  /** Whether programs and libraries of the data directory may run, besides those that the executable carries. Default: yes. */
  trustsDataDir?: boolean;
  /** Receives sentences for the user about what is not used. */
  note?: (line: string) => void;
  /** Leaves the database alone, and with it the default model that an admin has chosen. */
  ignoresDatabase?: boolean;
};

/** The request for all files of one command. */
export type LocalRequest = {
  modelId?: string;
  language: string;
  /** Left out: the text is in the language that is spoken. */
  task?: "translate" | undefined;
  mode: Mode;
  isDiarized: boolean;
  /** Bounds on the number of speakers. */
  speakers?: { minSpeakers?: number; maxSpeakers?: number };
  channelMode: ChannelMode;
  /** Left out: `segment`. */
  timestamps?: Timestamps;
  /** Left out: numbers as they were said. */
  numerals?: "written" | undefined;
  /** Left out: the script of the language. */
  script?: string | undefined;
  /** How the files are read. Left out: as they say themselves, and those without a header by their names. */
  reading?: Reading | undefined;
};
export type LocalPlan = {
  model: InstalledModel;
  request: TranscriptionRequest;
  reading?: Reading | undefined;
};

/** Recognition of local files, without a server, a database of work, or credit. */
export type LocalTranscriber = {
  /** Chooses the model and checks the request. @throws AppError as for a request over HTTP */
  plan(request: LocalRequest): LocalPlan;
  /** Loads the model now instead of with the first file. @throws EngineError */
  warm(plan: LocalPlan): Promise<void>;
  /**
   * Transcribes a file. Speech that could not be recognized is a gap of the result, as on the server.
   *
   * @param onProgress receives the share that is done, 0 to 1
   * @throws AppError `not_found`, or the reason why the audio is refused; EngineError
   */
  transcribe(plan: LocalPlan, file: string, onProgress: (done: number) => void): Promise<TranscriptionResult>;
  /** Renders a result of `transcribe`. */
  render(plan: LocalPlan, result: TranscriptionResult, format: Format, options?: TextOptions): string;
  /** Returns where the model runs, and the most memory that the engine's processes have had together. */
  usage(): { device: string; memoryBytes: number };
  /** Returns the code for this processor that the model uses; undefined before it has run. */
  cpuVariant(): string | undefined;
  /** Keeps what was measured on the model's card. @throws the file system's error */
  record(plan: LocalPlan, figures: MeasuredFigures): Promise<void>;
  close(): Promise<void>;
};

/** Checks that a path names a recording. @throws AppError with a reason that does not repeat the path */
function requireRecording(file: string): void {
  if (!existsSync(file)) throw new AppError("not_found", { message: "no such file" });
  try {
    statRegularFile(file);
  } catch (error) {
    if (!(error instanceof RegularFileError)) throw error;
    throw new AppError("invalid_request", { message: error.code });
  }
}

/**
 * Opens recognition of local files. Models come from the data directory if there is one; otherwise only the carried
 * model is there, and native files are copied into a cache directory.
 */
export async function openLocalTranscriber(options: LocalOptions): Promise<LocalTranscriber> {
  const { config, clock } = options;
  const { engine, models, close } = await openLocalParts(options);
  const places = createLocalPlaces(engine);

  async function transcribe(
    plan: LocalPlan,
    file: string,
    onProgress: (done: number) => void,
  ): Promise<TranscriptionResult> {
    requireRecording(file);
    const directory = makeScratch();
    try {
      return await run({ config, clock, engine, models, places, plan, file, directory, onProgress });
    } finally {
      removeScratch(directory);
    }
  }

  return {
    plan({ modelId, isDiarized, speakers = {}, reading, timestamps = "segment", ...given }) {
      const { task, numerals, script, ...rest } = given;
      const optional = {
        ...(task === undefined ? {} : { task }),
        ...(isDiarized ? { diarization: speakers } : {}),
        ...(numerals === undefined ? {} : { numerals }),
        ...(script === undefined ? {} : { script }),
      };
      const request = { ...rest, timestamps, ...optional };
      if (timestamps === "word" && !config.capabilities.word_timestamps)
        throw new AppError("capability_unavailable", {
          detail: "timestamps.word",
          message: "Word times are switched off; set capabilities.word_timestamps = true in the config.",
        });
      if (task && !config.capabilities.translation)
        throw new AppError("capability_unavailable", {
          detail: "task.translate",
          message: "Translation is switched off; set capabilities.translation = true in the config.",
        });
      return { model: checkRequest({ models, config }, modelId, request), request, reading };
    },

    warm: ({ model }) => engine.warm(model, new AbortController().signal),

    transcribe,

    render: ({ model, request }, result, format, options) => {
      const { mode, timestamps, task } = request;
      const id = newId("transcription", clock.now());
      return renderResult(
        result,
        format,
        { id, model: model.id, version: model.version, mode, timestamps, ...(task ? { task } : {}) },
        options,
      );
    },

    usage: () => ({
      device: engine.status().models[0]?.device ?? "cpu",
      memoryBytes: peakMemoryOfChildren(),
    }),

    cpuVariant: () => engine.status().models[0]?.cpuVariant,

    record: ({ model }, figures) => models.record(model, figures),

    close,
  };
}

/**
 * Opens the engine and the models without a server.
 *
 * @throws DatabaseVersionError when the data directory has a database of another version, unless `ignoresDatabase`
 */
export async function openLocalParts(options: LocalOptions) {
  const { config, clock, environment, ignoresDatabase } = options;
  const dataDir = homeFor(config, environment);
  const isTrusted = options.trustsDataDir !== false || dataDir !== dataDirOf(config);
  const path = databasePath(dataDir);
  const database = openDatabase(!ignoresDatabase && existsSync(path) ? path : ":memory:");
  const { engine, gpuFreeBytes, probed } = await openEngine(config, dataDir, silentLog, {
    ...{ isTrusted, onLeftOut: options.note },
  });
  const models = await createModelService({
    database,
    config,
    dataDir,
    log: silentLog,
    clock,
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
  places: LocalPlaces;
  plan: LocalPlan;
  file: string;
  directory: string;
  onProgress: (share: number) => void;
};

/** The only organization, so there are no turns to share. */
const LOCAL = {
  ...{ organizationId: "local", projectId: "local" },
  ...{ weight: 1, remainingMs: 0, isSynchronous: false },
};

type LocalPlaces = { of(model: InstalledModel): { workers: number; slots: Slots } };

/** Places of workers, which recordings that are transcribed side by side share. */
function createLocalPlaces(engine: Engine): LocalPlaces {
  const byModel = new Map<string, { workers: number; slots: Slots }>();
  return {
    of(model) {
      const { chunks: workers } = engine.capacity(model);
      const places = byModel.get(model.id) ?? {
        workers,
        slots: createSlots({ slots: workers, synchronousSlots: 0 }),
      };
      byModel.set(model.id, places);
      return places;
    },
  };
}

/** @throws the error that ended the recognition, or AppError when there was none */
async function run({ config, clock, plan, file, directory, onProgress, ...parts }: Run) {
  const { request, model } = plan;
  const { workers, slots } = parts.places.of(model);
  const tools: RecognitionTools = {
    engine: parts.engine,
    checkpoint: createMemoryCheckpoint(onProgress),
    slots: {
      count: () => workers,
      acquire: ({ position, speechMs, hasSuccessors }, signal) =>
        slots.acquire(
          {
            ...LOCAL,
            transcriptionId: directory,
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
    familyOf: FAMILIES.of,
    speakerWeights: parts.models.speakerWeights,
    punctuation: parts.models.punctuation,
    maxDurationMs: config.limits.max_duration_seconds * 1000,
    mostAttempts: config.engine.chunk_attempts,
    keepsDoubtful: config.engine.doubtful_text === "keep",
    // The user sees the failure and can make space.
    isWaitedOut: () => false,
  };
  const format = rawFormatOfName(file);
  const reading = plan.reading ?? (format && { format });
  const recording = { path: file, directory: join(directory, "audio"), reading };
  const job = { recording, request, model };
  const ending = await recognizeRecording(job, tools, new AbortController().signal);
  if (ending?.kind === "result") return ending.result;
  // The user of a command is an admin, who may see the messages of the engine.
  throw ending?.cause ?? new AppError("transcription_failed", ending && { message: ending.message });
}

function homeFor(config: Config, environment: Record<string, string | undefined>): string {
  const dataDir = dataDirOf(config);
  if (existsSync(databasePath(dataDir))) return dataDir;
  const { XDG_CACHE_HOME: given = "" } = environment;
  // The XDG specification has relative paths ignored: they would mean another folder in each working directory.
  return join(isAbsolute(given) ? given : join(homedir(), ".cache"), "shruti", "transcribe");
}
