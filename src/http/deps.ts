import type { Config } from "../config/schema.ts";
import type { AddressIntake } from "../intake/address/intake.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { ApiKeyService } from "../services/api-keys.ts";
import type { CreditService } from "../services/credit.ts";
import type { ListeningService } from "../services/listening/listening.ts";
import type { ModelService } from "../services/models/models.ts";
import type { RateLimiter } from "../services/rate-limit.ts";
import type { SynchronousService } from "../services/transcriptions/synchronous.ts";
import type { TranscriptionService } from "../services/transcriptions/transcriptions.ts";
import type { UnpaidActs } from "../services/unpaid-acts.ts";
import type { UploadService } from "../services/uploads/uploads.ts";
import type { Database } from "../store/database.ts";
import type { WebhookService } from "../webhooks/webhooks.ts";
import type { AdminDeps } from "./admin-deps.ts";
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
  intake: AddressIntake;
  listening: ListeningService;
  /** The admin part of the console. */
  admin: AdminDeps;
  /** Called after a client has changed an endpoint: deliveries may be due. */
  onWebhooksChanged: () => void;
  synchronous: SynchronousService;
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
