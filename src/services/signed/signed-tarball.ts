import { createHash } from "node:crypto";
import { Parser, type ReadEntry } from "tar";
import { feedTar, TarError, unpackedPiecesOf } from "./tar-pieces.ts";

/** What is in a tarball of a release. Names are below its one folder. */
export type TarballContents = {
  /** Contents of the files that `wanted` names. */
  kept: Map<string, Uint8Array>;
  /** SHA-256 of all other files, lower-case hex. */
  hashes: Map<string, string>;
};

/** More than any release has. */
const MAX_FILES = 10_000;
const MAX_BYTES = 8 * 1024 ** 3;

/** The small files of a tarball that decide about all others. */
type Wanted = {
  names: readonly string[];
  /** Largest size that each may have. */
  maxBytes: number;
  /** Called as soon as all of them are read; what it throws ends the reading, and nothing further is unpacked. */
  onKept: (kept: ReadonlyMap<string, Uint8Array>) => void;
};

/**
 * Reads a compressed tarball once. It keeps the contents of a few small files, and hashes of all others. Memory does not
 * grow with the unpacked files.
 *
 * @throws TarError for damage, links and devices, names that leave the folder, repeated names, or too much
 */
export async function readTarball(path: string, wanted: Wanted): Promise<TarballContents> {
  const found: TarballContents = { kept: new Map(), hashes: new Map() };
  const limits = { files: 0 };
  let problem: string | undefined;
  let left = wanted.names.length;
  const onReadEntry = (entry: ReadEntry) => {
    problem ??= problemWith(entry, found, limits);
    const name = nameOf(entry);
    if (problem !== undefined || name === undefined) return void entry.resume();
    if (wanted.names.includes(name) && entry.size <= wanted.maxBytes) keep(entry, name, found, () => left--);
    else hash(entry, name, found);
  };
  let isJudged = false;
  await feedTar(unpackedPiecesOf(path, MAX_BYTES), new Parser({ strict: true, onReadEntry }), () => {
    if (problem !== undefined) throw new TarError(problem);
    if (left > 0 || isJudged) return;
    isJudged = true;
    wanted.onKept(found.kept);
  });
  return found;
}

/** @returns the name below the top folder; undefined for a folder */
function nameOf({ path, type }: ReadEntry): string | undefined {
  return type === "Directory" ? undefined : path.split("/").slice(1).join("/");
}

function problemWith(
  entry: ReadEntry,
  { kept, hashes }: TarballContents,
  limits: { files: number },
): string | undefined {
  limits.files += 1;
  if (limits.files > MAX_FILES) return `it has more than ${MAX_FILES} files`;
  const name = nameOf(entry);
  if (name === undefined) return undefined;
  if (entry.type !== "File") return `${entry.path} is no regular file`;
  if (name === "" || entry.path.startsWith("/") || entry.path.split("/").includes("..")) {
    return `${entry.path} is outside the archive's folder`;
  }
  return kept.has(name) || hashes.has(name) ? `${entry.path} is in it twice` : undefined;
}

function keep(entry: ReadEntry, name: string, { kept }: TarballContents, onEnd: () => void): void {
  const pieces: Uint8Array[] = [];
  // Noted at once, so that a second file of the name is refused.
  kept.set(name, new Uint8Array());
  entry.on("data", (piece) => pieces.push(piece));
  entry.on("end", () => {
    kept.set(name, Buffer.concat(pieces));
    onEnd();
  });
}

function hash(entry: ReadEntry, name: string, { hashes }: TarballContents): void {
  const digest = createHash("sha256");
  hashes.set(name, "");
  entry.on("data", (piece) => digest.update(piece));
  entry.on("end", () => hashes.set(name, digest.digest("hex")));
}
