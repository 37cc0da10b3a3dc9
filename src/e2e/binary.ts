import { copyFileSync, existsSync, linkSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");
const BINARY = join(ROOT, "dist/shruti");
/** What goes into the executable. */
const INPUTS = ["src", "models", "patches", "package.json"];

let built: Promise<string> | undefined;

/**
 * The path of the executable made from the sources as they are now; built when it is missing or older than they are,
 * at most once for each run of the tests. `SHRUTI_BINARY` names another one to test, as that of a release.
 */
export function upToDateBinary(): Promise<string> {
  built ??= (async () => {
    if (process.env.SHRUTI_BINARY) return resolve(process.env.SHRUTI_BINARY);
    if (!isUpToDate()) await build();
    return BINARY;
  })();
  return built;
}

/** Puts the executable at a path, so that a build by somebody else cannot replace it under a running test. */
export async function placeBinary(path: string): Promise<void> {
  const binary = await upToDateBinary();
  try {
    linkSync(binary, path);
  } catch {
    // Another file system.
    copyFileSync(binary, path);
  }
}

function isUpToDate(): boolean {
  if (!existsSync(BINARY)) return false;
  const builtAt = statSync(BINARY).mtimeMs;
  return INPUTS.flatMap((input) => filesOf(join(ROOT, input))).every(
    (path) => statSync(path).mtimeMs <= builtAt,
  );
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

async function build(): Promise<void> {
  const child = Bun.spawn([process.execPath, join(ROOT, "scripts/build.ts")], {
    cwd: ROOT,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (child.exitCode !== 0) throw new Error(`the build failed:\n${out}${err}`);
}
