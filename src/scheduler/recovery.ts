import { STOPPED } from "../services/transcriptions/transcription-endings.ts";
import { STORE_PAUSE_MS } from "../store/store-pause.ts";
import { listUnfinished, type TranscriptionRow } from "../store/transcriptions.ts";
import { isSynchronous, type RunContext } from "./context.ts";
import type { WorkingFiles } from "./working-files.ts";

/** Puts the transcriptions that an earlier run of the program left unfinished back into the queue. */
export type Recovery = {
  /**
   * Removes working files that nothing needs and requeues unfinished work. Cancels unfinished synchronous work, whose
   * clients are gone. Continues later where the store cannot be written, such as on a full disk.
   *
   * @throws what the store throws when it cannot be read
   */
  start(): void;
  /** Cancels a planned continuation. */
  stop(): void;
};

/**
 * @param onRecovered called once all of it waits in the queue or has ended, and when that has to wait for the store. What
 *   was interrupted keeps its turn: nothing else is started before.
 */
export function createRecovery(
  { database, transcriptions, log }: Pick<RunContext, "database" | "transcriptions" | "log">,
  workingFiles: WorkingFiles,
  onRecovered: () => void,
): Recovery {
  let retryTimer: Timer | undefined;
  let nextTurn: NodeJS.Immediate | undefined;

  /** Handles one row in each turn of the event loop, because each waits for the disk. */
  function requeue(unfinished: TranscriptionRow[]): void {
    try {
      const [row] = unfinished;
      if (!row) {
        onRecovered();
        return;
      }
      if (isSynchronous(row)) transcriptions.cancelById(row.id, STOPPED);
      else transcriptions.move(row.id, "requeue");
      unfinished.shift();
      nextTurn = setImmediate(requeue, unfinished);
    } catch (error) {
      log.error({ err: error }, "unfinished transcriptions could not be taken up, and are tried again");
      retryTimer = setTimeout(requeue, STORE_PAUSE_MS, unfinished);
      onRecovered();
    }
  }

  return {
    start() {
      const unfinished = listUnfinished(database.store);
      workingFiles.keepOnly(new Set(unfinished.map(({ id }) => id)));
      if (unfinished.length > 0)
        log.info({ count: unfinished.length }, "unfinished transcriptions are taken up again");
      requeue(unfinished.filter((row) => isSynchronous(row) || row.state !== "queued"));
    },
    stop() {
      clearTimeout(retryTimer);
      clearImmediate(nextTurn);
    },
  };
}
