import { createSharedTurns } from "../../admission/shared-turns.ts";
import { createShares, usualSpare } from "../../admission/shares.ts";
import { AppError } from "../../domain/errors.ts";
import type { ResultCopyFormat } from "../../domain/intake.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import { bytesOfPieces } from "../../lib/text-pieces.ts";
import type { GuardedFetch } from "../../outbound/guarded-fetch.ts";
import { resultPieces } from "../../pipeline/render.ts";
import { type Database, gatedTransaction } from "../../store/database.ts";
import {
  listDueCopies,
  organizationsWithCopies,
  type ResultCopyRow,
  updateResultCopy,
} from "../../store/result-copies.ts";
import { findResult } from "../../store/results.ts";
import { STORE_PAUSE_MS } from "../../store/store-pause.ts";
import { findTranscription, resultInfoOf } from "../../store/transcriptions.ts";
import { clockAdvice } from "./bucket-clock.ts";
import type { Buckets } from "./buckets.ts";
import { drop } from "./open-file.ts";
import { readBucketAddress } from "./source.ts";

const LOOK_EVERY_MS = 500;
/** Results that are written at once. */
const PLACES = 4;
/** Time for one object, to the end of the answer. */
const WRITE_MS = 60_000;
/** Waits after attempts that failed, seconds: a day and a half in all. After the last one it is given up. */
const WAITS_SECONDS = [5, 30, 300, 1800, 7200, 14_400, 28_800, 86_400];

const TYPES: Record<ResultCopyFormat, string> = {
  json: "application/json",
  txt: "text/plain; charset=utf-8",
  srt: "application/x-subrip; charset=utf-8",
  vtt: "text/vtt; charset=utf-8",
};

export type ResultWriterDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  guarded: GuardedFetch;
  buckets: Pick<Buckets, "addressToWrite">;
};

/**
 * Writes results to buckets, at least once: an object has the name of its transcription, so that writing it again changes
 * nothing.
 */
export type ResultWriter = {
  start(): void;
  /** Looks at once: a transcription has ended. */
  wake(): void;
  /** Ends the attempts, which begin again after the next start. */
  stop(): Promise<void>;
};

export function createResultWriter(deps: ResultWriterDeps): ResultWriter {
  const { database, clock, log } = deps;
  const { store } = database;
  const places = createShares(PLACES, usualSpare(PLACES));
  const startInTurn = createSharedTurns(places);
  const running = new Map<string, Promise<void>>();
  const stopping = new AbortController();
  let timer: Timer | undefined;
  let isRunning = false;

  function look(): void {
    clearTimeout(timer);
    if (!isRunning) return;
    let pauseMs = LOOK_EVERY_MS;
    try {
      const nowMs = clock.now();
      const waiting = organizationsWithCopies(store, nowMs).map((owner) => {
        const due = listDueCopies(store, owner, nowMs, 2 * PLACES);
        return { owner, items: due.filter(({ transcriptionId }) => !running.has(transcriptionId)) };
      });
      startInTurn(waiting, begin);
    } catch (error) {
      log.error({ err: error }, "results that are to be written to buckets cannot be read");
      pauseMs = STORE_PAUSE_MS;
    }
    timer = setTimeout(look, pauseMs);
  }

  function begin(copy: ResultCopyRow): void {
    const { transcriptionId, organizationId } = copy;
    const work = attempt(copy)
      .catch((error: unknown) =>
        log.error({ err: error, transcription_id: transcriptionId }, "a copy could not be settled"),
      )
      .finally(() => {
        running.delete(transcriptionId);
        places.giveBack(organizationId);
      });
    running.set(transcriptionId, work);
  }

  async function attempt(copy: ResultCopyRow): Promise<void> {
    const { transcriptionId, attempts } = copy;
    const settle = async (change: Parameters<typeof updateResultCopy>[2]) => {
      await gatedTransaction(database, (tx) => void updateResultCopy(tx, transcriptionId, change));
    };
    try {
      for (const format of copy.formats) await write(deps, copy, format, stopping.signal);
      await settle({ writtenAt: clock.now(), nextAttemptAt: null, reason: null });
    } catch (error) {
      if (stopping.signal.aborted) return;
      const reason = error instanceof WriteFailure || error instanceof AppError ? error.message : undefined;
      if (reason === undefined)
        log.error({ err: error, transcription_id: transcriptionId }, "a result could not be written");
      const waitSeconds = WAITS_SECONDS[attempts];
      const nextAttemptAt = waitSeconds === undefined ? null : clock.now() + waitSeconds * 1000;
      log.info(
        { transcription_id: transcriptionId, attempt: attempts + 1, reason },
        "a result is not in its bucket yet",
      );
      await settle({
        attempts: attempts + 1,
        nextAttemptAt,
        reason: reason ?? "This server could not write it.",
      });
    }
  }

  return {
    wake: () => void setImmediate(look),
    start() {
      isRunning = true;
      look();
    },
    async stop() {
      isRunning = false;
      clearTimeout(timer);
      stopping.abort();
      await Promise.all(running.values());
    },
  };
}

class WriteFailure extends Error {}

/** Writes one object. @throws WriteFailure with a sentence; AppError `invalid_request` when the bucket is not there any more */
async function write(
  { database, guarded, buckets }: ResultWriterDeps,
  { transcriptionId, organizationId, target, attempts }: ResultCopyRow,
  format: ResultCopyFormat,
  stop: AbortSignal,
): Promise<void> {
  const body = await contentOf(database.store, transcriptionId, format);
  const place = readBucketAddress(target);
  // Deleted meanwhile: nothing of it leaves the server any more.
  if (body === undefined || place === undefined) return;
  const key = `${place.key}${transcriptionId}.${format}`;
  const { url, rules } = buckets.addressToWrite(organizationId, { bucket: place.bucket, key });
  const signal = AbortSignal.any([stop, AbortSignal.timeout(WRITE_MS)]);
  const headers = { "content-type": TYPES[format], "user-agent": "Shruti-Intake/1" };
  const response = await guarded
    .fetch({ url, rules, method: "PUT", headers, body, signal, attempts })
    .catch((error: unknown) => {
      throw new WriteFailure(`${url.host} could not be asked: ${guarded.describe(error)}.`);
    });
  const clock = response.status === 403 ? await clockAdvice(response).catch(() => undefined) : undefined;
  await drop(response);
  if (response.ok) return;
  const advice = clock ?? (response.status === 403 ? ": the access key may not write there" : "");
  throw new WriteFailure(`${url.host} answered ${response.status} for s3://${place.bucket}/${key}${advice}.`);
}

async function contentOf(
  store: Database["store"],
  id: string,
  format: ResultCopyFormat,
): Promise<Uint8Array | undefined> {
  const [row, result] = [findTranscription(store, id), findResult(store, id)];
  if (!row || !result) return undefined;
  return bytesOfPieces(await resultPieces(result, format, resultInfoOf(row)));
}
