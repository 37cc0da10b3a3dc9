import type { Ending } from "../../domain/ending.ts";
import type { Owner } from "../../domain/ownership.ts";
import type { TranscriptionResult } from "../../domain/result.ts";
import { systemClock } from "../../lib/clock.ts";
import { newId } from "../../lib/ids.ts";
import { openLog } from "../../lib/log.ts";
import { settleTranscription } from "../../services/transcriptions/settlement.ts";
import { openDatabase, transaction } from "../../store/database.ts";
import { reserveCredit } from "../../store/ledger.ts";
import { type PackedResult, packResult } from "../../store/results.ts";
import { insertTranscription, moveTranscription } from "../../store/transcriptions.ts";
import { createDeliverer } from "../../webhooks/deliver.ts";
import { testConfig } from "../kits/test-config.ts";
import { BENCH_WEBHOOKS } from "../kits/webhook-kit.ts";

/**
 * A program for crash tests: it finishes transcriptions, by the transaction the server uses, and delivers
 * their events, until it is killed or its standard input ends. Argument: JSON of `FinishingOptions`.
 */
export type FinishingOptions = Owner & {
  databasePath: string;
  uploadId: string;
  endpointId: string;
  /** Number of transcriptions to finish, at least 1. After them the program delivers the waiting events and ends. */
  count: number;
};

const options = JSON.parse(process.argv[2] ?? "{}") as FinishingOptions;
const database = openDatabase(options.databasePath);
const config = testConfig({ webhooks: { ...BENCH_WEBHOOKS, timeout_seconds: 5 } });
const deliverer = createDeliverer({ database, clock: systemClock, config, log: openLog("warn", "json") });
deliverer.start();
process.stdin.on("end", () => process.exit(3)).resume();

for (let index = 0; index < options.count; index++) {
  await finishOne(index);
  deliverer.wake();
  // The test that kills this program waits for the first one, so that each round has something to lose.
  if (index === 0) process.stdout.write("working\n");
  await Bun.sleep(Math.random() * 3);
}
while (deliverer.metrics().pending > 0) await Bun.sleep(20);
await deliverer.stop();
database.close();
process.exit(0);

async function finishOne(index: number): Promise<void> {
  const nowMs = Date.now();
  const id = newId("transcription", nowMs);
  const { organizationId, projectId, uploadId, endpointId } = options;
  transaction(database.store, (tx) => {
    insertTranscription(tx, {
      ...{ id, organizationId, projectId, uploadId, webhookEndpointId: endpointId, createdAt: nowMs },
      ...{ submission: "asynchronous", modelId: "m", modelVersion: "1", state: "queued", diarization: false },
      ...{ language: "hi", mode: "native", timestamps: "segment", channelMode: "mix" },
      ...{ durationMs: 1000, channels: 1, pricePaisePerAudioHour: 0, reservedPaise: 0 },
    });
    reserveCredit(tx, { organizationId, transcriptionId: id, amountPaise: 0, nowMs });
  });
  const ending = await endingOf(id, index);
  if (ending.kind === "result") {
    for (const trigger of ["claim", "prepared", "transcribed"] as const)
      moveTranscription(database.store, id, trigger, Date.now());
  }
  transaction(database.store, (tx) =>
    settleTranscription(tx, id, ending, { nowMs: Date.now(), timeZone: "Asia/Kolkata" }),
  );
}

async function endingOf(id: string, index: number): Promise<Ending<PackedResult>> {
  if (index % 4 === 0) return { kind: "failed", code: "audio_decode_failed", message: "Nothing to hear." };
  if (index % 4 === 1) return { kind: "cancelled" };
  const status = index % 4 === 2 ? "completed" : "partial";
  const result = { id, status, text: "नमस्ते", segments: [] } as unknown as TranscriptionResult;
  return { kind: "result", result: await packResult(result), billedMs: 1000 };
}
