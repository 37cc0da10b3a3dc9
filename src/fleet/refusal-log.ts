import { createRepeats } from "../lib/repeats.ts";

/**
 * Logs messages that are refused. A member of another version sends one each second, so each sender has a line at first,
 * and at most one a minute from then on, with the number of messages since the line before.
 */
export type RefusalLog = (sender: string, reason: string) => void;

const AGAIN_AFTER_MS = 60_000;
/** A bound on memory, above the number of workers of any fleet. */
const MAX_SENDERS = 10_000;

/**
 * @param write writes a line. `count`: messages of this sender since the line before, with this one
 * @param now milliseconds, as `performance.now()`
 */
export function createRefusalLog(
  write: (sender: string, reason: string, count: number) => void,
  now: () => number = () => performance.now(),
): RefusalLog {
  const repeats = createRepeats({ everyMs: AGAIN_AFTER_MS, maxKeys: MAX_SENDERS, now });
  return (sender, reason) => {
    const count = repeats(sender);
    if (count !== undefined) write(sender, reason, count);
  };
}
