import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { Store } from "../store/database.ts";
import { openUploadsOf } from "../store/uploads.ts";

/** A place becomes free when a client completes an upload, which nobody can foretell. */
const RETRY_SECONDS = 60;

/**
 * Refuses another upload to an organization that has as many open ones as `limits.max_open_uploads` allows; called in
 * the transaction that makes the upload. Its code is `rate_limited`: `too_many_queued` speaks of transcriptions, and
 * a client that waits for those would wait in vain.
 *
 * @throws AppError `rate_limited` with the time until one should be free
 */
export function requireOpenPlace(tx: Store, config: Config, organizationId: string, nowMs: number): void {
  const limit = config.limits.max_open_uploads;
  if (limit === 0) return;
  const { count, nextExpiryMs } = openUploadsOf(tx, organizationId, nowMs);
  if (count < limit) return;
  const expiresInSeconds = nextExpiryMs === null ? RETRY_SECONDS : Math.ceil((nextExpiryMs - nowMs) / 1000);
  throw new AppError("rate_limited", {
    message: `The organization has ${count} uploads that are not complete, and may have ${limit}: complete them, or wait until they expire.`,
    retryAfterSeconds: Math.min(RETRY_SECONDS, expiresInSeconds),
  });
}
