import { readFileSync } from "node:fs";
import { fileOf } from "../../domain/model.ts";
import type { WorkerReply } from "../../engine/protocol.ts";
import type { OpenRecognizer } from "../../engine/recognizer.ts";
import { createWorker } from "../../engine/workers/worker.ts";
import type { WorkerExit, WorkerProcess } from "../../engine/workers/worker-process.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { SCRIPTED_FAMILY, type ScriptedSettings, scriptedFamily } from "./family.ts";

const LOUD = 0.001;
/** Recognition is this many times faster than real time. */
const SPEED = 100;

export const openScripted: OpenRecognizer = async (family) => {
  if (family !== SCRIPTED_FAMILY) throw new Error(`there is no family ${family} here`);
  return {
    info: {
      libraryVersion: "",
      cpuVariant: "scripted",
      plainerVariants: [],
      devices: [],
      backendFailures: [],
    },
    async load(files) {
      scriptedFamily.check(files);
      const text = readFileSync(fileOf(files, "model"), "utf8");
      return {
        device: "cpu",
        async recognize(samples, settings, { signal }) {
          signal.throwIfAborted();
          const { head, ending = "" } = settings as ScriptedSettings;
          if (head === undefined) throw new TypeError("a scripted model needs a head");
          const endMs = Math.floor(samples.length / 16);
          await Promise.race([Bun.sleep(endMs / SPEED), aborted(signal)]);
          signal.throwIfAborted();
          if (!samples.some((sample) => Math.abs(sample) > LOUD)) return { segments: [] };
          return {
            segments: [
              { startMs: 0, endMs, text: text + ending, language: settings.language, confidence: 0.95 },
            ],
          };
        },
      };
    },
  };
};

/** Makes a worker process in this process, with scripted recognizers. */
export function spawnScripted(onReply: (reply: WorkerReply) => void): WorkerProcess {
  const exited = Promise.withResolvers<WorkerExit>();
  let isGone = false;
  const worker = createWorker(
    (reply) => {
      if (!isGone) onReply(structuredClone(reply));
    },
    sha256OfFile,
    openScripted,
  );
  const exit = (how: WorkerExit) => {
    isGone = true;
    exited.resolve(how);
  };
  return {
    pid: 1,
    exited: exited.promise,
    kill: () => exit({ code: null, signal: "SIGKILL" }),
    send: (request) => {
      worker.handle(structuredClone(request)).catch((error: Error) => {
        onReply({ type: "unusable", reason: error.message });
        exit({ code: 1, signal: null });
      });
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
