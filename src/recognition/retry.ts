import { setTimeout as pause } from "node:timers/promises";
import { EngineError } from "../engine/protocol.ts";
import { MAX_INTERRUPTIONS, type RecognitionTools } from "./context.ts";

/** Attempts before a failure of the engine is the recording's, which may be to blame or not. */
const MAX_FAILURES = 3;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Repeats work on a whole recording that the engine did not deliver. A decoder or detector that was stopped from
 * outside says nothing about the recording, and one that broke may have been broken by another recording beside it.
 *
 * @param longestPauseMs between two attempts; replaced in tests
 * @throws what `work` throws when it may not be repeated, the signal's reason when that aborts between two attempts
 */
export async function withRetries<T>(
  { log, isWaitedOut }: Pick<RecognitionTools, "log" | "isWaitedOut">,
  signal: AbortSignal,
  work: () => Promise<T>,
  longestPauseMs = LONGEST_PAUSE_MS,
): Promise<T> {
  let failures = 0;
  let interruptions = 0;
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !(error instanceof EngineError) || error.kind === "unusable_model") throw error;
      if (!isWaitedOut(error)) {
        const mayRepeat =
          error.kind === "interrupted" ? ++interruptions <= MAX_INTERRUPTIONS : ++failures < MAX_FAILURES;
        if (!mayRepeat) throw error;
      }
      log.warn({ kind: error.kind, reason: error.message }, "work on a recording failed and is repeated");
      await pause(Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** tries), undefined, { signal });
    }
  }
}
