import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { nextTurn } from "../../lib/in-slices.ts";
import { reasonOf } from "../../lib/system-error.ts";
import { isMissing, isThere } from "./places.ts";
import { takesName } from "./rules.ts";
import { type FoundBeside, findBeside, hasBeside } from "./sidecar.ts";
import { factsOf, isReadableFile } from "./source.ts";
import { FileFailure } from "./step.ts";

/** A file that is complete and was not taken yet. */
export type ReadyFile = { name: string; bytes: number; changedUs: number };

/** What one look at a folder has found. */
export type LookReport = {
  /** Complete files, those that were changed first come first. */
  ready: ReadyFile[];
  /** Files that may still be written. */
  resting: number;
  /** Files that are not taken before their sidecar is there, the first ones with their names. */
  withoutSidecar: { count: number; first: string[] };
  /** Files that cannot be taken as they are, the first ones with their reasons. */
  unusable: { count: number; first: { name: string; reason: string }[] };
  /** Whether the folder has anything in it. */
  isEmpty: boolean;
  /** There are more files than are looked at in one look. */
  hasMore: boolean;
};

export type LookDeps = {
  settings: FolderSettings;
  /** Absolute path of the folder. */
  folder: string;
  /** Reports whether nothing of a folder is taken. */
  isLeftOut: (path: string) => boolean;
  /** Reports whether a file was taken before, or another watched folder takes it. */
  isKnown: (file: ReadyFile) => boolean;
  signal: AbortSignal;
};

const MOST_DEPTH = 32;
/** New files that are kept in mind. Others wait in the folder until these were taken. */
export const MOST_FILES = 20_000;
const MOST_NAMED = 20;
const FILES_OF_TURN = 50;
/** A recorder may make an empty file at the begin of a call and write it at the end. */
export const EMPTY_REST_MS = 10 * 60_000;

type Rest = { bytes: number; changedUs: number; sinceMs: number; look: number };

/**
 * Makes the function that looks at one watched folder. It remembers since when each new file has not changed, by this
 * process's own clock: the times of files come from another machine.
 *
 * @param nowMs a clock that only goes forward, milliseconds
 */
