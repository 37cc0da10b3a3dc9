import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { cachedBuild } from "./cache.ts";
import { buildFfmpeg } from "./ffmpeg.ts";
import { run } from "./run.ts";

const SOURCES = join(import.meta.dirname, "decoder");
const FILES = ["main", "source", "reader", "clock", "tracks", "measure", "amplify"];
const FLAGS = [
  ...["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-Wall", "-Wextra", "-Werror=implicit"],
  // So that loops over samples become vector code. No code reads `errno` of mathematical functions, or uses traps.
  ...["-fno-math-errno", "-fno-trapping-math"],
];
const LIBRARIES = ["-lavformat", "-lavcodec", "-lswresample", "-lavutil", "-lz", "-lm", "-pthread"];
/** Links glibc and zlib statically. macOS has no static libc, so only the FFmpeg libraries are static there. */
const STATIC = process.platform === "linux" ? ["-static"] : [];

/**
 * Builds Shruti's decoder (`decoder/`): one static program that uses FFmpeg's libraries.
 *
 * @returns the folder that holds `decoder` and FFmpeg's licence text
 */
export async function buildDecoder(): Promise<string> {
  const ffmpeg = await buildFfmpeg();
  const inputs = [{ path: import.meta.path }, { path: SOURCES }, { literal: ffmpeg }];
  return cachedBuild("decoder", inputs, async (outDir) => {
    const program = join(outDir, "decoder");
    const sources = FILES.map((name) => join(SOURCES, `${name}.c`));
    const libraries = [`-L${join(ffmpeg, "lib")}`, ...LIBRARIES];
    await run([
      "cc",
      ...FLAGS,
      `-I${join(ffmpeg, "include")}`,
      ...sources,
      "-o",
      program,
      ...STATIC,
      ...libraries,
    ]);
    await run(["strip", program]);
    await refuseDynamic(program);
    copyFileSync(join(ffmpeg, "COPYING.LGPLv2.1"), join(outDir, "COPYING.LGPLv2.1"));
  });
}

/** @throws Error for a dynamic program, which would not start on a host without its libraries */
async function refuseDynamic(path: string): Promise<void> {
  if (process.platform !== "linux" || !existsSync("/usr/bin/readelf")) return;
  const dynamic = await run(["readelf", "-d", path]);
  if (!dynamic.includes("no dynamic section")) throw new Error(`${path} is not static:\n${dynamic}`);
}
