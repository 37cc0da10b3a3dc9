import type { MediaOutcome } from "./media-process.ts";

/**
 * Why audio could not be decoded: `no_audio` (a media file without sound), `undecodable` (no format we know, or
 * nothing in it could be decoded), `too_long`, `limits` (time, memory), `no_room` (on the disk), `aborted` (by the
 * caller's signal), `stopped` (by somebody else's, as a Ctrl-C or a service manager).
 */
export type DecodeFailure =
  | "no_audio"
  | "undecodable"
  | "too_long"
  | "limits"
  | "no_room"
  | "aborted"
  | "stopped";

/** The message is for people and carries no path. */
export class DecodeError extends Error {
  readonly reason: DecodeFailure;

  constructor(reason: DecodeFailure, message: string) {
    super(message);
    this.name = "DecodeError";
    this.reason = reason;
  }
}

export function tooLong(): DecodeError {
  return new DecodeError("too_long", "The recording exceeds the duration limit.");
}

/** What a terminal or a service manager sends to the whole group of processes. */
const STOP_SIGNALS = new Set(["SIGTERM", "SIGINT", "SIGHUP"]);
/** ffmpeg's status after such a signal (its `main`): it finishes its files, which then look whole and are not. */
const STOPPED_STATUS = 255;

/** @throws DecodeError when a limit, the caller or somebody else ended the program */
export function refuseEarlyEnd(outcome: MediaOutcome): void {
  if (outcome.ended === "aborted") throw new DecodeError("aborted", "The work was cancelled.");
  if (STOP_SIGNALS.has(outcome.signal ?? "") || outcome.status === STOPPED_STATUS) {
    throw new DecodeError("stopped", "The decoder was stopped from outside.");
  }
  if (outcome.ended === "timed out" || outcome.signal === "SIGXCPU") {
    throw new DecodeError("limits", "The audio took too long to decode.");
  }
  if (outcome.ended === "output too large") {
    throw new DecodeError("limits", "The file's headers are too large.");
  }
  if (outcome.status !== 0 && /Cannot allocate memory/.test(outcome.stderr)) {
    throw new DecodeError("limits", "The audio takes too much memory to decode.");
  }
}

/** @throws DecodeError when ffmpeg was ended or could not write */
export function refuseFailure(outcome: MediaOutcome): void {
  refuseEarlyEnd(outcome);
  if (outcome.signal === "SIGXFSZ" || /File too large/.test(outcome.stderr)) throw tooLong();
  if (
    outcome.status !== 0 &&
    /No space left on device|Disk quota exceeded|Read-only file/.test(outcome.stderr)
  ) {
    throw new DecodeError("no_room", "There is no room on the disk for the decoded audio.");
  }
  if (outcome.signal !== null) throw new DecodeError("undecodable", "The decoder broke down on this file.");
}
