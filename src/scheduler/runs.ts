import { setTimeout as pause } from "node:timers/promises";
import { type Turns, turnOf } from "../admission/turns.ts";
import { isFinal } from "../domain/transcription.ts";
import { MAX_UNEXPECTED_ENDS } from "../recognition/retry-policy.ts";
import { isWaitedOut } from "../store/disk-full.ts";
import { STORE_PAUSE_MS } from "../store/store-pause.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import { isSynchronous, type RunContext } from "./context.ts";
import { runTranscription } from "./transcribe.ts";
import type { WorkingFiles } from "./working-files.ts";

/** Holds the transcriptions that run in this process. A transcription has at most one run at a time. */
export type Runs = {
  /** Starts a run. Returns false when the transcription runs already, does not exist, or `close` has been called. */
  begin(id: string): boolean;
  has(id: string): boolean;
  /** Returns the rows of all running transcriptions, as they were when their runs began. */
  rows(): TranscriptionRow[];
  /** Aborts the run of a transcription that has ended. */
  abortEnded(row: TranscriptionRow): void;
  /** Refuses all further runs. */
  close(): void;
  /** Aborts all runs and waits until they have ended. Returns their rows. Never rejects. */
  abortAll(): Promise<TranscriptionRow[]>;
};

export type RunsDeps = {
  context: RunContext;
  turns: Turns;
  workingFiles: WorkingFiles;
  /** Called at the end of a run whose transcription has ended. Another process may have ended it. */
  onFinal: (row: TranscriptionRow) => void;
  /** Called after each run. */
  onEnded: () => void;
};

type Run = { controller: AbortController; done: Promise<void>; row: TranscriptionRow };

export function createRuns({ context, turns, workingFiles, onFinal, onEnded }: RunsDeps): Runs {
  const { transcriptions, log } = context;
  const runs = new Map<string, Run>();
  const handBack = createHandBack(context);
  let isClosed = false;

  /** Runs a transcription once, and handles an unexpected error. Never rejects. */
  async function runOnce(row: TranscriptionRow, signal: AbortSignal): Promise<void> {
    const { id } = row;
    try {
      await runTranscription(context, id, signal);
      handBack.forget(id);
    } catch (error) {
      log.error({ transcription_id: id, err: error }, "a run ended unexpectedly");
      await handBack.afterError(row, error, signal);
    }
    try {
      const ended = transcriptions.find(id);
      if (!ended || !isFinal(ended.state)) return;
      // Where another process has ended it, this process does not know yet. The run ends early without its files.
      onFinal(ended);
      // A decoder that finishes just as its transcription is cancelled may leave its files.
      workingFiles.remove(id);
    } catch (error) {
      log.error({ transcription_id: id, err: error }, "what a run has left could not be put in order");
    }
  }

  return {
    begin(id) {
      const row = transcriptions.find(id);
      if (!row || runs.has(id) || isClosed) return false;
      turns.account(turnOf(row, context.weightOf(row.organizationId)));
      const controller = new AbortController();
      const run: Run = { controller, row, done: Promise.resolve() };
      runs.set(id, run);
      run.done = runOnce(row, controller.signal).finally(() => {
        runs.delete(id);
        onEnded();
      });
      return true;
    },
    has: (id) => runs.has(id),
    rows: () => [...runs.values()].map(({ row }) => row),
    abortEnded({ id, state }) {
      runs.get(id)?.controller.abort(new Error(`the transcription is ${state}`));
    },
    close() {
      isClosed = true;
    },
    async abortAll() {
      const open = [...runs.values()];
      for (const { controller } of open) controller.abort(new Error("the program is stopping"));
      await Promise.all(open.map(({ done }) => done));
      return open.map(({ row }) => row);
    },
  };
}

type HandBack = {
  /** Forgets a transcription's unexpected ends. */
  forget(id: string): void;
  /**
   * Puts a transcription back into the queue after an unexpected error, or fails it after too many. A full disk and a lock
   * of another program do not count. Waits until the store can be written. When the signal is aborted first, nothing
   * changes.
   */
  afterError(row: TranscriptionRow, cause: unknown, signal: AbortSignal): Promise<void>;
};

function createHandBack({ transcriptions, log }: RunContext): HandBack {
  const unexpectedEnds = new Map<string, number>();
  return {
    forget: (id) => void unexpectedEnds.delete(id),
    async afterError(row, cause, signal) {
      const { id } = row;
      const ends = (unexpectedEnds.get(id) ?? 0) + (isWaitedOut(cause) ? 0 : 1);
      unexpectedEnds.set(id, ends);
      while (!signal.aborted) {
        await pause(STORE_PAUSE_MS, undefined, { signal }).catch(() => {});
        try {
          if (!isSynchronous(row) && ends < MAX_UNEXPECTED_ENDS) {
            transcriptions.move(id, "requeue");
            return;
          }
          unexpectedEnds.delete(id);
          const message = "The transcription failed.";
          transcriptions.finish(id, { kind: "failed", code: "transcription_failed", message });
          return;
        } catch (error) {
          log.error({ transcription_id: id, err: error }, "a transcription could not be handed back");
        }
      }
    },
  };
}
