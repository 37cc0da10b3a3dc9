import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** A file or folder that a package puts into place. All belong to root. */
export type PackageFile = {
  /** Absolute, on the machine where the package is installed. */
  path: string;
  /** Rights, without the bits of its kind. */
  mode: number;
  /** Bytes of a small file; the path of a file on this machine; undefined: a folder. */
  content: Uint8Array | string | undefined;
  /** An admin changes it: dpkg and rpm keep the changed file. */
  isConfig?: true;
  isDocument?: true;
};

/** Returns the length of a file in bytes; 0 for a folder. */
export function sizeOf({ content }: PackageFile): number {
  if (content === undefined) return 0;
  return typeof content === "string" ? statSync(content).size : content.length;
}

/** Reads a file piece by piece. Yields nothing for a folder. */
export async function* bytesOf({ content }: PackageFile): AsyncGenerator<Uint8Array> {
  if (typeof content === "string") yield* Bun.file(content).stream();
  else if (content !== undefined) yield content;
}

/** Returns a hash of a file as hexadecimal digits. */
export async function hashOf(file: PackageFile, algorithm: "md5" | "sha256"): Promise<string> {
  const hash = new Bun.CryptoHasher(algorithm);
  for await (const piece of bytesOf(file)) hash.update(piece);
  return hash.digest("hex");
}

/** Lists a folder of this machine with all that is in it, as documents for a place on another machine. */
export function filesOfFolder(
  folder: string,
  place: string,
  isLeftOut: (name: string) => boolean,
): PackageFile[] {
  const below = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => !isLeftOut(name));
  return below.map((name) => {
    const content = join(folder, name);
    const what = statSync(content).isDirectory()
      ? { mode: 0o755, content: undefined }
      : { mode: 0o644, content };
    return { path: join(place, name), isDocument: true, ...what };
  });
}

/** Puts files into the order of their paths, folders before what is in them. @throws Error when two have one path */
export function inOrder(files: readonly PackageFile[]): PackageFile[] {
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
  const twice = sorted.find(({ path }, at) => sorted[at + 1]?.path === path);
  if (twice !== undefined) throw new Error(`two files of a package have the path ${twice.path}`);
  return sorted;
}
