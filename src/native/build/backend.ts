import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "./cache.ts";
import { run } from "./run.ts";
import { partName, type Target, type Toolchain } from "./toolchain.ts";
import { backendSourceInputs } from "./whisper.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SCRIPT = join(ROOT, "scripts/build-backend.sh");

/** GPU backends that can be built with the compilers of a release. CUDA needs its own. */
export const BACKENDS = ["vulkan"] as const;
export type Backend = (typeof BACKENDS)[number];

/** Headers that `build-backend.sh` looks for in these folders, in this order. */
const HEADERS = ["vulkan/vulkan_core.h", "spirv/unified1/spirv.hpp"];
const headerFolders = () =>
  [process.env.VULKAN_SDK && join(process.env.VULKAN_SDK, "include"), "/usr/include"].filter(
    (folder): folder is string => !!folder,
  );

/** Returns the paths of the headers that a backend is compiled with. */
function headers(): string[] {
  return HEADERS.flatMap((name) => {
    const folder = headerFolders().find((each) => existsSync(join(each, name)));
    return folder === undefined ? [] : [join(folder, name)];
  });
}

/** Returns the version of the Vulkan headers, such as `1.4.309`; undefined where there are none. */
export function vulkanHeadersVersion(): string | undefined {
  const [path] = headers();
  if (path === undefined) return undefined;
  const text = readFileSync(path, "utf8");
  const patch = /^#define VK_HEADER_VERSION (\d+)$/m.exec(text)?.[1];
  const minor = /^#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(0, (\d+), (\d+),/m.exec(text);
  return minor === null ? patch : `${minor[1]}.${minor[2]}.${patch}`;
}

/**
 * Builds a GPU backend of a release with `scripts/build-backend.sh`.
 *
 * @returns a folder with `libggml-<backend>.so` alone
 * @throws Error that names what the machine lacks, such as headers
 */
export async function buildBackend(toolchain: Toolchain, target: Target, backend: Backend): Promise<string> {
  const shaderCompiler = Bun.which("glslc") === null ? "" : await run(["glslc", "--version"]);
  const inputs: BuildInput[] = [
    { literal: [toolchain.identity, shaderCompiler].join("\n") },
    { path: SCRIPT },
    ...backendSourceInputs(backend),
    ...headers().map((path) => ({ path })),
  ];
  return cachedBuild(partName(toolchain, `backend-${backend}`), inputs, async (outDir) => {
    await run(["nice", SCRIPT, "--target", target, backend, outDir]);
  });
}
