import { existsSync, readFileSync } from "node:fs";
import { fileOf, type ModelFamilyName, type ModelFiles } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";
import type { WorkerReply } from "../../engine/protocol.ts";
import type { OpenRecognizer } from "../../engine/recognizer.ts";
import { createWorker } from "../../engine/workers/worker.ts";
import type { WorkerExit, WorkerProcess } from "../../engine/workers/worker-process.ts";
import type { ModelFamily } from "../../pipeline/families/family.ts";
import { sha256OfFile } from "../../store/file-hash.ts";

/**
 * A second model family, which shows that the interface fits more than Whisper: several files in roles, its own settings
 * and windows, and a deterministic recognizer without a probability of no speech. Its words come from a file.
 */
export const SCRIPTED_FAMILY = "scripted" as ModelFamilyName;

type ScriptedSettings = RecognizerSettings & { head: string };

export const scriptedFamily: ModelFamily = {
  windowMs: 1_000,
  maxChunkMs: 20_000,
  unknownBelow: 0,
  settingsFor: ({ language }): ScriptedSettings => ({ language, head: `head_${language}` }),
  singlePass: (settings) => settings,
};

/** Returns the files of a scripted model: a list of tokens, and the text that it recognizes in all loud audio. */
export const scriptedFiles = (folder: string): ModelFiles => ({
  model: `${folder}/model.txt`,
  tokens: `${folder}/tokens.txt`,
});

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
      for (const role of ["model", "tokens"])
        if (!existsSync(fileOf(files, role))) throw new Error(`${fileOf(files, role)} is missing`);
      const text = readFileSync(fileOf(files, "model"), "utf8");
      const tokens = new Set(readFileSync(fileOf(files, "tokens"), "utf8").split("\n"));
      const unknown = text.split(" ").find((word) => !tokens.has(word));
      if (unknown !== undefined) throw new Error(`the model writes ${unknown}, which is not a token`);
      return {
        device: "cpu",
        async recognize(samples, settings, { signal }) {
          signal.throwIfAborted();
          const { head } = settings as ScriptedSettings;
          if (head === undefined) throw new TypeError("a scripted model needs a head");
          const endMs = Math.floor(samples.length / 16);
          await Promise.race([Bun.sleep(endMs / SPEED), aborted(signal)]);
          signal.throwIfAborted();
          if (!samples.some((sample) => Math.abs(sample) > LOUD)) return { segments: [] };
          return {
            segments: [{ startMs: 0, endMs, text, language: settings.language, confidence: 0.95 }],
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
