import { createHash } from "node:crypto";
import { Parser, type ReadEntry } from "tar";
import { feedTar, TarError } from "./tar-pieces.ts";

/** Tar archives of one folder with regular files, some of which decide about all others: releases and bundles. */

/** What is in such an archive. Names are below its folder. */
export type FolderTar = {
  /** Contents of the files that the rules name. */
  kept: Map<string, Uint8Array>;
  /** SHA-256 of all other files, lower-case hex. */
  hashes: Map<string, string>;
  /** Size of all files together. */
  bytes: number;
};

/** What an archive must be like. */
export type FolderRules = {
  /** Name of the folder; left out: that of the first entry. */
  folder?: string;
  /** The small files that decide about all others. */
  kept: readonly string[];
  /** Largest size that each of them may have. */
  maxKeptBytes: number;
};

/** An entry that must not be in the archive. */
export class UnfitEntryError extends TarError {}

/** More than any release or bundle has. */
const MAX_ENTRIES = 10_000;

/**
 * Reads an archive once and writes nothing. Memory does not grow with its files.
 *
 * @param judge gets the kept files that have been read so far, after each piece until it returns true; what it throws ends the
 *   reading, and nothing further is read
 * @throws UnfitEntryError for links and devices, names that leave the folder, repeated names, or too much; TarError for
 *   damage; what `pieces` and `judge` throw
 */
export async function readFolderTar(
  pieces: AsyncIterable<Uint8Array>,
  rules: FolderRules,
  judge: (kept: ReadonlyMap<string, Uint8Array>) => boolean,
): Promise<FolderTar> {
  const found: FolderTar = { kept: new Map(), hashes: new Map(), bytes: 0 };
  const check = createEntryCheck(rules);
  let problem: string | undefined;
  const onReadEntry = (entry: ReadEntry) => {
    if (problem !== undefined) return void entry.resume();
    const checked = check(entry);
    if ("problem" in checked) problem = checked.problem;
    if (!("name" in checked)) return void entry.resume();
    const { name } = checked;
    found.bytes += entry.size;
    if (rules.kept.includes(name)) keep(entry, (bytes) => found.kept.set(name, bytes));
    else hash(entry, (sha256) => found.hashes.set(name, sha256));
  };
  let isJudged = false;
  await feedTar(pieces, new Parser({ strict: true, onReadEntry }), () => {
    if (problem !== undefined) throw new UnfitEntryError(problem);
    if (!isJudged) isJudged = judge(found.kept);
  });
  return found;
}

/** A file's name below the folder, a folder, or why the entry must not be there. */
type Checked = { name: string } | { isFolder: true } | { problem: string };

/** Makes the check of an archive's entries, which gets them in their order. */
export function createEntryCheck({ folder, kept, maxKeptBytes }: FolderRules): (entry: ReadEntry) => Checked {
  const names = new Set<string>();
  let top = folder;
  let entries = 0;
  return ({ path, type, size }) => {
    const shown = JSON.stringify(path.slice(0, 200));
    entries += 1;
    if (entries > MAX_ENTRIES) return { problem: `it has more than ${MAX_ENTRIES} files` };
    const parts = path.replace(/\/$/, "").split("/");
    top ??= parts[0] ?? "";
    if (parts[0] !== top || parts.some((part) => part === "" || part === "." || part === "..")) {
      return { problem: `${shown} is outside of the folder ${JSON.stringify(top.slice(0, 200))}` };
    }
    if (/[\p{Cc}\\]/u.test(path)) return { problem: `${shown} has an unusable name` };
    if (type === "Directory") return { isFolder: true };
    if (type !== "File") return { problem: `${shown} is not a regular file` };
    const name = parts.slice(1).join("/");
    if (name === "") return { problem: `${shown} is not a folder` };
    if (names.has(name)) return { problem: `${shown} is in it twice` };
    if (kept.includes(name) && size > maxKeptBytes) return { problem: `${shown} is too large` };
    names.add(name);
    return { name };
  };
}

function keep(entry: ReadEntry, onEnd: (bytes: Uint8Array) => void): void {
  const pieces: Uint8Array[] = [];
  entry.on("data", (piece) => void pieces.push(piece));
  entry.on("end", () => onEnd(Buffer.concat(pieces)));
}

function hash(entry: ReadEntry, onEnd: (sha256: string) => void): void {
  const digest = createHash("sha256");
  entry.on("data", (piece) => digest.update(piece));
  entry.on("end", () => onEnd(digest.digest("hex")));
}
