import { createHash } from "node:crypto";
import { list, type ReadEntry } from "tar";

/** What is in a tarball of a release. Names are below its one folder. */
export type TarballContents = {
  /** Contents of the files that `wanted` names. */
  kept: Map<string, Uint8Array>;
  /** SHA-256 of all other files, lower-case hex. */
  hashes: Map<string, string>;
};

/** A tarball that is damaged, or not made by a release. */
export class TarballError extends Error {}

/** More than any release has. */
const MAX_FILES = 10_000;
const MAX_BYTES = 8 * 1024 ** 3;

/**
 * Reads a compressed tarball once. It keeps the contents of a few small files, and hashes of all others.
 *
 * @param wanted names of the small files, and the largest size that they may have
 * @throws TarballError for damage, links and devices, names that leave the folder, repeated names, or too much
 */
export async function readTarball(
  path: string,
  wanted: { names: readonly string[]; maxBytes: number },
): Promise<TarballContents> {
  const found: TarballContents = { kept: new Map(), hashes: new Map() };
  const limits = { files: 0, bytes: 0 };
  let problem: string | undefined;
  const onReadEntry = (entry: ReadEntry) => {
    problem ??= problemWith(entry, found, limits);
    const name = nameOf(entry);
    if (problem !== undefined || name === undefined) return entry.resume();
    if (wanted.names.includes(name) && entry.size <= wanted.maxBytes) keep(entry, name, found);
    else hash(entry, name, found);
  };
  try {
    await list({ file: path, strict: true, onReadEntry });
  } catch (error) {
    throw new TarballError(`the archive is damaged: ${error instanceof Error ? error.message : error}`);
  }
  if (problem !== undefined) throw new TarballError(problem);
  return found;
}

/** @returns the name below the top folder; undefined for a folder */
function nameOf({ path, type }: ReadEntry): string | undefined {
  return type === "Directory" ? undefined : path.split("/").slice(1).join("/");
}

function problemWith(
  entry: ReadEntry,
  { kept, hashes }: TarballContents,
  limits: { files: number; bytes: number },
): string | undefined {
  limits.files += 1;
  limits.bytes += entry.size;
  if (limits.files > MAX_FILES) return `it has more than ${MAX_FILES} files`;
  if (limits.bytes > MAX_BYTES) return `it is larger than ${MAX_BYTES} bytes when unpacked`;
  const name = nameOf(entry);
  if (name === undefined) return undefined;
  if (entry.type !== "File") return `${entry.path} is no regular file`;
  if (name === "" || entry.path.startsWith("/") || entry.path.split("/").includes("..")) {
    return `${entry.path} is outside the archive's folder`;
  }
  return kept.has(name) || hashes.has(name) ? `${entry.path} is in it twice` : undefined;
}

function keep(entry: ReadEntry, name: string, { kept }: TarballContents): void {
  const pieces: Uint8Array[] = [];
  // Noted at once, so that a second file of the name is refused.
  kept.set(name, new Uint8Array());
  entry.on("data", (piece) => pieces.push(piece));
  entry.on("end", () => kept.set(name, Buffer.concat(pieces)));
}

function hash(entry: ReadEntry, name: string, { hashes }: TarballContents): void {
  const digest = createHash("sha256");
  hashes.set(name, "");
  entry.on("data", (piece) => digest.update(piece));
  entry.on("end", () => hashes.set(name, digest.digest("hex")));
}
