import { AppError } from "../domain/errors.ts";

/** Before any body has come in whole. */
const FIRST_GUESS_MS = 2_000;
/** How much the latest body counts. */
const WEIGHT_OF_LATEST = 0.25;
const LONGEST_RETRY_AFTER_SECONDS = 60;

export type ReceivingPlaces = ReturnType<typeof createReceivingPlaces>;

/**
 * Bounds how many bodies come in at once, and learns how long one takes.
 *
 * @param now milliseconds on a clock that only goes on
 */
export function createReceivingPlaces(count: number, now = () => performance.now()) {
  /** When each began, the oldest first. */
  const begun = new Set<{ atMs: number }>();
  let usualMs = FIRST_GUESS_MS;

  /** Until the oldest is through, should it take as long as the others did. */
  function retryAfterSeconds(): number {
    const [oldest] = begun;
    const leftMs = usualMs - (oldest ? now() - oldest.atMs : 0);
    return Math.min(LONGEST_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(leftMs / 1000)));
  }

  return {
    /**
     * @returns gives the place back
     * @throws AppError `capacity_unavailable` with `Retry-After` when all are taken
     */
    take(): () => void {
      if (begun.size >= count) {
        throw new AppError("capacity_unavailable", { retryAfterSeconds: retryAfterSeconds() });
      }
      const place = { atMs: now() };
      begun.add(place);
      return () => {
        if (begun.delete(place)) usualMs += (now() - place.atMs - usualMs) * WEIGHT_OF_LATEST;
      };
    },
  };
}
