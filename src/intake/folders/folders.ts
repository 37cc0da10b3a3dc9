import { resolve } from "node:path";
import { createDecoderPlaces } from "../../admission/decoder-places.ts";
import type { FolderSettings } from "../../config/folder-fields.ts";
import type { Config } from "../../config/schema.ts";
import { UNFINISHED_FILE_STATES, type WatchedFileState } from "../../domain/watched-file.ts";
import { runAs } from "../../lib/actor.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import { type Database, gatedTransaction } from "../../store/database.ts";
import {
  countFailedFiles,
  findWatchedFile,
  insertWatchedFile,
  listUnfinishedFiles,
  moveWatchedFile,
  type WatchedFileRow,
} from "../../store/watched-files.ts";
import type { ReadyFile } from "./look.ts";
import { keyOf, projectOf, requestFor, settingsFor } from "./rules.ts";
import { Abandoned, FileFailure, judged, type StepDeps } from "./step.ts";
import { nextStep } from "./steps.ts";
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
export type FolderPauses = { tick: number; firstRetry: number; longestRetry: number };
const PAUSES: FolderPauses = { tick: 1_000, firstRetry: 2_000, longestRetry: 60_000 };
/** Files that are copied at once. Organizations share the places. */
const COPIES = 4;
/** Rows in hand that the status names. */
const MOST_SHOWN = 20;

/** A file that was taken and has not ended. */
type InHand = {
  row: WatchedFileRow;
  key: string | undefined;
  attempts: number;
  waitsFor: string | undefined;
  timer: Timer | undefined;
  running: Promise<void> | undefined;
};

export function createFolderService(deps: FolderDeps, pauses: FolderPauses = PAUSES): FolderService {
  const { database, clock, config, log, transcriptions } = deps;
  const stopping = new AbortController();
  const inHand = new Map<number, InHand>();
  const byTranscription = new Map<string, number>();
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
  let done = 0;

  const takenBy = (key: string) => [...inHand.values()].filter((each) => each.key === key).length;

  /** Works on a file until it has ended or waits for something. The promise never rejects. */
  async function advance(each: InHand): Promise<void> {
    for (;;) {
      const { row } = each;
      const settings = settingsFor(config, row.folder, row.name);
      each.key = settings && keyOf(settings);
      if (stopping.signal.aborted) return;
      if (!settings) return park(each, "no folder of the config takes it any more");
      try {
        const actor = { source: "server", name: "watched folder", via: row.folder } as const;
        const next = await runAs(actor, () => nextStep(stepDeps, row, settings));
        each.attempts = 0;
        each.waitsFor = undefined;
        if (next === undefined || next.state === "done" || next.state === "failed") return end(each, next);
        keep(each, next);
      } catch (error) {
        if (stopping.signal.aborted) return;
        const next = await afterError(each, error);
        if (next === "ended") return end(each, undefined);
        if (next === "waits") return;
      }
    }
  }

  async function afterError(each: InHand, error: unknown): Promise<"ended" | "waits" | "continues"> {
    const why = judged(error);
    try {
      if (why instanceof Abandoned) {
        const row = findWatchedFile(database.store, each.row.number);
        if (!row || !isUnfinished(row.state)) return "ended";
        keep(each, row);
        return "continues";
      }
      if (why instanceof FileFailure && canFail(each.row.state)) {
        keep(each, await stepDeps.move(each.row, "failing", { reason: why.message }));
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
  function park(each: InHand, waitsFor: string, retryMs?: number): void {
    if (each.waitsFor !== waitsFor && !isOrdinary(each.row, waitsFor))
      log.warn({ folder: each.row.folder, file: each.row.number, reason: waitsFor }, "a file waits");
    each.waitsFor = waitsFor;
    const pause = Math.min(pauses.longestRetry, retryMs ?? pauses.firstRetry * 2 ** each.attempts);
    each.attempts = Math.min(each.attempts + 1, 16);
    each.timer = setTimeout(() => run(each), pause);
  }

  function run(each: InHand): void {
    clearTimeout(each.timer);
    if (each.running || stopping.signal.aborted || !inHand.has(each.row.number)) return;
    each.running = advance(each).finally(() => {
      each.running = undefined;
    });
  }

  function keep(each: InHand, row: WatchedFileRow): void {
    each.row = row;
    if (row.transcriptionId !== null) byTranscription.set(row.transcriptionId, row.number);
  }

  function end(each: InHand, row: WatchedFileRow | undefined): void {
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
    fill();
  }

  function adopt(row: WatchedFileRow): void {
    if (inHand.has(row.number)) return;
    const settings = settingsFor(config, row.folder, row.name);
    const each: InHand = {
      ...{ row, key: settings && keyOf(settings), attempts: 0 },
      ...{ waitsFor: undefined, timer: undefined, running: undefined },
    };
    inHand.set(row.number, each);
    keep(each, row);
    run(each);
  }

  /** Takes complete files where their folder has a place. */
  function fill(): void {
    for (const watch of watches.values())
      void watch.take((file, device) => take(watch.settings(), file, device));
  }

  /** @returns false when the folder has no place left */
  async function take(settings: FolderSettings, file: ReadyFile, device: string): Promise<boolean> {
    if (stopping.signal.aborted || takenBy(keyOf(settings)) >= settings.at_once) return false;
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
    if (row) adopt(row);
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
    for (const row of listUnfinishedFiles(database.store)) adopt(row);
  }

  const describe = ({ row, waitsFor }: InHand) => ({
    ...{ file: row.number, name: row.name, state: row.state, waits_for: waitsFor ?? null },
    transcription_id: row.transcriptionId,
  });

  return {
    start() {
      stopListening = transcriptions.listen({
        finished: ({ id }) => {
          const each = inHand.get(byTranscription.get(id) ?? -1);
          if (each) run(each);
        },
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
        const own = [...inHand.values()].filter((each) => each.key === key);
        return { ...watch.status(), in_hand: own.length, files: own.slice(0, MOST_SHOWN).map(describe) };
      }),
    numbers() {
      const all = [...watches.values()].map((watch) => watch.status());
      return {
        folders: all.length,
        problems: all.filter(({ problem }) => problem !== null).length,
        waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
        inHand: inHand.size,
        failed: countFailedFiles(database.store),
        done,
      };
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      stopListening();
      stopping.abort(new Error("the program is stopping"));
      for (const each of inHand.values()) clearTimeout(each.timer);
      await Promise.all([
        ...[...inHand.values()].map(({ running }) => running),
        ...[...watches.values()].map((watch) => watch.stop()),
      ]);
    },
  };
}

const isUnfinished = (state: WatchedFileState) =>
  (UNFINISHED_FILE_STATES as readonly WatchedFileState[]).includes(state);

/** What has become of a file only these states can still be told by its reason. */
const canFail = (state: WatchedFileState) => state === "receiving" || state === "accepted";

/** Reports whether a file only waits for its turn. */
const isOrdinary = ({ state }: WatchedFileRow, waitsFor: string) =>
  waitsFor === "it is being verified" || (state === "accepted" && waitsFor === "it is transcribed");
