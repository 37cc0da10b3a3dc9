import { closeSync, openSync, readSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { diarizeAcoustically } from "./diarize.ts";
import { diarizeNeurally } from "./diarize-neural.ts";
import type { NativeFiles } from "./native-files.ts";
import type {
  AudioRef,
  BytesAudio,
  FileAudio,
  SpeechRegion,
  WorkerReply,
  WorkerRequest,
} from "./protocol.ts";
import { type LoadedRecognizer, type OpenRecognizer, openRecognizer, type Recognizer } from "./recognizer.ts";
import { openVad, type Vad } from "./vad.ts";

/**
 * The entry of a worker process: serves `WorkerRequest`s of its parent until the parent is gone.
 * Native code runs only here, so that what it breaks is one process that can be replaced.
 */
export function runWorker(): void {
  stepBack();
  const send = (reply: WorkerReply) => process.send?.(reply);
  const worker = createWorker(send);
  // A worker without its parent has nobody to answer to, and nothing of its own to save.
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // A terminal's Ctrl-C and a service manager's stop reach the whole group; the parent decides when a worker ends.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  process.on("message", (message: WorkerRequest) => {
    worker.handle(message).catch((error: unknown) => {
      send({ type: "unusable", reason: reasonOf(error) });
      process.exitCode = 1;
      process.disconnect?.();
    });
  });
}

/** Requests are answered first, however many chunks are decoded: they need little, and somebody waits for them. */
const NICENESS = 5;

/** Threads inherit the niceness of the one that starts them, hence before there are any. */
function stepBack(): void {
  try {
    setPriority(Math.min(19, getPriority() + NICENESS));
  } catch {
    // The system refuses: requests wait a little longer, nothing worse.
  }
}

/**
 * Answers requests one by one.
 *
 * @param open opens the recognizer of a family; replaced in tests
 */
export function createWorker(send: (reply: WorkerReply) => void, open: OpenRecognizer = openRecognizer) {
  const running = new Map<number, AbortController>();
  let recognizer: Recognizer | undefined;
  let model: LoadedRecognizer | undefined;
  let files: NativeFiles | undefined;
  let starting: Promise<void> | undefined;
  let vad: Vad | undefined;

  async function start(request: Extract<WorkerRequest, { type: "start" }>): Promise<void> {
    files = request.nativeFiles;
    for (const part of request.opens) {
      if (part === "speech") vad = openVad(files);
      else recognizer = await open(part, files, request);
    }
  }

  /** Runs one abortable piece of work; its failure is an answer, not the end of the worker. */
  async function answer(id: number, work: (signal: AbortSignal) => Promise<WorkerReply>): Promise<void> {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      send(await work(controller.signal));
    } catch (error) {
      send({ type: "failed", id, reason: controller.signal.aborted ? "aborted" : reasonOf(error) });
    } finally {
      running.delete(id);
    }
  }

  return {
    async handle(request: WorkerRequest): Promise<void> {
      switch (request.type) {
        case "start":
          starting = start(request);
          await starting;
          send({ type: "started", ...(recognizer ? { engine: recognizer.info } : {}) });
          return;
        case "load": {
          // It comes right after the start, whose parts may still be opening.
          await starting;
          if (!recognizer) throw new Error("no recognizer has been opened");
          model = await recognizer.load(request.files, request.device);
          const { device, gpuFailure } = model;
          send({ type: "loaded", device, ...(gpuFailure === undefined ? {} : { gpuFailure }) });
          return;
        }
        case "transcribe":
          return answer(request.id, async (signal) => {
            if (!model) throw new Error("no model is loaded");
            const startedAt = performance.now();
            const { settings, threads } = request;
            const segments = await model.recognize(samplesOf(request.audio), settings, { threads, signal });
            return {
              type: "transcribed",
              id: request.id,
              outcome: { segments, elapsedMs: Math.round(performance.now() - startedAt) },
            };
          });
        case "detect_speech":
          return answer(request.id, async (signal) => {
            if (!files) throw new Error("the engine has not been started");
            vad ??= openVad(files);
            const { id, pcmPath, limits, isTold } = request;
            const onFound = (regions: SpeechRegion[]) => send({ type: "speech_found", id, regions });
            const options = { signal, limits, ...(isTold ? { onFound } : {}) };
            return { type: "speech", id, regions: await vad.detectSpeech(pcmPath, options) };
          });
        case "diarize":
          return answer(request.id, async (signal) => {
            if (!files) throw new Error("the engine has not been started");
            const { weights } = request.job;
            const outcome = weights
              ? diarizeNeurally(files, request.job, weights)
              : await diarizeAcoustically(request.job, signal);
            return { type: "diarized", id: request.id, outcome };
          });
        case "abort":
          running.get(request.id)?.abort(new Error("aborted"));
          return;
      }
    },
  };
}

const BYTES_PER_SAMPLE = 2;

/**
 * Puts a chunk's audio together.
 *
 * @returns 16 kHz mono samples within −1 to 1, silence where no slice lies
 * @throws Error when the file ends before a slice does
 */
export function samplesOf(audio: AudioRef): Float32Array {
  const samples = new Float32Array(audio.totalSamples);
  if ("pcm" in audio) copyPcm(pcmOf(audio), samples, 0);
  else readSlices(audio, samples);
  return samples;
}

function readSlices(audio: FileAudio, samples: Float32Array): void {
  const file = openSync(audio.pcmPath, "r");
  try {
    for (const slice of audio.slices) {
      const pcm = new Int16Array(slice.samples);
      const bytes = new Uint8Array(pcm.buffer);
      let filled = 0;
      while (filled < bytes.length) {
        const position = slice.sourceStartSample * BYTES_PER_SAMPLE + filled;
        const count = readSync(file, bytes, filled, bytes.length - filled, position);
        if (count === 0) throw new Error("the decoded audio ends before the chunk does");
        filled += count;
      }
      copyPcm(pcm, samples, slice.targetStartSample);
    }
  } finally {
    closeSync(file);
  }
}

/** @throws Error when there are fewer bytes than samples */
function pcmOf({ pcm, totalSamples }: BytesAudio): Int16Array {
  if (pcm.byteLength !== totalSamples * BYTES_PER_SAMPLE) throw new Error("the audio has another length");
  // A copy begins at an even address, which the view needs.
  return new Int16Array(new Uint8Array(pcm).buffer);
}

function copyPcm(pcm: Int16Array, samples: Float32Array, start: number): void {
  for (let i = 0; i < pcm.length; i++) samples[start + i] = (pcm[i] ?? 0) / 32768;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
