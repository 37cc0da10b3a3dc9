import { AppError } from "../domain/errors.ts";
import { createShares, usualSpare } from "./shares.ts";

/** Time that a place is held, before any body has come in whole. */
const FIRST_GUESS_MS = 2_000;
/** How much the latest body counts. */
const WEIGHT_OF_LATEST = 0.25;
const LONGEST_RETRY_AFTER_SECONDS = 60;

export type ReceivingPlaces = {
  /**
   * Takes a place for a request of an organization.
   *
   * @returns gives the place back; calling it twice does nothing
   * @throws AppError `capacity_unavailable` with `Retry-After` when this organization may have none now
   */
  take(organizationId: string): () => void;
};

/**
 * Bounds how many requests with a file are under way at once, shares the places between organizations, and learns how
 * long one is held.
 *
 * @param now milliseconds on a monotonic clock
 */
export function createReceivingPlaces(count: number, now = () => performance.now()): ReceivingPlaces {
  const shares = createShares(count, usualSpare(count));
  /** Places that are held, the oldest first. */
  const begun = new Set<{ organizationId: string; atMs: number }>();
  let usualMs = FIRST_GUESS_MS;

  /** Estimates when the oldest request that holds a place ends, if it takes as long as the others did. */
  function retryAfterSeconds(organizationId: string): number {
    const isFull = begun.size >= count;
    const [oldest] = [...begun].filter((place) => isFull || place.organizationId === organizationId);
    const leftMs = usualMs - (oldest ? now() - oldest.atMs : 0);
    return Math.min(LONGEST_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(leftMs / 1000)));
  }

  return {
    take(organizationId) {
      if (!shares.take(organizationId)) {
        throw new AppError("capacity_unavailable", { retryAfterSeconds: retryAfterSeconds(organizationId) });
      }
      const place = { organizationId, atMs: now() };
      begun.add(place);
      return () => {
        if (!begun.delete(place)) return;
        shares.giveBack(organizationId);
        usualMs += (now() - place.atMs - usualMs) * WEIGHT_OF_LATEST;
      };
    },
  };
}
