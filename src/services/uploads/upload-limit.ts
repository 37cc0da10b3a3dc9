import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import type { Store } from "../../store/database.ts";
import { openUploadsOf } from "../../store/uploads.ts";

/** A place becomes free when a client completes an upload. That time cannot be predicted. */
const RETRY_SECONDS = 60;

/**
 * Checks that an organization has fewer open uploads than `limits.max_open_uploads`, in the transaction that makes
 * another one. The code is not `too_many_queued`, because that one is about transcriptions: a client that waits for
 * those to finish would get no place.
 *
 * @throws AppError `rate_limited`, with the time until the next upload expires, at most a minute
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
