import { UNFINISHED_FILE_STATES, type WatchedFileState } from "../../domain/watched-file.ts";
import { runAs } from "../../lib/actor.ts";
import { findWatchedFile, type WatchedFileRow } from "../../store/watched-files.ts";
import { keyOf, settingsFor } from "./rules.ts";
import { Abandoned, FileFailure, judged, type StepDeps } from "./step.ts";
import { nextStep } from "./steps.ts";

/** A file that was taken and has not ended. */
export type FileInHand = {
  row: WatchedFileRow;
  /** The watched folder that takes it; undefined: none of the config does any more. */
  key: string | undefined;
  attempts: number;
  /** Why it does not continue now. */
  waitsFor: string | undefined;
  timer: Timer | undefined;
  running: Promise<void> | undefined;
};

/** The files that were taken and have not ended. */
export type FilesInHand = {
  /** Works on a file from now on, unless it is in hand already. */
  adopt(row: WatchedFileRow): void;
  /** Continues the file that waits for a transcription. */
  onTranscriptionEnd(transcriptionId: string): void;
  list(): FileInHand[];
  /** Returns how many files have come to their end since the start. */
  done(): number;
  /** Ends all work within a step. */
  stop(): Promise<void>;
};

/** Pauses, milliseconds. */
export type RetryPauses = { firstRetry: number; longestRetry: number };

/** @param onEnd is called when a file is not in hand any more */
export function createFilesInHand(deps: StepDeps, pauses: RetryPauses, onEnd: () => void): FilesInHand {
  const { database, config, log, stopping } = deps;
  const inHand = new Map<number, FileInHand>();
  const byTranscription = new Map<string, number>();
  let done = 0;

  /** Works on a file until it has ended or waits for something. The promise never rejects. */
  async function advance(each: FileInHand): Promise<void> {
    for (;;) {
      const { row } = each;
      const settings = settingsFor(config, row.folder, row.name);
      each.key = settings && keyOf(settings);
      if (stopping.aborted) return;
      if (!settings) return park(each, "no folder of the config takes it any more");
      try {
        const actor = { source: "server", name: "watched folder", via: row.folder } as const;
        const next = await runAs(actor, () => nextStep(deps, row, settings));
        each.attempts = 0;
        each.waitsFor = undefined;
        if (next === undefined || next.state === "done" || next.state === "failed") return end(each, next);
        keep(each, next);
      } catch (error) {
        if (stopping.aborted) return;
        const next = await afterError(each, error);
        if (next === "ended") return end(each, undefined);
        if (next === "waits") return;
      }
    }
  }

  async function afterError(each: FileInHand, error: unknown): Promise<"ended" | "waits" | "continues"> {
    const why = judged(error);
    try {
      if (why instanceof Abandoned) {
        const row = findWatchedFile(database.store, each.row.number);
        if (!row || !isUnfinished(row.state)) return "ended";
        keep(each, row);
        return "continues";
      }
      if (why instanceof FileFailure && canFail(each.row.state)) {
        keep(each, await deps.move(each.row, "failing", { reason: why.message }));
        return "continues";
      }
    } catch (failure) {
      log.error({ err: failure, file: each.row.number }, "a file of a watched folder could not be noted");
    }
    const retryMs = "retryMs" in why ? why.retryMs : undefined;
    park(each, why.message, retryMs);
    return "waits";
  }

  /** Tries again after a while, or when the transcription ends. */
  function park(each: FileInHand, waitsFor: string, retryMs?: number): void {
    if (each.waitsFor !== waitsFor && !isOrdinary(each.row, waitsFor))
      log.warn({ folder: each.row.folder, file: each.row.number, reason: waitsFor }, "a file waits");
    each.waitsFor = waitsFor;
    const pause = Math.min(pauses.longestRetry, retryMs ?? pauses.firstRetry * 2 ** each.attempts);
    each.attempts = Math.min(each.attempts + 1, 16);
    each.timer = setTimeout(() => run(each), pause);
  }

  function run(each: FileInHand): void {
    clearTimeout(each.timer);
    if (each.running || stopping.aborted || !inHand.has(each.row.number)) return;
    each.running = advance(each).finally(() => {
      each.running = undefined;
    });
  }

  function keep(each: FileInHand, row: WatchedFileRow): void {
    each.row = row;
    if (row.transcriptionId !== null) byTranscription.set(row.transcriptionId, row.number);
  }

  function end(each: FileInHand, row: WatchedFileRow | undefined): void {
    inHand.delete(each.row.number);
    if (each.row.transcriptionId !== null) byTranscription.delete(each.row.transcriptionId);
    const { folder, number, transcriptionId } = each.row;
    if (row?.state === "done") {
      done += 1;
      log.info(
        { folder, file: number, transcription_id: transcriptionId },
        "a file of a watched folder is done",
      );
    } else if (row)
      log.warn({ folder, file: number, reason: row.reason }, "a file of a watched folder has failed");
    onEnd();
  }

  function adopt(row: WatchedFileRow): void {
    if (inHand.has(row.number)) return;
    const settings = settingsFor(config, row.folder, row.name);
    const each: FileInHand = {
      ...{ row, key: settings && keyOf(settings), attempts: 0 },
      ...{ waitsFor: undefined, timer: undefined, running: undefined },
    };
    inHand.set(row.number, each);
    keep(each, row);
    run(each);
  }

  return {
    adopt,
    onTranscriptionEnd(transcriptionId) {
      const each = inHand.get(byTranscription.get(transcriptionId) ?? -1);
      if (each) run(each);
    },
    list: () => [...inHand.values()],
    done: () => done,
    async stop() {
      for (const { timer } of inHand.values()) clearTimeout(timer);
      await Promise.all([...inHand.values()].map(({ running }) => running));
    },
  };
}

const isUnfinished = (state: WatchedFileState) =>
  (UNFINISHED_FILE_STATES as readonly WatchedFileState[]).includes(state);

/** Later the transcription has a result, and a reason would be wrong. */
const canFail = (state: WatchedFileState) => state === "receiving" || state === "accepted";

/** Reports whether a file only waits for its turn. */
const isOrdinary = ({ state }: WatchedFileRow, waitsFor: string) =>
  waitsFor === "it is being verified" || (state === "accepted" && waitsFor === "it is transcribed");
