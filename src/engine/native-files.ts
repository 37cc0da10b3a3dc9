import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join, sep } from "node:path";
import { NATIVE_FILES, NATIVE_HASH } from "../../build/native/assets.ts";
import { giveToOwner, makeFolder } from "../lib/give-to-owner.ts";

/** Absolute paths of the carried programs, libraries and weights. */
export type NativeFiles = {
  /** The folder of all of them. */
  dir: string;
  /** Our decoder of recordings; run it with `runDecoder` (decoder-process.ts). */
  decoder: string;
  /** Our whisper.cpp addon. */
  smartWhisper: string;
  /** sherpa-onnx's addon; load it with `loadSherpa` (sherpa.ts). */
  sherpa: string;
  /** Our build of the Silero speech detector; load it with `openSilero` (silero.ts). */
  silero: string;
  sileroWeights: string;
};

/** One file that the executable carries. */
export type CarriedFile = { name: string; path: string; bytes: number; sha256: string; executable: boolean };

/** The carried files cannot be used; the message tells an admin which folder and which setting. */
export class NativeFilesError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "NativeFilesError";
  }
}

/** Rests of an extraction that was killed are removed after this time. */
const ABANDONED_AFTER_MS = 60 * 60 * 1000;

/**
 * Makes the carried native files available on disk.
 *
 * A compiled binary copies them once to `<dataDir>/native/<hash>`, where the hash is that of all contents; a later
 * start only looks at their sizes and modes, and a folder that is incomplete is replaced. A run from source uses
 * `build/native` as it is.
 *
 * @param dataDir the setting `storage.data_dir`
 * @throws NativeFilesError when the folder cannot be written, or its mount forbids execution
 */
export async function extractNativeFiles(dataDir: string): Promise<NativeFiles> {
  if (!Bun.isStandaloneExecutable) return locate(dirname(firstPath(NATIVE_FILES)));
  const dir = await extractInto(join(dataDir, "native"), NATIVE_HASH, NATIVE_FILES);
  return locate(dir);
}

/**
 * The part of `extractNativeFiles` below the data directory.
 *
 * @param root folder of all versions, created when it is missing
 * @param hash hex digest over all files; its first 12 digits name the folder
 * @returns the absolute path of the folder that now holds exactly sized copies of `files`
 */
export async function extractInto(root: string, hash: string, files: CarriedFile[]): Promise<string> {
  const dir = join(root, hash.slice(0, 12));
  try {
    if (!isComplete(dir, files)) {
      makeFolder(root, 0o700);
      await placeCopy(root, dir, files);
      removeUnused(root, dir);
    }
  } catch (error) {
    throw unwritable(root, error);
  }
  const absolute = realpathSync(dir);
  refuseNoexec(absolute);
  return absolute;
}

function locate(dir: string): NativeFiles {
  return {
    dir,
    decoder: join(dir, "decoder"),
    smartWhisper: join(dir, "smart-whisper.addon"),
    sherpa: join(dir, "sherpa-onnx.addon"),
    silero: join(dir, `silero.${process.platform === "darwin" ? "dylib" : "so"}`),
    sileroWeights: join(dir, "silero.weights"),
  };
}

function firstPath(files: CarriedFile[]): string {
  const first = files[0];
  if (first === undefined) throw new NativeFilesError("this build carries no native files");
  return first.path;
}

function isComplete(dir: string, files: CarriedFile[]): boolean {
  return files.every((file) => {
    const found = statSync(join(dir, file.name), { throwIfNoEntry: false });
    if (found === undefined || !found.isFile() || found.size !== file.bytes) return false;
    return !file.executable || (found.mode & 0o100) !== 0;
  });
}

