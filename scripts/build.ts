import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { buildAssets } from "./native/assets.ts";
import { run } from "./native/run.ts";
import { seal } from "./release/seal.ts";

const ROOT = join(import.meta.dirname, "..");
const OUTPUT = join(ROOT, "dist/shruti");

/**
 * Builds everything into one executable: the native parts (cached between builds), then the program with all of them
 * embedded.
 *
 * @param entry module that the program starts with
 * @param output path of the executable
 */
export async function buildExecutable(entry: string, output: string): Promise<void> {
  await buildAssets();
  mkdirSync(join(output, ".."), { recursive: true });
  const unfinished = `${output}.${process.pid}.unfinished`;
  try {
    const command = [process.execPath, "build", ...BUILD_FLAGS, `--outfile=${unfinished}`, entry, ...THREADS];
    await run(command, { cwd: ROOT });
    await seal(unfinished);
    renameSync(unfinished, output);
  } finally {
    rmSync(unfinished, { force: true });
    // The source maps are inside the executable.
    const maps = [
      unfinished,
      ...THREADS.map((thread) => join(output, "..", `${basename(thread, ".ts")}.js`)),
    ];
    for (const map of maps) rmSync(`${map}.map`, { force: true });
  }
}

/** Entry modules of threads. */
const THREADS = [join(ROOT, "src/store/file-hash-worker.ts")];

const BUILD_FLAGS = [
  "--compile",
  "--minify",
  "--bytecode",
  // Byte code needs the older module format, which has no top-level await.
  "--format=esm",
  "--sourcemap",
  // Modules in the older format otherwise contain the folder of the build, and no two builds are equal.
  ...["--define", '__dirname="/"', "--define", '__filename="/"'],
  // The executable must not read settings from the folder in which it is started.
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
];

if (import.meta.main) {
  const entry = join(ROOT, "src/main.ts");
  if (!existsSync(entry)) throw new Error(`${relative(ROOT, entry)} does not exist`);
  const startedMs = performance.now();
  await buildExecutable(entry, OUTPUT);
  const megabytes = (statSync(OUTPUT).size / 1e6).toFixed(0);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`${relative(process.cwd(), OUTPUT)}: ${megabytes} MB, built in ${seconds} s`);
}
