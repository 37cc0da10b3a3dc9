import { existsSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { openEngine } from "./app.ts";
import type { Config } from "./config/schema.ts";
import { type Chunk, SAMPLE_RATE_HZ } from "./domain/chunk.ts";
import { AppError } from "./domain/errors.ts";
import type { InstalledModel } from "./domain/model.ts";
import type { TranscriptionResult, Warning } from "./domain/result.ts";
import type { ChannelMode, Mode, TranscriptionRequest } from "./domain/transcription.ts";
import type { Engine } from "./engine/engine.ts";
import { measureMachine } from "./engine/machine.ts";
import type { DiarizeJob } from "./engine/protocol.ts";
import { chooseSizing } from "./engine/sizing.ts";
import { checkModelFile } from "./engine/whisper.ts";
import type { Clock } from "./lib/clock.ts";
import { newId } from "./lib/ids.ts";
import { silentLog } from "./lib/log.ts";
import { makeScratch, removeScratch } from "./lib/scratch.ts";
import { audioWarnings } from "./pipeline/audio-facts.ts";
import { layoutChunk } from "./pipeline/chunk-audio.ts";
import { chunkLimits, packChunks } from "./pipeline/chunks.ts";
import { type ChunkText, decodeGuarded } from "./pipeline/guarded-decode.ts";
import { type Format, renderResult } from "./pipeline/render.ts";
import { joinChannelSpeakers, speechByChannel } from "./pipeline/speakers.ts";
import { assembleResult, type LooseSegment } from "./pipeline/stitch.ts";
import { hasTwinChannel, withTwins } from "./pipeline/twin-channel.ts";
import { wordSegments } from "./pipeline/worded.ts";
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
 * The pipeline without server, store or credit: a file goes in, its transcript comes out. Installed models are those
 * of the data directory when there is one; native files are copied into a cache directory otherwise.
 */
export async function openLocalTranscriber(options: LocalOptions) {
  const { config, clock } = options;
  const { engine, gpuFreeBytes, models, close } = await openLocalParts(options);

  /** @throws AppError `not_found`, or what the audio is refused with; EngineError */
  async function transcribe(
    plan: LocalPlan,
    file: string,
    onProgress: (done: number) => void,
  ): Promise<TranscriptionResult> {
    if (!existsSync(file) || !statSync(file).isFile())
      throw new AppError("not_found", { message: "no such file" });
    const directory = makeScratch();
    try {
      return await run({ config, engine, gpuFreeBytes, models, plan, file, directory, onProgress });
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

    /** @returns the transcript in the format that was asked for */
    async transcribe(
      plan: LocalPlan,
      file: string,
      format: Format,
      onProgress: (done: number) => void,
    ): Promise<string> {
      const result = await transcribe(plan, file, onProgress);
      return renderResult(result, format, {
        id: newId("transcription", clock.now()),
        model: plan.model.id,
        version: plan.model.version,
        mode: plan.request.mode,
        timestamps: plan.request.timestamps,
      });
    },

    transcribeToResult: transcribe,

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
  engine: Engine;
  gpuFreeBytes: number | undefined;
  models: ModelService;
  plan: LocalPlan;
  file: string;
  directory: string;
  onProgress: (done: number) => void;
};

async function run({ config, engine, gpuFreeBytes, models, plan, file, directory, onProgress }: Run) {
  const { request, model } = plan;
  const signal = new AbortController().signal;
  const maxDurationMs = config.limits.max_duration_seconds * 1000;
  const decoded = await engine.decode(
    { path: file, directory, channels: request.channelMode, maxDurationMs },
    signal,
  );
  const chunks: LocalChunk[] = [];
  const warnings: Warning[] = audioWarnings(decoded.facts, request.channelMode);
  // Of two channels with the same sound one is transcribed.
  const heard = warnings.includes("identical_channels") ? decoded.files.slice(0, 1) : decoded.files;
  const limits = chunkLimits(model.decoding);
  for (const [channel, pcmPath] of heard.entries()) {
    for (const chunk of packChunks(await engine.detectSpeech({ pcmPath, limits }, signal), limits))
      chunks.push({ ...chunk, channel, pcmPath });
  }
  const texts = await decodeChunks({
    config,
    engine,
    gpuFreeBytes,
    plan,
    chunks,
    decoded,
    signal,
    onProgress,
  });
  const isTwin = hasTwinChannel(warnings, chunks);
  const decodedChunks = texts.map((text) => ({ ...text, channel: 0 }));
  const worded = wordSegments(
    (isTwin ? withTwins(decodedChunks) : texts).flatMap(({ segments }) => segments),
    request.mode,
  );
  const job = { tracks: speechByChannel(decoded.files, isTwin ? withTwins(chunks) : chunks) };
  const spoken = await labelSegments({ engine, models, plan, segments: worded, job, signal });
  return assembleResult({
    segments: spoken.segments,
    gaps: [],
    warnings: [...warnings, ...spoken.warnings, ...texts.flatMap((text) => text.warnings)],
    durationMs: decoded.durationMs,
    channels: decoded.channels,
    request,
  });
}

type LocalChunk = Chunk & { channel: number; pcmPath: string };

type Decoding = {
  config: Config;
  engine: Engine;
  gpuFreeBytes: number | undefined;
  plan: LocalPlan;
  chunks: readonly LocalChunk[];
  decoded: { durationMs: number };
  signal: AbortSignal;
  onProgress: (done: number) => void;
};

/** The chunks' texts, in the order in which they were done: as many side by side as the machine has room for. */
async function decodeChunks(decoding: Decoding): Promise<ChunkText[]> {
  const { config, engine, gpuFreeBytes, plan, chunks, decoded, signal, onProgress } = decoding;
  const { request, model } = plan;
  const machine = measureMachine();
  const sizing = chooseSizing(
    { workers: config.engine.workers, threadsPerWorker: config.engine.threads_per_worker },
    { ...machine, gpuFreeBytes },
    model.bytes,
  );
  const side = Math.max(1, Math.min(sizing.workers, chunks.length));
  const threads = sizing.threadsPerWorker ?? Math.max(1, Math.floor(machine.cores / side));
  const texts: ChunkText[] = [];
  const waiting = chunks.values();
  const work = async () => {
    for (const chunk of waiting) {
      const text = await decodeGuarded(
        { model, request, durationMs: decoded.durationMs },
        chunk,
        async (regions, settings) => {
          const layout = layoutChunk(regions);
          const audio = { pcmPath: chunk.pcmPath, slices: layout.pieces, totalSamples: layout.totalSamples };
          const options = { ...settings, threads };
          const timeoutMs = HUNG_AFTER_MS + (layout.totalSamples / SAMPLE_RATE_HZ) * 1000 * HUNG_FACTOR;
          const outcome = await engine.transcribe(
            { model, audio, options, isAlone: false, timeoutMs },
            signal,
          );
          return outcome.segments.map((segment) => ({ ...segment, language: request.language }));
        },
      );
      texts.push(text);
      onProgress(texts.length / chunks.length);
    }
  };
  await Promise.all(Array.from({ length: side }, work));
  return texts;
}

type Labelling = {
  engine: Engine;
  models: ModelService;
  plan: LocalPlan;
  segments: LooseSegment[];
  job: Pick<DiarizeJob, "tracks">;
  signal: AbortSignal;
};

/** Segments with their speakers, where those were asked for. */
async function labelSegments({ engine, models, plan, segments, job, signal }: Labelling) {
  const { diarization } = plan.request;
  const warnings: Warning[] = [];
  if (!diarization || segments.length === 0) return { segments, warnings };
  const weights = models.speakerWeights();
  const request = { ...job, ...diarization, ...(weights === undefined ? {} : { weights }) };
  const { turns, isCountUncertain } = await engine.diarize(request, signal);
  if (isCountUncertain) warnings.push("speaker_count_uncertain");
  return { segments: joinChannelSpeakers(segments, turns), warnings };
}

/** A large model on a small machine may need many times real time; this only ends what is stuck. */
const HUNG_AFTER_MS = 10 * 60_000;
const HUNG_FACTOR = 60;

function homeFor(config: Config, environment: Record<string, string | undefined>): string {
  const dataDir = dataDirOf(config);
  if (existsSync(databasePath(dataDir))) return dataDir;
  return resolve(environment.XDG_CACHE_HOME || join(homedir(), ".cache"), "shruti", "transcribe");
}
