import { resolve } from "node:path";
import { createDecoderPlaces } from "../../admission/decoder-places.ts";
import type { FolderSettings } from "../../config/folder-fields.ts";
import type { Config } from "../../config/schema.ts";
import type { Ages } from "../../domain/clock-trust.ts";
import type { WatchedFileState } from "../../domain/watched-file.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import { type Database, gatedTransaction } from "../../store/database.ts";
import {
  countFailedFiles,
  insertWatchedFile,
  listUnfinishedFiles,
  moveWatchedFile,
} from "../../store/watched-files.ts";
import { forgetOldFiles } from "./forget.ts";
import { createFilesInHand, type FileInHand, type RetryPauses } from "./hand.ts";
import type { ReadyFile } from "./look.ts";
import { keyOf, projectOf, requestFor } from "./rules.ts";
import { Abandoned, judged, type StepDeps } from "./step.ts";
import { createWatch, type FolderStatus, type Watch } from "./watch.ts";

/** Numbers of all watched folders. */
export type FolderNumbers = {
  folders: number;
  /** Folders from which nothing can be taken now. */
  problems: number;
  /** Complete files that wait for a place. */
  waiting: number;
  /** Files that are received, transcribed or brought to their end. */
  inHand: number;
  failed: number;
  /** Files whose results were written since the start. */
  done: number;
};

/** What `shruti folder status` shows of a watched folder. */
export type FolderState = FolderStatus & {
  /** How many files are received, transcribed or brought to their end, and the first of them. */
  in_hand: number;
  files: {
    file: number;
    name: string;
    state: WatchedFileState;
    /** Why it does not continue now; null: it does. */
    waits_for: string | null;
    transcription_id: string | null;
  }[];
};

/** Takes recordings from the folders of `[[intake.folder]]`, and writes their results. */
export type FolderService = {
  start(): void;
  /** Is called when settings or rows were changed, also by another process. */
  onOutsideChange(): void;
  /** Returns what the folders are doing, for the status file. */
  status(): FolderState[];
  numbers(): FolderNumbers;
  /** Forgets files that have ended before some time and are gone (`forgetOldFiles`). Returns how many. */
  forgetOld(endedBefore: Ages): Promise<number>;
  /** Ends all work within a step. It continues after the next start. */
  stop(): Promise<void>;
};

export type FolderDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  uploads: UploadService;
  transcriptions: TranscriptionService;
};

/** Pauses, milliseconds. Tests have shorter ones. */
export type FolderPauses = RetryPauses & { tick: number };
const PAUSES: FolderPauses = { tick: 1_000, firstRetry: 2_000, longestRetry: 60_000 };
/** Files that are copied at once. Organizations share the places. */
const COPIES = 4;
/** Rows in hand that the status names. */
const MOST_SHOWN = 20;

export function createFolderService(deps: FolderDeps, pauses: FolderPauses = PAUSES): FolderService {
  const { database, clock, config, transcriptions } = deps;
  const stopping = new AbortController();
  const watches = new Map<string, Watch>();
  const stepDeps: StepDeps = {
    ...deps,
    copies: createDecoderPlaces(COPIES),
    stopping: stopping.signal,
    async move(row, to, change) {
      const moved = await gatedTransaction(database, (tx) =>
        moveWatchedFile(tx, row, to, clock.now(), change),
      );
      if (!moved) throw new Abandoned();
      return moved;
    },
  };
  let timer: Timer | undefined;
  let stopListening = () => {};

  const hand = createFilesInHand(stepDeps, pauses, () => fill());
  const takenBy = (key: string) => hand.list().filter((each) => each.key === key);

  /** Takes complete files where their folder has a place. */
  function fill(): void {
    for (const watch of watches.values())
      void watch.take((file, device) => take(watch.settings(), file, device));
  }

  /** @returns false when the folder has no place left */
  async function take(settings: FolderSettings, file: ReadyFile, device: string): Promise<boolean> {
    if (stopping.signal.aborted || takenBy(keyOf(settings)).length >= settings.at_once) return false;
    const project = projectOf(database.store, settings);
    if ("problem" in project) return false;
    const nowMs = clock.now();
    const { id: projectId, organizationId } = project;
    const row = await gatedTransaction(database, (tx) =>
      insertWatchedFile(tx, {
        ...{ folder: resolve(settings.path), ...file, device, projectId, organizationId },
        ...{ state: "receiving", createdAt: nowMs, updatedAt: nowMs },
      }),
    );
    if (row) hand.adopt(row);
    return true;
  }

  function problemOf(settings: FolderSettings): string | undefined {
    const project = projectOf(database.store, settings);
    if ("problem" in project) return project.problem;
    const request = requestFor(settings, project);
    if ("problem" in request) return request.problem;
    try {
      transcriptions.checkRequest(settings.model || undefined, request);
      return undefined;
    } catch (error) {
      return judged(error).message;
    }
  }

  function tick(): void {
    const wanted = new Map(config.intake.folder.map((settings) => [keyOf(settings), settings]));
    for (const [key, watch] of watches) {
      if (wanted.has(key)) continue;
      watch.stop();
      watches.delete(key);
    }
    for (const [key, settings] of wanted) {
      const watch = watches.get(key) ?? createWatch({ ...deps, stopping: stopping.signal, problemOf }, key);
      watches.set(key, watch);
      watch.tick(settings);
    }
    fill();
  }

  function adoptAll(): void {
    for (const row of listUnfinishedFiles(database.store)) hand.adopt(row);
  }

  return {
    start() {
      stopListening = transcriptions.listen({
        finished: ({ id }) => hand.onTranscriptionEnd(id),
      });
      adoptAll();
      timer = setInterval(tick, pauses.tick);
      tick();
    },
    onOutsideChange() {
      if (timer === undefined) return;
      adoptAll();
      tick();
    },
    status: () =>
      [...watches].map(([key, watch]) => {
        const own = takenBy(key);
        return { ...watch.status(), in_hand: own.length, files: own.slice(0, MOST_SHOWN).map(describe) };
      }),
    numbers() {
      const all = [...watches.values()].map((watch) => watch.status());
      return {
        folders: all.length,
        problems: all.filter(({ problem }) => problem !== null).length,
        waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
        inHand: hand.list().length,
        failed: countFailedFiles(database.store),
        done: hand.done(),
      };
    },
    forgetOld: (endedBefore) => forgetOldFiles(database, endedBefore, stopping.signal),
    async stop() {
      clearInterval(timer);
      timer = undefined;
      stopListening();
      stopping.abort(new Error("the program is stopping"));
      await Promise.all([hand.stop(), ...[...watches.values()].map((watch) => watch.stop())]);
    },
  };
}

const describe = ({ row, waitsFor }: FileInHand): FolderState["files"][number] => ({
  ...{ file: row.number, name: row.name, state: row.state, waits_for: waitsFor ?? null },
  transcription_id: row.transcriptionId,
});
