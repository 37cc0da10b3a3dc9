import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newestGlibc } from "./glibc.ts";
import { run } from "./run.ts";
import { releaseToolchain } from "./toolchain.ts";

/** A guard: the compilers prepare themselves at their first use, which takes minutes beside other tests. */
const LIMIT_MS = 1_800_000;

const ROOT = join(import.meta.dirname, "../../..");
const folder = mkdtempSync(join(tmpdir(), "shruti-toolchain-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const THROWS = `
  #include <new>
  #include <stdexcept>
  extern "C" __attribute__((visibility("default"))) void fail(int how) {
    if (how == 0) throw std::runtime_error("it failed");
    throw std::bad_alloc();
  }`;
/** Catches as smart-whisper's threads do, which say "an unknown exception" of the last kind. */
const CATCHES = `
  #include <cstdio>
  #include <stdexcept>
  extern "C" void fail(int how);
  int main() {
    for (int how = 0; how < 2; how++) {
      try { fail(how); }
      catch (const std::exception &error) { puts(error.what()); }
      catch (...) { puts("unknown"); }
      try { throw std::runtime_error("its own"); }
      catch (const std::exception &error) { puts(error.what()); }
    }
  }`;

test(
  "an exception of one library is caught in another, each with a C++ run time of its own",
  async () => {
    const { cxx, env } = await releaseToolchain("linux-x64");
    writeFileSync(join(folder, "throws.cpp"), THROWS);
    writeFileSync(join(folder, "catches.cpp"), CATCHES);
    const settings = join(import.meta.dirname, "../ggml-libraries.map");
    const flags = ["-O2", "-fPIC", "-fvisibility=hidden", "-Wl,-s", `-Wl,--version-script=${settings}`];
    const options = { cwd: folder, env };
    await run([cxx, ...flags, "-shared", "throws.cpp", "-o", "libthrows.so"], options);
    await run([cxx, "-O2", "catches.cpp", "./libthrows.so", "-o", "catches"], options);
    expect((await run(["./catches"], options)).trim().split("\n")).toEqual([
      "unknown",
      "its own",
      "unknown",
      "its own",
    ]);
    expect(newestGlibc(folder)).toMatch(/^2\.(\d|1\d|2[0-8])(\.|$)/);
  },
  LIMIT_MS,
);

test(
  "each processor's instructions reach the compiler, AMX among them",
  async () => {
    const { cc, env } = await releaseToolchain("linux-x64");
    const flags = ["-mavx512f", "-mavx512vnni", "-mamx-tile", "-mamx-int8"];
    const macros = await run([cc, ...flags, "-dM", "-E", "-x", "c", "/dev/null"], { env });
    for (const name of ["__AVX512VNNI__", "__AMX_TILE__", "__AMX_INT8__"])
      expect(macros).toContain(`${name} 1`);
    expect(macros).not.toContain("__AVX512BF16__");
  },
  LIMIT_MS,
);

const FLOATS = `
  #include "blocks.h"
  using namespace shruti;
  extern "C" void block(const uint32_t * left, const uint32_t * right, int64_t chunks, float * out, const Finish & finish) {
    multiply_block(left, right, chunks, out, kColumns, finish);
  }`;
const SHORTS = `
  #include "short-blocks.h"
  using namespace shruti;
  using Blocks = ShortBlocks<128, Factors::kOfColumns>;
  extern "C" void block(const Blocks::Left * left, const char * right, int64_t blocks, float * out, const Finish & finish) {
    Blocks::multiply(left, blocks, right, (const float *) right, out, Blocks::kColumns, finish);
  }`;
const AVX2 = "-mavx2 -mfma -mf16c";
const AVX512 = `${AVX2} -mavx512f -mavx512cd -mavx512vl -mavx512dq -mavx512bw`;

/** With sums in memory a release took 1.5 times as long as a build by GCC, which keeps them in registers in any case. */
test.each([
  ["floats, AVX2", FLOATS, AVX2, "vfmadd", 48],
  ["floats, AVX-512", FLOATS, AVX512, "vfmadd", 48],
  ["bf16, AVX-512", FLOATS, `${AVX512} -mavx512bf16`, "vdpbf16ps", 48],
  ["numbers of 16 bits, AVX2", SHORTS, AVX2, "vpaddd", 12],
  ["numbers of 16 bits, AVX2 with VNNI", SHORTS, `${AVX2} -mavxvnni`, "vpdpwssd", 12],
  ["numbers of 16 bits, AVX-512 with VNNI", SHORTS, `${AVX512} -mavx512vnni`, "vpdpwssd", 12],
])(
  "the sums of a block stay in registers (%s)",
  async (_, source, processor, product, least) => {
    const { cxx, env } = await releaseToolchain("linux-x64");
    writeFileSync(join(folder, "block.cpp"), source);
    const flags = ["-std=c++17", "-O3", "-fPIC", "-g0", ...processor.split(" ")];
    const ggml = join(ROOT, "node_modules/nodejs-whisper/cpp/whisper.cpp/ggml");
    const own = ["whisper/kernels", "headers"].map((name) => join(import.meta.dirname, "..", name));
    const includes = [...own, `${ggml}/include`, `${ggml}/src`];
    const options = { cwd: folder, env };
    await run(
      [cxx, ...flags, ...includes.map((path) => `-I${path}`), "-S", "block.cpp", "-o", "block.s"],
      options,
    );
    const lines = readFileSync(join(folder, "block.s"), "utf8").split("\n");
    const stored = lines.filter((line, i) => {
      const sum = new RegExp(`^\\s(?:\\{vex\\}\\s)?${product}.*, (%[yz]mm\\d+)$`).exec(line)?.[1];
      return sum !== undefined && new RegExp(`^\\svmov\\w+\\s${sum}, .*\\(`).test(lines[i + 1] ?? "");
    });
    expect(lines.filter((line) => line.includes(product)).length).toBeGreaterThanOrEqual(least);
    expect(stored).toEqual([]);
  },
  LIMIT_MS,
);

test(
  "ARM's architectures have the names of other compilers",
  async () => {
    const { cc, env } = await releaseToolchain("linux-arm64");
    const flags = ["-march=armv8.6-a+dotprod+fp16+sve+i8mm+sve2"];
    const macros = await run([cc, ...flags, "-dM", "-E", "-x", "c", "/dev/null"], { env });
    for (const name of ["DOTPROD", "FP16_VECTOR_ARITHMETIC", "SVE2", "MATMUL_INT8"]) {
      expect(macros).toContain(`__ARM_FEATURE_${name} 1`);
    }
  },
  LIMIT_MS,
);
