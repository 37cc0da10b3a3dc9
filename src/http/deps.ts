import type { Config } from "../config/schema.ts";
import type { VerifiedAudio } from "../domain/audio.ts";
import type { FileToRead } from "../domain/reading.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { ApiKeyService } from "../services/api-keys.ts";
import type { CreditService } from "../services/credit.ts";
import type { ListeningService } from "../services/listening/listening.ts";
import type { ModelService } from "../services/models/models.ts";
import type { RateLimiter } from "../services/rate-limit.ts";
import type { TranscriptionService } from "../services/transcriptions/transcriptions.ts";
import type { UnpaidActs } from "../services/unpaid-acts.ts";
import type { UploadService } from "../services/uploads/uploads.ts";
import type { Database } from "../store/database.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import type { WebhookService } from "../webhooks/webhooks.ts";
import type { AdminDeps } from "./console/admin-deps.ts";
import type { Metrics } from "./metrics.ts";

/** Everything the HTTP layer needs; app.ts wires it. */
export type HttpDeps = {
  config: Config;
  clock: Clock;
  log: Log;
  database: Database;
  /** Directory of the database and recordings; incoming synchronous files wait in it. */
  dataDir: string;
  apiKeys: ApiKeyService;
  rateLimiter: RateLimiter;
  unpaidActs: UnpaidActs;
  models: ModelService;
  uploads: UploadService;
  transcriptions: TranscriptionService;
  credit: CreditService;
  webhooks: WebhookService;
  listening: ListeningService;
  /** The admin part of the console. */
  admin: AdminDeps;
  /** Called after a client has changed an endpoint: deliveries may be due. */
  onWebhooksChanged: () => void;
  synchronous: SynchronousWork;
  /**
   * Decodes a synchronous request's file to its end, in one of the decoder lanes that organizations share.
   *
   * @throws AppError `audio_decode_failed`, `audio_too_long`; anything when the signal aborts
   */
  verifyAudio: (
    file: FileToRead,
    work: { organizationId: string; maxDurationMs: number; isLarge: boolean },
    signal: AbortSignal,
  ) => Promise<VerifiedAudio>;
  /**
   * Aborts when the drain time of a stop is over: requests that still wait for a synchronous result are refused, and
   * so is every further one.
   */
  stopping: AbortSignal;
  /** Reports whether all work waits until the server has been ready once after an upgrade. */
  isHeld: () => boolean;
  metrics: Metrics;
  /** What clients put in front of every path, without a slash at the end; known once a port is bound. */
  baseUrl: () => string;
  /** Why `GET /readyz` says no; empty when the program can take work. */
  unreadyReasons: () => string[];
};

/** What the synchronous endpoint needs of the scheduler. */
export type SynchronousWork = {
  /**
   * Takes one of the places reserved for short requests.
   *
   * @param recordingMs what is to be transcribed, over its channels
   * @throws AppError `capacity_unavailable` with `Retry-After`, the time until one should be free, when none is
   */
  reservePlace(recordingMs: number): SynchronousPlace;
  /**
   * Takes such a place once one is free.
   *
   * @throws AppError as `reservePlace`, `waitMs` later; the signal's reason when it aborts first
   */
  waitForPlace(recordingMs: number, waitMs: number, signal: AbortSignal): Promise<SynchronousPlace>;
  /**
   * Calls a function with the text so far each time that it has grown. Its audio is charged before the call.
   *
   * @returns ends the calls
   */
  watchText(transcriptionId: string, onText: (text: string) => void): () => void;
  /** Settles with the final row, or rejects with the signal's reason when it aborts first. */
  waitFor(transcriptionId: string, signal: AbortSignal): Promise<TranscriptionRow>;
};

export type SynchronousPlace = { release(): void };
