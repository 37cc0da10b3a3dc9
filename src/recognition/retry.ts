import { setTimeout as pause } from "node:timers/promises";
import type { RecognitionTools } from "./context.ts";
import {
  FIRST_RECORDING_PAUSE_MS,
  LONGEST_RECORDING_PAUSE_MS,
  MAX_INTERRUPTIONS,
  MAX_RECORDING_ATTEMPTS,
  requireRepeatable,
} from "./retry-policy.ts";

/**
 * Repeats work on a whole recording after failures of the engine, as `retry-policy.ts` says. A decoder or detector that
 * was stopped from outside says nothing about the recording. One that crashed may have been harmed by another recording
 * beside it.
 *
 * @param longestPauseMs longest pause between two attempts; tests set it
 * @throws the error of the last attempt, or the signal's reason when it is aborted between two attempts
 */
export async function withRetries<T>(
  { log, isWaitedOut }: Pick<RecognitionTools, "log" | "isWaitedOut">,
  signal: AbortSignal,
  work: () => Promise<T>,
  longestPauseMs = LONGEST_RECORDING_PAUSE_MS,
): Promise<T> {
  let failures = 0;
  let interruptions = 0;
  for (let attempts = 0; ; attempts++) {
    try {
      return await work();
    } catch (error) {
      const failure = requireRepeatable(error, signal);
      if (!isWaitedOut(failure)) {
        const mayRepeat =
          failure.kind === "interrupted"
            ? ++interruptions <= MAX_INTERRUPTIONS
            : ++failures < MAX_RECORDING_ATTEMPTS;
        if (!mayRepeat) throw failure;
      }
      log.warn({ kind: failure.kind, reason: failure.message }, "work on a recording failed and is repeated");
      const pauseMs = Math.min(longestPauseMs, FIRST_RECORDING_PAUSE_MS * 2 ** attempts);
      await pause(pauseMs, undefined, { signal });
    }
  }
}
