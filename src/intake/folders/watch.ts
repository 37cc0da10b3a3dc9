import { resolve } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Log } from "../../lib/log.ts";
import { plainMessage } from "../../lib/system-error.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Database } from "../../store/database.ts";
import { isWatchedFileKnown } from "../../store/watched-files.ts";
import { createLooks, type LookReport, type ReadyFile } from "./look.ts";
import { deviceOf } from "./places.ts";
import { isWithin, keyOf, outputFolders, settingsFor } from "./rules.ts";

/** What is known of a watched folder by looking at it. */
export type FolderStatus = {
  path: string;
  pattern: string;
  project: string;
  /** Why nothing can be taken now; null: nothing is in the way. */
  problem: string | null;
  /** When it was last looked at; null: not yet. */
  looked_at: string | null;
  /** Complete files that wait for a place. */
  waiting: number;
  /** Files that may still be written. */
  resting: number;
  /** Files that are not taken before their sidecar is there. */
  without_sidecar: number;
  without_sidecar_files: string[];
  /** Files that cannot be taken as they are. */
  unusable: number;
  unusable_files: { name: string; reason: string }[];
  /** There are more new files than are looked at in one look. */
  has_more: boolean;
};

/** The looks at one watched folder, and the files that wait to be taken from it. */
export type Watch = {
  settings(): FolderSettings;
  /** Begins a look when it is time. */
  tick(settings: FolderSettings): void;
  /** Hands over files, first those that were changed first, until the function returns false. */
  take(take: (file: ReadyFile, device: string) => Promise<boolean>): Promise<void>;
  status(): FolderStatus;
  stop(): Promise<void>;
};

export type WatchDeps = {
  config: Config;
  database: Database;
  clock: Clock;
  log: Log;
  stopping: AbortSignal;
  /** Says why nothing can be taken with these settings now. */
  problemOf: (settings: FolderSettings) => string | undefined;
};

/** The pause after a look is at least so many times its length, so that a large folder does not keep the disk busy. */
const PAUSE_TIMES = 4;
const NOTHING: Omit<LookReport, "isEmpty"> = {
  ...{ ready: [], resting: 0, unusable: { count: 0, first: [] }, hasMore: false },
  withoutSidecar: { count: 0, first: [] },
};

/** @param key of the folder, as `keyOf` returns it */
export function createWatch(deps: WatchDeps, key: string): Watch {
  const { config, database, clock, log } = deps;
  const look = createLooks();
  const ended = new AbortController();
  let current: FolderSettings | undefined;
  let nextAtMs = 0;
  let running: Promise<void> | undefined;
  let taking = false;
  let problem: string | undefined;
  let lookedAtMs: number | undefined;
  let report = NOTHING;
  /** The folder, when it last had files in it. */
  let usedDevice: string | undefined;
  let device = "";

  function setProblem(next: string | undefined): void {
    if (next === problem) return;
    if (next === undefined) log.info({ folder: current?.path }, "the watched folder can be used again");
    else log.error({ folder: current?.path, reason: next }, "nothing can be taken from a watched folder");
    problem = next;
  }

  async function lookOnce(settings: FolderSettings): Promise<void> {
    const startedMs = performance.now();
    const folder = resolve(settings.path);
    try {
      const found = await deviceOf(folder);
      const outputs = outputFolders(config);
      const next = await look({
        ...{ settings, folder, signal: AbortSignal.any([deps.stopping, ended.signal]) },
        isLeftOut: (path) => outputs.some((output) => isWithin(path, output)),
        isKnown: (file) =>
          isWatchedFileKnown(database.store, { folder, ...file }) || !isMine(folder, file.name),
      });
      if (next.isEmpty && usedDevice !== undefined && usedDevice !== found)
        throw new Error(`${folder} is empty and another folder than before: is its disk mounted?`);
      if (!next.isEmpty) usedDevice = found;
      device = found;
      report = next;
      lookedAtMs = clock.now();
      setProblem(deps.problemOf(settings));
    } catch (error) {
      if (deps.stopping.aborted || ended.signal.aborted) return;
      report = NOTHING;
      setProblem(plainMessage(error) || errorMessage(error));
    }
    const tookMs = performance.now() - startedMs;
    nextAtMs = performance.now() + Math.max(settings.poll_seconds * 1000, PAUSE_TIMES * tookMs);
  }

  /** Where several folders have one path, the first one takes the file whose pattern matches. */
  function isMine(folder: string, name: string): boolean {
    const first = settingsFor(config, folder, name);
    return first !== undefined && keyOf(first) === key;
  }

  const settings = () => {
    if (!current) throw new Error("the folder was not looked at yet");
    return current;
  };

  return {
    settings,
    tick(next) {
      const isChanged = current !== undefined && !Bun.deepEquals(current, next);
      current = next;
      if (running || (performance.now() < nextAtMs && !isChanged)) return;
      running = lookOnce(next).finally(() => {
        running = undefined;
      });
    },
    async take(take) {
      if (taking || problem !== undefined) return;
      taking = true;
      try {
        for (let file = report.ready[0]; file; file = report.ready[0]) {
          if (!(await take(file, device))) return;
          // A look may have put a new list in its place.
          if (report.ready[0] === file) report.ready.shift();
        }
      } catch (error) {
        log.error({ err: error, folder: current?.path }, "a file could not be taken");
      } finally {
        taking = false;
      }
    },
    status: () => ({
      path: settings().path,
      pattern: settings().pattern,
      project: settings().project,
      problem: problem ?? null,
      looked_at: lookedAtMs === undefined ? null : toTimestamp(lookedAtMs),
      waiting: report.ready.length,
      resting: report.resting,
      without_sidecar: report.withoutSidecar.count,
      without_sidecar_files: report.withoutSidecar.first,
      unusable: report.unusable.count,
      unusable_files: report.unusable.first,
      has_more: report.hasMore,
    }),
    async stop() {
      ended.abort(new Error("the folder is not watched any more"));
      await running;
    },
  };
}