/** Fills a folder beside the final one and renames it: nobody ever sees half of it. */
async function placeCopy(root: string, dir: string, files: CarriedFile[]): Promise<void> {
  const unfinished = join(root, `.${randomBytes(6).toString("hex")}.unfinished`);
  makeFolder(unfinished, 0o700);
  try {
    for (const file of files) {
      const path = join(unfinished, file.name);
      await copyOut(file, path);
      giveToOwner(path);
    }
    syncFolder(unfinished);
    moveIntoPlace(unfinished, dir, files);
    syncFolder(root);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

async function copyOut(file: CarriedFile, target: string): Promise<void> {
  const bytes = new Uint8Array(await Bun.file(file.path).arrayBuffer());
  if (createHash("sha256").update(bytes).digest("hex") !== file.sha256) {
    throw new NativeFilesError(
      `the executable is damaged: ${file.name} has another SHA-256 than when it was built`,
    );
  }
  const descriptor = openSync(target, "wx", file.executable ? 0o700 : 0o600);
  try {
    for (let offset = 0; offset < bytes.length; ) offset += writeSync(descriptor, bytes, offset);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Two processes may extract at once: whoever comes second finds a complete folder and keeps that one. */
function moveIntoPlace(unfinished: string, dir: string, files: CarriedFile[]): void {
  if (existsSync(dir) && !isComplete(dir, files)) {
    const damaged = `${unfinished}.damaged`;
    renameSync(dir, damaged);
    rmSync(damaged, { recursive: true, force: true });
  }
  try {
    renameSync(unfinished, dir);
  } catch (error) {
    if (!isComplete(dir, files)) throw error;
  }
}

function syncFolder(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function unwritable(root: string, error: unknown): NativeFilesError {
  if (error instanceof NativeFilesError) return error;
  const code = (error as NodeJS.ErrnoException).code ?? String(error);
  return new NativeFilesError(
    `cannot write Shruti's native files to ${root} (${code}): make it writable, or set storage.data_dir to another folder`,
    error,
  );
}

/** Programs and libraries on a noexec mount fail much later and with a puzzling message. Linux only. */
function refuseNoexec(dir: string): void {
  const mounts = readMounts();
  if (mounts !== undefined && isNoexec(mounts, dir)) {
    throw new NativeFilesError(
      `${dir} is on a mount with the option noexec, so Shruti's native files cannot run there: remount it with exec, or set storage.data_dir to another folder`,
    );
  }
}

function readMounts(): string | undefined {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return undefined;
  }
}

/**
 * @param mountinfo text of `/proc/self/mountinfo` (proc(5): field 5 mount point, field 6 options)
 * @param dir absolute path without symbolic links
 */
export function isNoexec(mountinfo: string, dir: string): boolean {
  let longest = -1;
  let noexec = false;
  for (const line of mountinfo.split("\n")) {
    const fields = line.split(" ");
    const point = fields[4]?.replace(/\\([0-7]{3})/g, (_, octal) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    const options = fields[5];
    if (point === undefined || options === undefined) continue;
    const covers = point === "/" || dir === point || dir.startsWith(`${point}/`);
    // Of several mounts on one point the last line is the visible one.
    if (!covers || point.length < longest) continue;
    longest = point.length;
    noexec = options.split(",").includes("noexec");
  }
  return noexec;
}

/** Removes the folders of other versions that no process has mapped, and old rests of killed extractions. */
function removeUnused(root: string, current: string): void {
  const mapped = mappedPaths();
  if (mapped === undefined) return;
  const realRoot = realpathSync(root);
  for (const name of readdirSync(root)) {
    const path = join(root, name);
    if (path === current) continue;
    const isVersion = /^[0-9a-f]{12}$/.test(name);
    if (isVersion && mapped.some((file) => file.startsWith(join(realRoot, name) + sep))) continue;
    if (!isVersion && !isAbandoned(name, path)) continue;
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // It stays until the next extraction; nothing depends on its removal.
    }
  }
}

function isAbandoned(name: string, path: string): boolean {
  if (!/^\.[0-9a-f]{12}\.unfinished(\.damaged)?$/.test(name)) return false;
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS;
}

/** Files that running processes execute or have mapped, as far as this user may see; undefined without /proc. */
function mappedPaths(): string[] | undefined {
  const paths = new Set<string>();
  try {
    for (const pid of readdirSync("/proc")) {
      if (/^\d+$/.test(pid)) addMappedPaths(pid, paths);
    }
  } catch {
    return undefined;
  }
  return [...paths];
}

function addMappedPaths(pid: string, paths: Set<string>): void {
  try {
    paths.add(readlinkSync(`/proc/${pid}/exe`));
    for (const line of readFileSync(`/proc/${pid}/maps`, "utf8").split("\n")) {
      const start = line.indexOf("/");
      if (start !== -1) paths.add(line.slice(start));
    }
  } catch {
    // The process has ended, or belongs to another user.
  }
}
