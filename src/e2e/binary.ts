import { copyFileSync, existsSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { waitForLock } from "../native/build/cache.ts";
import { type ElfFile, elfFilesIn } from "../native/build/glibc.ts";
import type { Target } from "../native/build/toolchain.ts";

const ROOT = resolve(import.meta.dir, "../..");
const BINARY = join(ROOT, "dist/shruti");
/** Files that the executable is built from. */
const INPUTS = ["src", "models", "patches", "package.json"];

let built: Promise<string> | undefined;

/**
 * Returns the path of the executable of the present sources. Builds it when it is missing or older than the sources,
 * at most once for each run of the tests. `SHRUTI_BINARY` names another executable to test, such as that of a release.
 */
export function upToDateBinary(): Promise<string> {
  built ??= (async () => {
    if (process.env.SHRUTI_BINARY) return resolve(process.env.SHRUTI_BINARY);
    if (!isUpToDate(BINARY, INPUTS)) await build();
    return BINARY;
  })();
  return built;
}

/** Links or copies the executable to a path, so that another build cannot replace it during a test. */
export async function placeBinary(path: string): Promise<void> {
  const binary = await upToDateBinary();
  try {
    linkSync(binary, path);
  } catch {
    // The path is on another file system, so a link is not possible.
    copyFileSync(binary, path);
  }
}

function isUpToDate(binary: string, inputs: readonly string[]): boolean {
  if (!existsSync(binary)) return false;
  const builtAt = statSync(binary).mtimeMs;
  return inputs
    .flatMap((input) => filesOf(join(ROOT, input)))
    .every((path) => statSync(path).mtimeMs <= builtAt);
}

function filesOf(path: string): string[] {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !isTestTool(entry.parentPath, entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

function isTestTool(folder: string, name: string): boolean {
  return name.endsWith(".test.ts") || /\/src\/(e2e|testing)(\/|$)/.test(folder);
}

/** A guard for the build of all native parts of a release without a cache, on a slow machine beside other tests. */
export const RELEASE_BUILD_LIMIT_MS = 4_800_000;

const releases = new Map<Target, Promise<string>>();

/**
 * Returns the path of a release's executable. Builds it when it is missing or older than the sources and the scripts that
 * build it. Files of tests that run side by side share one build.
 */
export function releaseBinary(target: Target): Promise<string> {
  const begun = releases.get(target) ?? buildRelease(target);
  releases.set(target, begun);
  return begun;
}

async function buildRelease(target: Target): Promise<string> {
  const output = join(ROOT, `dist/shruti-${target}`);
  mkdirSync(dirname(output), { recursive: true });
  const lock = await waitForLock(`${output}.lock`);
  try {
    // Another file of tests may have built it meanwhile.
    if (!isUpToDate(output, [...INPUTS, "scripts"])) await build("--target", target, "--output", output);
  } finally {
    lock.release();
  }
  return output;
}

async function build(...args: string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, join(ROOT, "scripts/build.ts"), ...args], {
    cwd: ROOT,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (child.exitCode !== 0) throw new Error(`the build failed:\n${out}${err}`);
}

/**
 * Finds the programs and libraries of a release: the executable itself, and those that it carries in compressed form.
 *
 * @param parts folder of the native parts that it was built from
 * @returns `names` of the carried ones
 * @throws Error for a part that is not inside the executable
 */
export function elfFilesOf(executable: string, parts: string): { names: string[]; files: ElfFile[] } {
  const whole = readFileSync(executable);
  const names = readdirSync(parts).filter((name) => elfFilesIn(readFileSync(join(parts, name))).length > 0);
  const files = names.flatMap((name) => {
    const packed = readFileSync(join(parts, `${name}.zst`));
    if (!whole.includes(packed)) throw new Error(`${name} is not inside ${executable}`);
    return elfFilesIn(Bun.zstdDecompressSync(packed));
  });
  return { names, files: [...elfFilesIn(whole), ...files] };
}
