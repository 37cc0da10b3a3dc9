import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { elfSections } from "./glibc.ts";
import { run } from "./run.ts";
import { processorOf, type Target, type Toolchain } from "./toolchain.ts";

const SOURCES = join(import.meta.dirname, "../cpp-runtime");
const CARRIED_RUNTIME = ["libgcc_s.so.1", "libstdc++.so.6"] as const;

/** Files that a carried C++ run time is made of, and what makes it. */
export type Runtime = { files: string[]; carry: (outDir: string) => Promise<void> };

/**
 * Finds the C++ run time, for hosts without one. It has names of our own, so that a host's newer library is preferred,
 * and this one is loaded only when that fails (src/native/carried-runtime.ts).
 */
export async function findRuntime(toolchain: Toolchain): Promise<Runtime> {
  if (toolchain.target !== undefined) return linkedRuntime(toolchain, toolchain.target);
  if (toolchain.platform !== "linux") return { files: [], carry: async () => {} };
  const libraries = await Promise.all(
    CARRIED_RUNTIME.map(async (name) => ({ name, path: await runtimeLibrary(toolchain, name) })),
  );
  return {
    files: libraries.map(({ path }) => path),
    async carry(outDir) {
      for (const { name, path } of libraries) copyFileSync(path, join(outDir, `carried-${name}`));
    },
  };
}

/** Returns the path of a library of the C++ run time, which the compiler reports. */
async function runtimeLibrary({ cxx }: Toolchain, name: string): Promise<string> {
  const path = (await run([cxx, `-print-file-name=${name}`])).trim();
  if (!path.startsWith("/")) throw new Error(`the C++ compiler does not know its ${name}`);
  return realpathSync(path);
}

/** The last version of GCC whose archives take nothing from glibc that `cpp-runtime/older-glibc.c` cannot replace. */
const RUNTIME_GCC = "11";
/** Where Debian's packages put these archives, and the packages. */
const RUNTIME_ARCHIVES = {
  "linux-x64": { folder: "/usr/lib/gcc/x86_64-linux-gnu", suffix: "" },
  "linux-arm64": { folder: "/usr/lib/gcc-cross/aarch64-linux-gnu", suffix: "-arm64-cross" },
} as const;

/**
 * Finds GCC's archives, from which the C++ run time of a release is linked.
 *
 * @throws Error where one is missing; it names the packages of Debian that have them
 */
export function runtimeArchives(target: Target): string[] {
  const { folder, suffix } = RUNTIME_ARCHIVES[target];
  return ["libstdc++_pic.a", "libstdc++_pic.map", "libgcc_eh.a", "libgcc.a"].map((name) => {
    const path = join(folder, RUNTIME_GCC, name);
    if (existsSync(path)) return path;
    const packages = ["libstdc++", "libgcc"].map(
      (library, i) => `${library}-${RUNTIME_GCC}-${i ? "dev" : "pic"}${suffix}`,
    );
    throw new Error(`${path} is missing: install ${packages.join(" and ")} (Debian packages)`);
  });
}

/** Links the C++ run time of a release from GCC's archives: the finished libraries of a system need its own glibc. */
function linkedRuntime(toolchain: Toolchain, target: Target): Runtime {
  const files = runtimeArchives(target);
  return { files: [...files, import.meta.path], carry: (outDir) => linkRuntime(toolchain, files, outDir) };
}

async function linkRuntime({ cc, env }: Toolchain, archives: string[], outDir: string): Promise<void> {
  const [pic = "", map = "", unwinder = "", gcc = ""] = archives;
  const work = mkdtempSync(join(tmpdir(), "shruti-runtime-"));
  const link = async (name: string, versions: string, inputs: string[], output: string) => {
    const named = [`-Wl,-soname,${name}`, `-Wl,--version-script=${versions}`, "-Wl,--undefined-version"];
    await run([cc, "-O2", "-fPIC", "-shared", "-Wl,-s", ...named, ...inputs, "-o", output], { env });
  };
  const whole = (archive: string) => ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"];
  try {
    const [visible = "", visibleGcc = ""] = [unwinder, gcc].map((path) => {
      const copy = join(work, basename(path));
      writeFileSync(copy, withVisibleSymbols(readFileSync(path)));
      return copy;
    });
    // The linker has a libgcc_s.so.1 of its own, and would take that.
    const unwinding = join(work, "unwinding.so");
    const versions = join(SOURCES, "libgcc.map");
    const functions = readFileSync(versions, "utf8").match(/\b__\w+(?=;)/g) ?? [];
    const taken = functions.map((name) => `-Wl,-u,${name}`);
    await link("libgcc_s.so.1", versions, [...taken, ...whole(visible), visibleGcc], unwinding);
    copyFileSync(unwinding, join(outDir, "carried-libgcc_s.so.1"));
    const inputs = [join(SOURCES, "older-glibc.c"), ...whole(pic), unwinding, "-lm"];
    await link("libstdc++.so.6", map, inputs, join(outDir, "carried-libstdc++.so.6"));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const ARCHIVE_START = "!<arch>\n";
const MEMBER_HEADER_BYTES = 60;

/**
 * Makes the hidden symbols of an archive of ELF objects visible: GCC's static archives hide what its library of the
 * same code exports.
 */
function withVisibleSymbols(archive: Buffer): Buffer {
  let at = ARCHIVE_START.length;
  while (at + MEMBER_HEADER_BYTES <= archive.length) {
    const size = Number(archive.toString("latin1", at + 48, at + 58));
    const start = at + MEMBER_HEADER_BYTES;
    showSymbols(archive.subarray(start, start + size));
    at = start + size + (size % 2);
  }
  return archive;
}

/** `sh_type` of a table of symbols, bytes of a symbol, and what `st_other` says of visibility: its last two bits. */
const SYMBOL_TABLE = 2;
const SYMBOL_BYTES = 24;
const HIDDEN = 2;

function showSymbols(object: Buffer): void {
  for (const section of elfSections(object) ?? []) {
    if (section.type !== SYMBOL_TABLE) continue;
    for (let at = section.offset; at < section.offset + section.bytes; at += SYMBOL_BYTES) {
      const other = object.readUInt8(at + 5);
      if ((other & 3) === HIDDEN) object.writeUInt8(other & ~3, at + 5);
    }
  }
}

/** Returns the name of the C++ run time that a build carries. */
export function runtimeName(toolchain: Toolchain): string {
  if (toolchain.target === undefined) return toolchain.identity;
  return `libstdc++ and libgcc of GCC ${RUNTIME_GCC} (${processorOf(toolchain.target)})`;
}
