import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { sha256Hex } from "../../lib/sha256.ts";

/** Content codings of the files; the order is that of preference. */
const CODINGS = ["br", "gzip", "identity"] as const;
type Coding = (typeof CODINGS)[number];

/** A file of the console, as the build lists it: where its bytes are in each coding. */
type ListedFile = { name: string; type: string; codings: { [C in Coding]?: string } };

/** A file as it is sent. */
type Representation = { type: string; coding: Coding; bytes: Uint8Array<ArrayBuffer>; tag: string };

/** The built files of `src/console`. */
export type ConsoleFiles = {
  /**
   * Returns a file in the best coding that a client accepts.
   *
   * @param acceptEncoding the request's field; null: none was sent
   * @returns undefined when there is no such file
   */
  find(name: string, acceptEncoding: string | null): Promise<Representation | undefined>;
};

/**
 * Gives access to the files. An executable contains them. A program that runs from source builds them when they are asked
 * for the first time, and uses that build until it ends.
 */
export function openConsoleFiles(): ConsoleFiles {
  let listed: Promise<Map<string, ListedFile>> | undefined;
  const read = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();

  /** Files stay in memory in the codings that were asked for: together they are about as large as one photograph. */
  const bytesOf = (path: string, isCompressed: boolean) => {
    const key = `${path} ${isCompressed}`;
    const bytes = read.get(key) ?? readBytes(path, isCompressed);
    read.set(key, bytes);
    return bytes;
  };

  return {
    async find(name, acceptEncoding) {
      listed ??= listFiles();
      listed.catch(() => {
        listed = undefined;
      });
      const file = (await listed).get(name);
      if (file === undefined) return undefined;
      const { codings, type } = file;
      const coding = CODINGS.find((one) => codings[one] !== undefined && accepts(acceptEncoding, one));
      const path = codings[coding ?? "gzip"] ?? "";
      const bytes = await bytesOf(path, coding === undefined);
      return { type, coding: coding ?? "identity", bytes, tag: `"${sha256Hex(bytes).slice(0, 32)}"` };
    },
  };
}

/** Reports whether `Accept-Encoding` names a coding without forbidding it by `q=0`. */
function accepts(field: string | null, coding: Coding): boolean {
  if (coding === "identity") return true;
  return (field ?? "")
    .toLowerCase()
    .split(",")
    .map((part) => part.trim().split(/\s*;\s*/))
    .some(([name, quality]) => name === coding && !/^q=0(\.0*)?$/.test(quality ?? ""));
}

async function readBytes(path: string, isUnpacked: boolean): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await Bun.file(path).bytes();
  return isUnpacked ? new Uint8Array(await promisify(gunzip)(bytes)) : bytes;
}

async function listFiles(): Promise<Map<string, ListedFile>> {
  const files = Bun.isStandaloneExecutable
    ? (await import("#console-files")).CONSOLE_FILES
    : await buildFromSource();
  return new Map(files.map((file) => [file.name, file]));
}

/** Builds the console in a process of its own, because a bundler has no place in a server. */
async function buildFromSource(): Promise<ListedFile[]> {
  const script = join(import.meta.dir, "../../../scripts/console.ts");
  const child = Bun.spawn([process.execPath, script], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0) throw new Error(`the console could not be built: ${err}`);
  const folder = out.trim();
  const { files } = (await Bun.file(join(folder, "files.json")).json()) as { files: ListedFile[] };
  return files.map((file) => {
    const codings = Object.entries(file.codings).map(([coding, name]) => [coding, join(folder, name)]);
    return { ...file, codings: Object.fromEntries(codings) };
  });
}