export function createLooks(nowMs: () => number = () => performance.now()) {
  const rests = new Map<string, Rest>();
  let looks = 0;

  function restedMs(name: string, facts: { bytes: number; changedUs: number }): number {
    const before = rests.get(name);
    const isSame = before && before.bytes === facts.bytes && before.changedUs === facts.changedUs;
    const sinceMs = isSame ? before.sinceMs : nowMs();
    rests.set(name, { bytes: facts.bytes, changedUs: facts.changedUs, sinceMs, look: looks });
    return nowMs() - sinceMs;
  }

  async function completeness(
    folder: string,
    file: ReadyFile,
    settings: FolderSettings,
  ): Promise<"complete" | "resting" | "without sidecar"> {
    const path = join(folder, file.name);
    if (settings.complete === "marker" && !(await isThere(`${path}.done`))) return "resting";
    const beside = hasBeside(settings) ? await besideOf(folder, file.name, settings) : undefined;
    if (beside === "unfinished") return "resting";
    if (beside === undefined && hasBeside(settings) && settings.sidecar_required) return "without sidecar";
    const sidecar = beside && "sidecar" in beside ? beside.sidecar : undefined;
    if (settings.complete === "marker") return "complete";
    const rested = restedMs(file.name, file);
    if (file.bytes === 0) return rested >= EMPTY_REST_MS ? "complete" : "resting";
    if (settings.complete === "rename") return "complete";
    const least = Math.min(rested, sidecar === undefined ? rested : await sidecarRestedMs(folder, sidecar));
    return least >= settings.rest_seconds * 1000 ? "complete" : "resting";
  }

  /** A line that cannot be read counts as there: the failure comes when the recording is taken. */
  async function besideOf(folder: string, name: string, settings: FolderSettings): Promise<FoundBeside> {
    try {
      return await findBeside(folder, name, settings);
    } catch (error) {
      if (error instanceof FileFailure) return { values: [] };
      throw error;
    }
  }

  /** Anything but a regular file counts as complete: the failure comes when it is read. */
  async function sidecarRestedMs(folder: string, sidecar: string): Promise<number> {
    const facts = await factsOf(join(folder, sidecar));
    return facts ? restedMs(sidecar, facts) : Number.POSITIVE_INFINITY;
  }

  /** Looks once. @throws the system's error when the folder itself cannot be read */
  return async function look(deps: LookDeps): Promise<LookReport> {
    looks += 1;
    const report: LookReport = {
      ...{ ready: [], resting: 0, unusable: { count: 0, first: [] }, isEmpty: true, hasMore: false },
      withoutSidecar: { count: 0, first: [] },
    };
    const refuse = (name: string, reason: string) => {
      report.unusable.count += 1;
      if (report.unusable.first.length < MOST_NAMED) report.unusable.first.push({ name, reason });
    };
    let seen = 0;
    for await (const { name, path, problem } of namesBelow(deps, report)) {
      deps.signal.throwIfAborted();
      seen += 1;
      if (seen % FILES_OF_TURN === 0) await nextTurn();
      if (problem !== undefined) {
        refuse(name, problem);
        continue;
      }
      if (!takesName(deps.settings, name)) continue;
      if (report.ready.length + report.resting >= MOST_FILES) {
        report.hasMore = true;
        continue;
      }
      try {
        const facts = await factsOf(path);
        if (!facts) continue;
        const file = { name, bytes: facts.bytes, changedUs: facts.changedUs };
        if (deps.isKnown(file)) continue;
        const state = await completeness(deps.folder, file, deps.settings);
        if (state === "resting") report.resting += 1;
        else if (state === "without sidecar") noteWithoutSidecar(report, name);
        else if (await isReadableFile(path)) report.ready.push(file);
        else refuse(name, "this server may not read it");
      } catch (error) {
        // It was renamed or removed meanwhile. A name that is not UTF-8 cannot be given back to the system.
        if (!isMissing(error)) refuse(name, reasonOf(error));
        else if (name.includes("\uFFFD")) refuse(name, "its name is not valid UTF-8: rename it");
      }
    }
    for (const [name, rest] of rests) if (rest.look !== looks) rests.delete(name);
    report.ready.sort((a, b) => a.changedUs - b.changedUs);
    return report;
  };
}

function noteWithoutSidecar({ withoutSidecar }: LookReport, name: string): void {
  withoutSidecar.count += 1;
  if (withoutSidecar.first.length < MOST_NAMED) withoutSidecar.first.push(name);
}

type Named = { name: string; path: string; problem?: string };

/** Lists regular files below a folder. Links, pipes, devices and hidden folders are left out. */
async function* namesBelow(
  { folder, settings, isLeftOut }: LookDeps,
  report: Pick<LookReport, "isEmpty">,
): AsyncGenerator<Named> {
  const pending: { below: string; depth: number }[] = [{ below: "", depth: 0 }];
  for (let at = pending.shift(); at !== undefined; at = pending.shift()) {
    const { below, depth } = at;
    try {
      for await (const entry of await opendir(join(folder, below))) {
        if (below === "") report.isEmpty = false;
        const name = join(below, entry.name);
        const path = join(folder, name);
        if (mayBeFile(entry)) yield { name, path };
        if (!entry.isDirectory() || !settings.subfolders || entry.name.startsWith(".")) continue;
        if (depth < MOST_DEPTH && !isLeftOut(path)) pending.push({ below: name, depth: depth + 1 });
      }
    } catch (error) {
      if (below === "") throw error;
      // A folder that was removed meanwhile has no files.
      if (!isMissing(error)) yield { name: below, path: join(folder, below), problem: reasonOf(error) };
    }
  }
}

/** Some file systems do not say in a listing what an entry is. */
function mayBeFile(entry: Dirent): boolean {
  if (entry.isFile()) return true;
  const isOther =
    entry.isDirectory() ||
    entry.isSymbolicLink() ||
    entry.isFIFO() ||
    entry.isSocket() ||
    entry.isBlockDevice() ||
    entry.isCharacterDevice();
  return !isOther;
}
