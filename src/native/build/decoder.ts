import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { cachedBuild } from "./cache.ts";
import { buildFfmpeg } from "./ffmpeg.ts";
import { run } from "./run.ts";
import { partName, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../decoder");
const FILES = [
  ...[
    "main",
    "source",
    "edits",
    "qcp",
    "view",
    "samples",
    "chunks",
    "ogg",
    "ends",
    "reading",
    "reader",
    "ending",
  ],
  ...["streams", "lanes", "amr", "clock", "tracks", "measure", "outline", "play", "amplify"],
];
const FLAGS = [
  ...["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-Wall", "-Wextra", "-Werror=implicit"],
  // So that loops over samples become vector code. No code reads `errno` of mathematical functions, or uses traps.
  ...["-fno-math-errno", "-fno-trapping-math"],
];
const LIBRARIES = ["-lavformat", "-lavcodec", "-lswresample", "-lavutil", "-lz", "-lm", "-pthread"];

/** What the recipe in a release repeats (scripts/release/ffmpeg-source.ts). */
export const DECODER = { sources: SOURCES, files: FILES, flags: FLAGS, libraries: LIBRARIES };

/**
 * Builds Shruti's decoder (`decoder/`): one static program that uses FFmpeg's libraries.
 *
 * @returns the folder that holds `decoder` and FFmpeg's licence text
 */
export async function buildDecoder(toolchain: Toolchain): Promise<string> {
  const ffmpeg = await buildFfmpeg(toolchain);
  const inputs = [
    { path: import.meta.path },
    { path: SOURCES },
    { literal: ffmpeg },
    { literal: toolchain.identity },
  ];
  return cachedBuild(partName(toolchain, "decoder"), inputs, async (outDir) => {
    const program = join(outDir, "decoder");
    const { staticCc, env, mapFlags } = toolchain;
    const sources = FILES.map((name) => join(SOURCES, `${name}.c`));
    const include = `-I${join(ffmpeg, "include")}`;
    const linking = [...linkFlags(toolchain), `-L${join(ffmpeg, "lib")}`, ...LIBRARIES];
    await run([staticCc, ...FLAGS, ...mapFlags, include, ...sources, "-o", program, ...linking], { env });
    if (toolchain.target === undefined) await run(["strip", program]);
    await refuseDynamic(program);
    copyFileSync(join(ffmpeg, "COPYING.LGPLv2.1"), join(outDir, "COPYING.LGPLv2.1"));
  });
}

/** Links libc and zlib statically. macOS has no static libc, so only the FFmpeg libraries are static there. */
function linkFlags({ platform, target }: Toolchain): string[] {
  if (platform !== "linux") return [];
  // A release has musl as its libc, whose threads have small stacks otherwise.
  return target === undefined ? ["-static"] : ["-static", "-Wl,-s", "-Wl,-z,stack-size=8388608"];
}

/** @throws Error for a dynamic program, which would not start on a host without its libraries */
async function refuseDynamic(path: string): Promise<void> {
  if (process.platform !== "linux" || !existsSync("/usr/bin/readelf")) return;
  const dynamic = await run(["readelf", "-d", path]);
  if (!dynamic.includes("no dynamic section")) throw new Error(`${path} is not static:\n${dynamic}`);
}
