import { existsSync, writeFileSync } from "node:fs";
import { eq } from "drizzle-orm";
import { newId } from "../../lib/ids.ts";
import { silentLog } from "../../lib/log.ts";
import { toTimestamp } from "../../lib/time.ts";
import { type ClockTrust, createClockTrust } from "../../services/clock-trust.ts";
import { createRetentionService } from "../../services/retention.ts";
import { insertIdempotencyKey } from "../../store/idempotency.ts";
import { deliveries } from "../../store/schema.ts";
import { insertUpload } from "../../store/uploads.ts";
import { insertEndpoint, insertEvent } from "../../webhooks/event-rows.ts";
import { createWebhookService } from "../../webhooks/webhooks.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";
import { insertTranscription, retentionParts } from "./retention-kit.ts";
import { testConfig } from "./test-config.ts";
import { CALLER, openUploadBench, type UploadBench } from "./upload-bench.ts";

export const DAY_MS = 86_400_000;
/** Days after which each kind is old. */
export const PERIODS = { recording: 30, transcript: 20, upload: 1, key: 2, delivery: 10, copy: 15 } as const;
type Kind = keyof typeof PERIODS;

/** Something that is removed when it is old. */
export type Made = {
  kind: Kind;
  /** When it was made in truth, and what the clock said then, epoch milliseconds. */
  trueMs: number;
  clockMs: number;
  isKept(): boolean;
};

/**
 * Opens an appliance whose clock can be wrong: a real database, the services that remove what is old, and the true time,
 * which only the test knows.
 */
export function openClockWorld() {
  const clock = manualClock();
  const config = testConfig({
    storage: { reserve_bytes: 0 },
    limits: { upload_expiry_seconds: PERIODS.upload * 86_400 },
    retention: {
      ...{ audio_days: PERIODS.recording, transcript_days: PERIODS.transcript },
      restore_copies_days: PERIODS.copy,
    },
    webhooks: { keep_days: PERIODS.delivery },
  });
  const bench = openUploadBench({ clock, config });
  const { database, uploads } = bench;
  // This test does not cut the power, and it commits often.
  database.sqlite.run("PRAGMA synchronous = OFF");
  const beganMs = clock.now();
  let trueMs = beganMs;
  let { trust } = bench;
  let retention = retentionOf(trust);
  const makers = makersOf(bench, clock, () => trust.ages());
  const made: Made[] = [];

  function retentionOf(using: ClockTrust) {
    return createRetentionService({
      ...{ database, clock, config, log: silentLog, trust: using, uploads },
      ...retentionParts(bench, clock),
      webhooks: createWebhookService({ database, clock, config }),
    });
  }

  return {
    clock,
    database,
    made,
    trust: () => trust,
    /** What the clock is ahead of the true time, milliseconds. */
    errorMs: () => clock.now() - trueMs,
    trueMs: () => trueMs,
    beganMs,
    /** Lets true time pass while the machine runs or sleeps. */
    advance(milliseconds: number) {
      trueMs += milliseconds;
      clock.advance(milliseconds);
    },
    /** Switches the machine off for a while. Its clock continues. */
    switchOff(milliseconds: number) {
      trueMs += milliseconds;
      clock.leap(milliseconds);
      clock.reboot();
    },
    /** Starts the program again. */
    restart() {
      trust.stop();
      trust = createClockTrust({ database, clock, log: silentLog });
      retention = retentionOf(trust);
    },
    setError(milliseconds: number) {
      clock.leap(trueMs + milliseconds - clock.now());
    },
    make(kind: Kind): Made {
      const one = { kind, trueMs, clockMs: clock.now(), isKept: makers[kind](clock.now()) };
      made.push(one);
      return one;
    },
    runRetention: () => retention.run(),
    async close() {
      trust.stop();
      await bench.close();
    },
  };
}

/** Returns what makes each kind under the given time, and then reports whether it is kept. */
function makersOf(
  bench: UploadBench,
  clock: ManualClock,
  ages: ClockTrust["ages"],
): Record<Kind, (nowMs: number) => () => boolean> {
  const { database } = bench;
  const { store, sqlite } = database;
  const endpointId = newId("webhookEndpoint", clock.now());
  const endpoint = { ...CALLER, id: endpointId, url: "http://127.0.0.1:1/", secret: "whsec_eA==" };
  insertEndpoint(store, { ...endpoint, createdAt: clock.now() });
  const row = (sql: string, id: string) => sqlite.query<{ found: number }, [string]>(sql).get(id) !== null;

  function makeUpload(nowMs: number, state: "complete" | "allocated"): string {
    const id = newId("upload", nowMs);
    const expiresAt = nowMs + PERIODS.upload * DAY_MS;
    const row = { ...CALLER, id, state, bytes: 1, tokenHash: "", createdAt: nowMs, expiresAt };
    insertUpload(store, state === "complete" ? { ...row, finishedAt: nowMs } : row);
    return id;
  }

  return {
    recording(nowMs) {
      const id = makeUpload(nowMs, "complete");
      return () => row("SELECT 1 AS found FROM uploads WHERE id = ? AND deleted_at IS NULL", id);
    },
    upload(nowMs) {
      const id = makeUpload(nowMs, "allocated");
      return () => row("SELECT 1 AS found FROM uploads WHERE id = ? AND state = 'allocated'", id);
    },
    transcript(nowMs) {
      const uploadId = makeUpload(nowMs, "complete");
      sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = ?", [uploadId]);
      const times = { createdAt: nowMs, finishedAt: nowMs };
      const id = insertTranscription(bench, { uploadId, state: "completed", ...times });
      return () =>
        row("SELECT 1 AS found FROM transcriptions WHERE id = ? AND content_deleted_at IS NULL", id);
    },
    key(nowMs) {
      const key = crypto.randomUUID();
      const { projectId } = CALLER;
      const times = { createdAt: nowMs, expiresAt: nowMs + PERIODS.key * DAY_MS };
      const claim = { projectId, submission: "asynchronous", key, requestHash: "h", ...times } as const;
      insertIdempotencyKey(store, { ...claim, transcriptionId: newId("transcription", nowMs) }, ages());
      return () => row("SELECT 1 AS found FROM idempotency_keys WHERE key = ?", key);
    },
    delivery(nowMs) {
      const transcription = { id: newId("transcription", nowMs), state: "completed" } as const;
      const id = insertEvent(store, { transcription, endpointId, nowMs });
      const delivered = { state: "delivered", deliveredAt: nowMs, nextAttemptAt: null } as const;
      store.update(deliveries).set(delivered).where(eq(deliveries.eventId, id)).run();
      return () => row("SELECT 1 AS found FROM events WHERE id = ?", id);
    },
    copy(nowMs) {
      const path = `${database.path}.before-${toTimestamp(nowMs).replaceAll(/[:.]/g, "-")}`;
      writeFileSync(path, "x");
      return () => existsSync(path);
    },
  };
}
