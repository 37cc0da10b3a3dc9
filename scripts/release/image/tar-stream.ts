import { createReadStream } from "node:fs";
import { Header } from "tar";

/**
 * Something in a tar archive. Owners are numbers, because a layer must say to whom a folder belongs and nothing else may
 * depend on the machine that makes it.
 */
export type TarEntry = {
  /** Without a slash at its begin. */
  path: string;
  mode: number;
  /** Both user and group; left out: root. */
  owner?: number;
} & (
  | { content: string | Uint8Array }
  | { file: string; bytes: number }
  | { link: string }
  | { isFolder: true }
);

const BLOCK = 512;

/**
 * Puts entries in order, and adds the folders above them that are not among them: root's, for everybody.
 *
 * @param entries in any order
 */
export function withFolders(entries: readonly TarEntry[]): TarEntry[] {
  const all = new Map(entries.map((entry) => [entry.path, entry]));
  for (const { path } of entries) {
    const names = path.split("/").slice(0, -1);
    for (const [index] of names.entries()) {
      const folder = names.slice(0, index + 1).join("/");
      if (!all.has(folder)) all.set(folder, { path: folder, mode: 0o755, isFolder: true });
    }
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Streams a tar archive. Equal entries give equal bytes.
 *
 * @param entries in the order in which they are written: folders before what is in them
 * @param time of all entries
 */
export async function* tarStream(entries: readonly TarEntry[], time: Date): AsyncGenerator<Uint8Array> {
  for (const entry of entries) {
    const bytes = sizeOf(entry);
    yield headerOf(entry, bytes, time);
    let written = 0;
    for await (const piece of contentOf(entry)) {
      written += piece.length;
      yield piece;
    }
    if (written !== bytes) throw new Error(`${entry.path} has changed while it was packed`);
    const rest = bytes % BLOCK;
    if (rest > 0) yield new Uint8Array(BLOCK - rest);
  }
  yield new Uint8Array(2 * BLOCK);
}

function headerOf(entry: TarEntry, size: number, mtime: Date): Uint8Array {
  const owner = entry.owner ?? 0;
  const isFolder = "isFolder" in entry;
  const header = new Header({
    path: isFolder ? `${entry.path}/` : entry.path,
    mode: entry.mode,
    uid: owner,
    gid: owner,
    size,
    mtime,
    type: isFolder ? "Directory" : "link" in entry ? "SymbolicLink" : "File",
    ...("link" in entry ? { linkpath: entry.link } : {}),
  });
  const block = Buffer.alloc(BLOCK);
  // It returns whether something did not fit into the block, and would need one of POSIX's extensions.
  if (header.encode(block)) throw new Error(`${entry.path} is too long for a tar archive`);
  return block;
}

function sizeOf(entry: TarEntry): number {
  if ("bytes" in entry) return entry.bytes;
  return "content" in entry ? Buffer.byteLength(entry.content) : 0;
}

async function* contentOf(entry: TarEntry): AsyncGenerator<Uint8Array> {
  if ("file" in entry) yield* createReadStream(entry.file);
  else if ("content" in entry) yield Buffer.from(entry.content);
}
