import { getPriority, setPriority } from "node:os";
import { diarizeAcoustically } from "../../diarization/diarize.ts";
import { diarizeNeurally } from "../../diarization/diarize-neural.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { stayAsStarted } from "../../lib/rights.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { samplesOf } from "../audio/chunk-samples.ts";
import { openRecognizer } from "../open-recognizer.ts";
import type { SpeechRegion, WorkerReply, WorkerRequest } from "../protocol.ts";
import type { LoadedRecognizer, OpenRecognizer, Recognizer } from "../recognizer.ts";
import { openVad, type Vad } from "../vad/vad.ts";
import { diarizeHashed, type HashFile, keepPunctuator, loadVerified } from "./verified-load.ts";

/**
 * Runs a worker process: answers the `WorkerRequest`s of its parent until the parent is gone. Native code runs only in
 * such processes, so that a crash ends one process, which can be replaced.
 *
 * @param sha256OfFile hashes a file in a thread
 */
export function runWorker(sha256OfFile: HashFile): void {
  // A command of root starts it with the rights of another user. Native code must not take root's again.
  stayAsStarted();
  lowerPriority();
  const send = (reply: WorkerReply) => process.send?.(reply);
  const worker = createWorker(send, sha256OfFile);
  // Without its parent the process has nothing to do and nothing to save.
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // A terminal's Ctrl-C and a service manager's stop reach the whole process group. Only the parent ends workers.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  process.on("message", (message: WorkerRequest) => {
    worker.handle(message).catch((error: unknown) => {
      send({ type: "unusable", reason: errorMessage(error) });
      process.exitCode = 1;
      process.disconnect?.();
    });
  });
}

/**
 * Clients wait for the server's answers, which need little time. So the server goes first, however busy workers are.
 */
const NICENESS = 5;

/** Lowers the priority. Threads inherit it when they start, so this comes first. */
function lowerPriority(): void {
  try {
    setPriority(Math.min(19, getPriority() + NICENESS));
  } catch {
    // The system refuses. Requests then wait a little longer.
  }
}

/** The part of a worker process that does not depend on being a process. */
export type Worker = {
  /**
   * Carries out one request and sends its reply. Calls may run side by side.
   *
   * @throws Error when the process cannot do what it was started for; failed work is a reply
   */
  handle(request: WorkerRequest): Promise<void>;
};

type Requests = { [Type in WorkerRequest["type"]]: Extract<WorkerRequest, { type: Type }> };

/**
 * @param sha256OfFile hashes a file in a thread
 * @param open opens the recognizer of a family; replaced in tests
 */
export function createWorker(
  send: (reply: WorkerReply) => void,
  sha256OfFile: HashFile,
  open: OpenRecognizer = openRecognizer,
): Worker {
  const running = new Map<number, AbortController>();
  let recognizer: Recognizer | undefined;
  let model: LoadedRecognizer | undefined;
  let files: NativeFiles | undefined;
  let starting: Promise<void> | undefined;
  let vad: Vad | undefined;
  const punctuatorOf = keepPunctuator(sha256OfFile);

  async function openParts(request: Requests["start"]): Promise<void> {
    files = request.nativeFiles;
    for (const part of request.opens) {
      if (part === "speech") vad = openVad(files);
      else recognizer = await open(part, files, request);
    }
  }

  async function start(request: Requests["start"]): Promise<void> {
    starting = openParts(request);
    await starting;
    send({ type: "started", ...(recognizer ? { engine: recognizer.info } : {}) });
  }

  async function load(request: Requests["load"]): Promise<void> {
    // This request follows the start at once, while its parts may still be opening.
    await starting;
    if (!recognizer) throw new Error("no recognizer has been opened");
    model = await loadVerified(recognizer, request, sha256OfFile);
    const { device, gpuFailure, draftFailure } = model;
    const failures = {
      ...(gpuFailure === undefined ? {} : { gpuFailure }),
      ...(draftFailure === undefined ? {} : { draftFailure }),
    };
    send({ type: "loaded", device, ...failures });
  }

  /** Runs work that can be aborted. Its failure is a reply, and the process continues. */
  async function answer(id: number, work: (signal: AbortSignal) => Promise<WorkerReply>): Promise<void> {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      send(await work(controller.signal));
    } catch (error) {
      send({ type: "failed", id, reason: controller.signal.aborted ? "aborted" : errorMessage(error) });
    } finally {
      running.delete(id);
    }
  }

  async function recognize(request: Requests["transcribe"], signal: AbortSignal): Promise<WorkerReply> {
    if (!model) throw new Error("no model is loaded");
    const { id, audio, settings, threads, groupThreads = 1, groupsAreOnGpu = false, niceness = 0 } = request;
    // Thread groups that were chosen for a GPU are few. On the processor they would leave cores idle.
    const isAsExpected = groupsAreOnGpu === (model.device !== "cpu");
    const threadGroups = isAsExpected ? (request.threadGroups ?? 0) : 0;
    const startedAt = performance.now();
    const options = { threads, threadGroups, groupThreads, niceness, signal };
    const recognition = await model.recognize(await samplesOf(audio), settings, options);
    const elapsedMs = Math.round(performance.now() - startedAt);
    return { type: "transcribed", id, outcome: { ...recognition, elapsedMs } };
  }

  async function detectSpeech(request: Requests["detect_speech"], signal: AbortSignal): Promise<WorkerReply> {
    vad ??= openVad(requireFiles());
    const { id, pcmPath, limits, reportsFound } = request;
    const onFound = (regions: SpeechRegion[]) => send({ type: "speech_found", id, regions });
    const options = { signal, limits, ...(reportsFound ? { onFound } : {}) };
    return { type: "speech", id, regions: await vad.detectSpeech(pcmPath, options) };
  }

  async function diarize({ id, job }: Requests["diarize"], signal: AbortSignal): Promise<WorkerReply> {
    const { weights } = job;
    const onHeard = (share: number) => send({ type: "speakers_heard", id, share });
    const outcome = weights
      ? await diarizeHashed(weights, sha256OfFile, () =>
          diarizeNeurally(requireFiles(), job, weights, { signal, onHeard }),
        )
      : await diarizeAcoustically(job, signal);
    return { type: "diarized", id, outcome };
  }

  async function punctuate({ id, job }: Requests["punctuate"], signal: AbortSignal): Promise<WorkerReply> {
    const punctuator = await punctuatorOf(job.model, requireFiles());
    return { type: "punctuated", id, outcome: { marks: await punctuator.punctuate(job.words, signal) } };
  }

  function requireFiles(): NativeFiles {
    if (!files) throw new Error("the engine has not been started");
    return files;
  }

  return {
    async handle(request) {
      switch (request.type) {
        case "start":
          return start(request);
        case "load":
          return load(request);
        case "transcribe":
          return answer(request.id, (signal) => recognize(request, signal));
        case "detect_speech":
          return answer(request.id, (signal) => detectSpeech(request, signal));
        case "diarize":
          return answer(request.id, (signal) => diarize(request, signal));
        case "punctuate":
          return answer(request.id, (signal) => punctuate(request, signal));
        case "abort":
          running.get(request.id)?.abort(new Error("aborted"));
      }
    },
  };
}
