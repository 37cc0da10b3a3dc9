import { EngineError } from "../engine/protocol.ts";

/**
 * How often work is repeated after a failure. All limits of recognition and of the scheduler are in this file.
 *
 * | work                       | failure                     | repeated                                   | then      |
 * |----------------------------|-----------------------------|--------------------------------------------|-----------|
 * | a chunk                    | `crashed`, `hung`, `failed` | `engine.chunk_attempts` attempts in all    | a gap     |
 * |                            | `crashed`                   | alone in its worker process, `MAX_CRASHES` | a gap     |
 * |                            | `interrupted`               | `MAX_INTERRUPTIONS` times, alone if it may | a failure |
 * |                            |                             | be the cause (`isSuspect`)                 |           |
 * | decoding, speech, speakers | `crashed`, `hung`, `failed` | `MAX_RECORDING_ATTEMPTS` attempts in all   | the end   |
 * |                            | `interrupted`               | `MAX_INTERRUPTIONS` times                  | the end   |
 * |                            | a full disk, a locked       | without limit                              |           |
 * |                            | database                    |                                            |           |
 * | a run of a transcription   | the store, or a bug         | `MAX_UNEXPECTED_ENDS` runs in all          | the end   |
 * |                            | a full disk, a locked       | without limit                              |           |
 * |                            | database                    |                                            |           |
 * | use of the store           | any                         | without limit                              |           |
 *
 * "A failure" means that the next interruption counts as a failure of the chunk. "The end" means that the transcription
 * fails. A chunk is repeated at once. Work on a recording is repeated after 0.5 s, then after twice the last pause, at
 * most 30 s. Runs and uses of the store are repeated after `STORE_PAUSE_MS`.
 *
 * `unusable_model` and the failures of a recording (AppError) end the transcription at once. Webhooks follow a schedule
 * of their own (`RETRY_DELAYS_SECONDS`), and so does the readiness of the default model (`readiness.ts`).
 */

/** Attempts of one piece of work that may end for a reason elsewhere, such as the crash of a neighbour. */
export const MAX_INTERRUPTIONS = 20;
/** Crashes of its worker process after which a chunk becomes a gap. */
export const MAX_CRASHES = 2;
/** Attempts at work on a whole recording that may end in a failure of the engine. */
export const MAX_RECORDING_ATTEMPTS = 3;
export const FIRST_RECORDING_PAUSE_MS = 500;
export const LONGEST_RECORDING_PAUSE_MS = 30_000;
/** Runs of one transcription that may end in an unexpected error. */
export const MAX_UNEXPECTED_ENDS = 5;

/**
 * Returns the failure when another attempt may help.
 *
 * @throws `error` itself when the work was aborted, the model cannot be used, or the engine did not fail
 */
export function requireRepeatable(error: unknown, signal: AbortSignal): EngineError {
  const isRepeatable = error instanceof EngineError && error.kind !== "unusable_model";
  if (signal.aborted || !isRepeatable) throw error;
  return error;
}
