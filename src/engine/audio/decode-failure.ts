import type { DecoderOutcome } from "./decoder-process.ts";

/**
 * Why audio could not be decoded: `no_audio` (a media file without sound), `undecodable` (an unknown format, or nothing
 * in the file could be decoded), `too_long`, `limits` (time or memory), `disk_full` (no space on the disk), `aborted` (by
 * the caller's signal), `stopped` (by a signal from outside: Ctrl-C, a service manager, an admin, a lack of memory).
 */
export type DecodeFailure =
  | "no_audio"
  | "undecodable"
  | "too_long"
  | "limits"
  | "disk_full"
  | "aborted"
  | "stopped";

/** A recording could not be decoded. The message is for clients and names no path. */
export class DecodeError extends Error {
  readonly reason: DecodeFailure;

  constructor(reason: DecodeFailure, message: string) {
    super(message);
    this.name = "DecodeError";
    this.reason = reason;
  }
}

export function tooLong(): DecodeError {
  return new DecodeError("too_long", "The recording is longer than allowed.");
}

/** Failures by the decoder's names for them (src/native/decoder/main.c). */
const REPORTED: Record<string, [DecodeFailure, string]> = {
  no_audio: ["no_audio", "The file has no audio stream."],
  undecodable: [
    "undecodable",
    "The file is not in a known audio format, or is damaged. One without a header needs a name such as call.ulaw, or a media type such as audio/PCMU.",
  ],
  absurd_format: [
    "undecodable",
    "The audio claims a sample rate or a number of channels that no recording has.",
  ],
  no_space: ["disk_full", "There is no space on the disk for the decoded audio."],
  no_memory: ["limits", "The audio takes too much memory to decode."],
};

/**
 * Signals by which a program ends because of what it does itself. Every other one was sent: to the file it says
 * nothing, and the work may be tried again.
 */
const SIGNALS_OF_CRASHES = new Set(["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"]);

/**
 * Returns the report of a decoder that did its work.
 *
 * @throws DecodeError for a failure that it reports, and for a decoder that ended without a report
 */
export function requireReport(outcome: DecoderOutcome): Record<string, unknown> {
  if (outcome.ended === "aborted") throw new DecodeError("aborted", "The work was cancelled.");
  if (outcome.ended === "timed out" || outcome.signal === "SIGXCPU") {
    throw new DecodeError("limits", "The audio took too long to decode.");
  }
  if (SIGNALS_OF_CRASHES.has(outcome.signal ?? "")) {
    throw new DecodeError("undecodable", "The decoder failed on this file.");
  }
  if (outcome.signal !== null) throw new DecodeError("stopped", "The decoder was stopped from outside.");
  const { report } = outcome;
  if (report === undefined || outcome.status !== 0) {
    throw new Error(`the decoder ended with status ${outcome.status} and without a report`);
  }
  if (report.failed === undefined) return report;
  if (report.failed === "too_long") throw tooLong();
  const known = REPORTED[String(report.failed)];
  if (known === undefined) throw new Error(`the decoder could not work: ${report.failed}`);
  throw new DecodeError(...known);
}
