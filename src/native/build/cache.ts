import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type ProcessLock, takeProcessLock } from "../../store/process-lock.ts";

/** Returns the folder for native builds of all clones: `$XDG_CACHE_HOME/shruti`, or else `~/.cache/shruti`. */
export function cacheRoot(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "shruti");
}

/**
 * An input of a build: a literal, such as flags and versions, or the contents of a file or folder. What no compiler reads
 * does not count in a folder: TypeScript, which loads the result, and documents.
 */
export type BuildInput = { literal: string } | { path: string };

/** Returns the folder of a build that is in the cache; undefined: there is none with these inputs. */
export function finishedBuild(name: string, inputs: BuildInput[]): string | undefined {
  const folder = join(buildsFolder(), keyOf(name, inputs));
  return existsSync(folder) ? folder : undefined;
}

const buildsFolder = (): string => join(cacheRoot(), "native");
const keyOf = (name: string, inputs: BuildInput[]): string => `${name}-${hashInputs(inputs)}`;

/**
 * Returns the folder of a finished native build, building it when no build with the same inputs is cached.
 *
 * @param name short name, first part of the cache folder
 * @param inputs everything that the result depends on; the folder's name contains their SHA-256
 * @param build fills the empty folder that it receives; if it throws, nothing is cached
 */
export async function cachedBuild(
  name: string,
  inputs: BuildInput[],
  build: (outDir: string) => Promise<void>,
): Promise<string> {
  const key = keyOf(name, inputs);
  const finished = join(buildsFolder(), key);
  if (existsSync(finished)) return finished;
  mkdirSync(buildsFolder(), { recursive: true });
  const lock = await waitForLock(join(buildsFolder(), `.${name}.lock`));
  try {
    // Another process may have built the same while it held the lock.
    if (!existsSync(finished)) await buildInto(key, finished, build);
  } finally {
    lock.release();
  }
  return finished;
}

/** Waits for another process that builds the same. Two builds at once would take more than twice as long. */
export async function waitForLock(path: string): Promise<ProcessLock> {
  while (true) {
    const lock = takeProcessLock(path);
    if (lock) return lock;
    await Bun.sleep(500);
  }
}

async function buildInto(
  key: string,
  finished: string,
  build: (outDir: string) => Promise<void>,
): Promise<void> {
  const unfinished = join(buildsFolder(), `.${key}.${process.pid}`);
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  // Some builds take minutes, and without a word they look like a program that hangs.
  console.error(`building ${key}; the result is kept in ${cacheRoot()}`);
  const startedAt = performance.now();
  try {
    await build(unfinished);
    moveIntoPlace(unfinished, finished);
    console.error(`built ${key} in ${Math.round((performance.now() - startedAt) / 1000)} s`);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Renames a build. If another process has finished the same one meanwhile, that one is kept. */
function moveIntoPlace(unfinished: string, finished: string): void {
  try {
    renameSync(unfinished, finished);
  } catch (error) {
    if (!existsSync(finished)) throw error;
  }
}

function hashInputs(inputs: BuildInput[]): string {
  const hash = createHash("sha256");
  hash.update(`${process.platform} ${process.arch}\n`);
  for (const input of inputs) {
    if ("literal" in input) hash.update(`literal ${input.literal.length} ${input.literal}\n`);
    else hashPath(hash, input.path, "");
  }
  return hash.digest("hex").slice(0, 16);
}

function hashPath(hash: ReturnType<typeof createHash>, path: string, name: string): void {
  if (statSync(path).isDirectory()) {
    const entries = readdirSync(path).filter((entry) => !/\.(?:ts|md)$/.test(entry));
    for (const entry of entries.sort()) hashPath(hash, join(path, entry), `${name}/${entry}`);
    return;
  }
  const bytes = readFileSync(path);
  hash.update(`file ${name} ${bytes.length}\n`);
  hash.update(bytes);
}
