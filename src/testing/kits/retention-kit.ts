import type { TranscriptionState } from "../../domain/transcription.ts";
import type { Clock } from "../../lib/clock.ts";
import { newId } from "../../lib/ids.ts";
import { createReceiptService } from "../../services/receipts.ts";
import { transcriptions } from "../../store/schema.ts";
import { markContentDeleted } from "../../store/transcriptions.ts";
import { CALLER, type UploadBench } from "./upload-bench.ts";

/** The services that retention needs beside a bench for uploads. Deleting a transcription twice is an error. */
export function retentionParts({ database, dataDir }: UploadBench, clock: Clock) {
  return {
    transcriptions: {
      async deleteById(id: string) {
        const deleted = markContentDeleted(database.store, id, clock.now());
        if (!deleted) throw new Error("deleted twice");
        return deleted;
      },
    },
    receipts: createReceiptService({ database, clock, dataDir }),
    purge: { resume: () => Promise.resolve(0) },
  };
}

type Row = { uploadId: string; state: TranscriptionState; createdAt: number; finishedAt: number | null };

/** Inserts a transcription of the bench's caller, and returns its ID. */
export function insertTranscription({ database }: UploadBench, row: Row): string {
  const id = newId("transcription", row.createdAt);
  database.store
    .insert(transcriptions)
    .values({
      ...{ ...CALLER, ...row, id },
      ...{ submission: "asynchronous", modelId: "m", modelVersion: "1", language: "hi", mode: "native" },
      ...{ timestamps: "segment", diarization: false, channelMode: "mix", durationMs: 1000, channels: 1 },
      ...{ pricePaisePerAudioHour: 0, reservedPaise: 0 },
    })
    .run();
  return id;
}
