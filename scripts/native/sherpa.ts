import { copyFileSync, existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { run } from "./run.ts";

const MODULES = join(import.meta.dirname, "../../node_modules");
const PLATFORM_PACKAGE = join(MODULES, `sherpa-onnx-${process.platform}-${process.arch}`);

const LIBRARY_SUFFIX = process.platform === "darwin" ? "dylib" : "so";
const LIBRARIES = [`libonnxruntime.${LIBRARY_SUFFIX}`, `libsherpa-onnx-c-api.${LIBRARY_SUFFIX}`];

/**
 * The C++ run time, for hosts without one. It has names of our own, so that a host's newer library is preferred, and
 * this one is loaded only when that fails (src/engine/diarization/sherpa.ts).
 */
const RUNTIME_LIBRARIES = process.platform === "linux" ? ["libgcc_s.so.1", "libstdc++.so.6"] : [];

/**
 * Collects the files for diarization with installed weights: sherpa-onnx's addon with its libraries, and the C++ run time.
 *
 * @returns the folder that holds them, all flat
 */
export async function collectSherpa(): Promise<string> {
  if (!existsSync(join(PLATFORM_PACKAGE, "sherpa-onnx.node"))) {
    throw new Error(`sherpa-onnx has no package for ${process.platform}-${process.arch}`);
  }
  const runtime: { name: string; path: string }[] = [];
  for (const name of RUNTIME_LIBRARIES) runtime.push({ name, path: await runtimeLibrary(name) });
  const inputs: BuildInput[] = [
    { literal: "strip, run path" },
    { path: join(PLATFORM_PACKAGE, "sherpa-onnx.node") },
    ...LIBRARIES.map((name) => ({ path: join(PLATFORM_PACKAGE, name) })),
    ...runtime.map(({ path }) => ({ path })),
  ];
  return cachedBuild("sherpa", inputs, async (outDir) => {
    for (const name of LIBRARIES) {
      copyFileSync(join(PLATFORM_PACKAGE, name), join(outDir, name));
      if (process.platform === "linux") await run(["strip", "--strip-unneeded", join(outDir, name)]);
    }
    const addon = readFileSync(join(PLATFORM_PACKAGE, "sherpa-onnx.node"));
    writeFileSync(join(outDir, "sherpa-onnx.node"), withOwnFolderOnly(addon));
    for (const { name, path } of runtime) copyFileSync(path, join(outDir, `carried-${name}`));
  });
}

/** Returns the path of a library of the C++ run time, which the compiler reports. */
async function runtimeLibrary(name: string): Promise<string> {
  const path = (await run(["c++", `-print-file-name=${name}`])).trim();
  if (!path.startsWith("/")) throw new Error(`the C++ compiler does not know its ${name}`);
  return realpathSync(path);
}

/**
 * Ends the addon's run path after `$ORIGIN`, its own folder. The published addon also names a folder of the machine that
 * built it.
 */
export function withOwnFolderOnly(addon: Buffer): Buffer {
  const start = addon.indexOf("$ORIGIN:/");
  if (start === -1) return addon;
  const end = addon.indexOf(0, start);
  const cut = Buffer.from(addon);
  cut.fill(0, start + "$ORIGIN".length, end);
  return cut;
}
