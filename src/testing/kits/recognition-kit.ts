import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSlots } from "../../admission/slots.ts";
import type { InstalledModel } from "../../domain/model.ts";
import type { TranscriptionRequest } from "../../domain/transcription.ts";
import { FAMILIES } from "../../families/families.ts";
import { silentLog } from "../../lib/log.ts";
import { type Checkpoint, createMemoryCheckpoint } from "../../recognition/checkpoint.ts";
import type { RecognitionTools, Recording } from "../../recognition/context.ts";
import { recognizeRecording } from "../../recognition/recognize.ts";
import { manualClock } from "./manual-clock.ts";
import { CHUNK_MS } from "./open-test-app.ts";
import { createScriptedEngine, type Script, scriptedAudio } from "./scripted-engine.ts";

export const SCRIPTED_MODEL: InstalledModel = {
  id: "scripted",
  name: "Scripted",
  version: "1",
  sha256: "0".repeat(64),
  languages: [{ code: "hi", name: "Hindi", modes: ["native"] }],
  licence: "none",
  source: "tests",
  decoding: { maxChunkMs: CHUNK_MS },
  family: "whisper",
  files: { weights: "scripted.bin" },
  bytes: 1,
  embedded: false,
};

/** Opens recognition of scripted recordings in a new folder, without server and rows. */
export function openRecognitionKit({ workers = 2 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "shruti-recognition-"));
  const engine = createScriptedEngine();
  const slots = createSlots({ slots: workers, synchronousSlots: 0 });
  let count = 0;

  /** Writes a recording with the values that verification of an upload would find. */
  function recordingOf(script: Script): Recording {
    const path = join(folder, `recording_${count++}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, scriptedAudio(script));
    const verified = { durationMs: script.seconds * 1000, channels: script.channels ?? 1 };
    return { path, directory: `${path}.audio`, verified };
  }

  function toolsWith(checkpoint: Checkpoint, more: Partial<RecognitionTools> = {}): RecognitionTools {
    return {
      engine,
      checkpoint,
      keepsDoubtful: false,
      slots: {
        count: () => workers,
        acquire: ({ position, speechMs, hasSuccessors }, signal) =>
          slots.acquire(
            {
              ...{ isSynchronous: false, organizationId: "org", weight: 1, transcriptionId: "tr", position },
              ...{
                projectId: "prj",
                remainingMs: 0,
                costMs: speechMs,
                hasSuccessors,
                model: { id: SCRIPTED_MODEL.id, slots: workers },
              },
            },
            signal,
          ),
      },
      clock: manualClock(),
      log: silentLog,
      familyOf: FAMILIES.of,
      speakerWeights: () => [],
      maxDurationMs: 3_600_000,
      mostAttempts: 3,
      isWaitedOut: () => false,
      ...more,
    };
  }

  return {
    folder,
    engine,
    slots,
    recordingOf,
    toolsWith,
    recognize(
      recording: Recording,
      options: {
        checkpoint?: Checkpoint;
        request?: Partial<TranscriptionRequest>;
        signal?: AbortSignal;
        tools?: Partial<RecognitionTools>;
      } = {},
    ) {
      const { checkpoint = createMemoryCheckpoint(), signal = new AbortController().signal } = options;
      const request: TranscriptionRequest = {
        ...{ language: "hi", mode: "native", timestamps: "segment", channelMode: "mix" },
        ...options.request,
      };
      const job = { recording, request, model: SCRIPTED_MODEL };
      return recognizeRecording(job, toolsWith(checkpoint, options.tools), signal);
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
