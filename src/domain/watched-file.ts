/**
 * States of a file of a watched folder and the only moves between them (docs/manual/intake.md).
 *
 * - `receiving`: it is copied into an upload and verified.
 * - `accepted`: a transcription has it.
 * - `written`: its results are on the disk.
 * - `done`: and the file is where it belongs afterwards.
 * - `failing`: it cannot be transcribed; its reason is still to be written.
 * - `failed`: its reason is written.
 * - `retrying`: an admin wants it to be taken again.
 */
export const WATCHED_FILE_STATES = [
  "receiving",
  "accepted",
  "written",
  "done",
  "failing",
  "failed",
  "retrying",
] as const;
export type WatchedFileState = (typeof WATCHED_FILE_STATES)[number];

const MOVES: Record<WatchedFileState, readonly WatchedFileState[]> = {
  receiving: ["receiving", "accepted", "failing"],
  accepted: ["accepted", "written", "failing"],
  written: ["written", "done"],
  done: [],
  failing: ["failing", "failed"],
  failed: ["retrying"],
  retrying: [],
};

/** Reports whether a file can move between two states. A move to the same state changes other columns. */
export function canMoveWatchedFile(from: WatchedFileState, to: WatchedFileState): boolean {
  return MOVES[from].includes(to);
}

/** States in which the server still has something to do with a file. */
export const UNFINISHED_FILE_STATES = ["receiving", "accepted", "written", "failing", "retrying"] as const;
