import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "../../native/build/cache.ts";
import { readProcessor } from "../../native/processor.ts";

/**
 * The kernels of src/native/whisper/kernels/ against sums in double precision: compiled for each kind of processor
 * that this machine can run, with the compiler's checks of addresses and undefined behaviour.
 */

const ROOT = join(import.meta.dirname, "../../..");
const NATIVE_DIR = join(ROOT, "build/native");
const SOURCES = join(ROOT, "src/testing/native");
const NATIVE_SOURCES = join(ROOT, "src/native");
const KERNELS = join(NATIVE_SOURCES, "whisper/kernels");
const HEADERS = join(NATIVE_SOURCES, "headers");
const GGML = join(ROOT, "node_modules/nodejs-whisper/cpp/whisper.cpp/ggml");
const FLAGS = readProcessor()?.flags ?? armFeatures();
/** What Linux says of a processor of ARM. */
function armFeatures(): ReadonlySet<string> {
  const features = /^Features\s*: (.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1];
  return new Set(features?.split(" "));
}
/** On x86-64, Debian's packages g++-aarch64-linux-gnu and qemu-user-static compile and run programs for ARM. */
const ARM_EMULATOR = "qemu-aarch64-static";
const ARM_COMPILER = "aarch64-linux-gnu-";
const EMULATES_ARM =
  process.arch === "x64" && [ARM_EMULATOR, `${ARM_COMPILER}g++`].every((name) => Bun.which(name) !== null);
/** Only guards: one kind of processor takes 75 s on a slow machine, three times as long with other work beside it. */
const LIMIT_MS = 900_000;
const CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

const AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi2"];
const AVX2_VNNI = [...AVX2, "-mavxvnni"];
const AVX512 = [...AVX2, "-mavx512f", "-mavx512cd", "-mavx512vl", "-mavx512dq", "-mavx512bw"];
const AVX512_VNNI = [...AVX512, "-mavx512vnni"];
const BF16 = [...AVX512_VNNI, "-mavx512bf16"];
const DOT_PRODUCT = ["-march=armv8.2-a+dotprod"];
const HAS_AMX = FLAGS.has("amx_tile");
const AVX512_FLAGS = ["avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"];
/** The largest errors: sums of floats, and bf16, whose numbers have 8 bits. Measured: 0.6e-6, 0.0042. */
const [OF_FLOATS, OF_BF16] = [2e-6, 0.006];
/** Whole numbers of 16 bits: of products with whole windows, and of their attention. Measured: 0.0006. */
const OF_SHORTS = 0.001;
/** Keys that differ much are rounded more. Measured: 0.0027. */
const OF_SHORTS_SET_APART = 0.005;
const IN_SHORTS =
  /^(?:product \w+ \w+ (?!240 |50 )|pairs|layers|relative|attention (?:in bytes |set apart )?f16 64 x (?:1[7-9]|[2-9]\d|\d{3}))/;
/** Products with tokens round inputs as ggml does: to f16, or to 8 bits. Measured: 0.0003, 0.0076. */
const OF_TOKENS = 0.01;
/**
 * Products with whole windows round inputs to 8 bits as well: with VNNI for all quantized weights, of which those of fewer
 * than 8 bits are rounded too; else for those of 4 and 5 bits. Measured: 0.0082.
 */
const WITH_VNNI = /^(?:tokens|product q|layers q)/;
const WITHOUT_VNNI = /^(?:tokens|(?:product|layers) q(?:5_0|5_1|5_K|4_0|4_1|4_K) )/;
/** Two layers round twice, and the second time what a GELU gave. Measured: 0.013. */
const OF_LAYERS = 0.02;
const WITH_AMX = /^tokens/;
/** Attention with bytes rounds queries, keys, weights and values. Measured: 0.0141, on ARM, whose weights have 7 bits, 0.0189. */
const OF_ATTENTION_IN_BYTES = 0.02;

type Target = {
  name: string;
  needs: string[];
  options: string[];
  mostError: number;
  /** Cases whose inputs are rounded to 8 bits. */
  rounded: RegExp;
  /** Whether others have whole numbers of 16 bits in the place of floats. */
  hasShorts?: true;
  /** ggml's operations compute attention with relative positions. */
  lacksShorts?: true;
  /** How the probe gets its tiles: the processor's, or emulated ones. A processor with AMX needs no emulator. */
  tiles?: "amx" | "emulate-amx";
  isArm?: true;
};
const TARGETS: Target[] = [
  {
    ...{ name: "AVX2", needs: ["avx2", "fma", "f16c"], options: AVX2 },
    ...{ mostError: OF_FLOATS, rounded: WITHOUT_VNNI, hasShorts: true },
  },
  {
    ...{ name: "AVX2 with VNNI", needs: ["avx2", "fma", "f16c", "avx_vnni"], options: AVX2_VNNI },
    ...{ mostError: OF_FLOATS, rounded: WITH_VNNI, hasShorts: true },
  },
  {
    ...{ name: "AVX-512", needs: AVX512_FLAGS, options: AVX512, mostError: OF_FLOATS, rounded: WITHOUT_VNNI },
    lacksShorts: true,
  },
  {
    ...{ name: "AVX-512 with VNNI", needs: [...AVX512_FLAGS, "avx512_vnni"], options: AVX512_VNNI },
    ...{ mostError: OF_FLOATS, rounded: WITH_VNNI, hasShorts: true },
  },
  {
    ...{ name: "AVX-512 with bf16", needs: ["avx512_bf16", "avx512_vnni"], options: BF16 },
    ...{ mostError: OF_BF16, rounded: WITH_VNNI },
  },
  {
    ...{ name: HAS_AMX ? "AMX" : "AMX, emulated", needs: ["avx512_bf16", "avx512_vnni"] },
    ...{ options: [...BF16, "-mamx-tile"], mostError: OF_BF16, rounded: WITH_AMX },
    tiles: HAS_AMX ? "amx" : "emulate-amx",
  },
  {
    ...{ name: "ARM with products of four bytes", needs: ["asimddp"], options: DOT_PRODUCT, isArm: true },
    ...{ mostError: OF_FLOATS, rounded: WITH_VNNI, lacksShorts: true },
  },
];
const CASES = {
  attention: 42,
  product: 64,
  tokens: 242,
  layers: 28,
  pairs: 6,
  convolution: 6,
  gelu: 2,
  normalization: 4,
  mel: 2,
  probabilities: 5,
  relative: 10,
  gated: 6,
  halving: 4,
};

async function run(...command: string[]) {
  const env = { ...process.env, LD_LIBRARY_PATH: NATIVE_DIR };
  const child = Bun.spawn(command, { env, stdout: "pipe", stderr: "pipe", timeout: LIMIT_MS });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  await child.exited;
  return { status: child.exitCode, signal: child.signalCode, stdout, stderr };
}

/** How the probe is compiled and run: by the machine itself, or for ARM, which an emulator runs. */
type Machine = { prefix: string; checks: string[]; libraries: string[]; runs: string[] };
const HERE: Machine = {
  ...{ prefix: "", checks: CHECKS, runs: [] },
  libraries: [join(NATIVE_DIR, "libggml-base.so")],
};
/** The emulator cannot run the checks of addresses. The parts of ggml that the probe needs are compiled with it. */
const ARM: Machine = {
  ...{ prefix: ARM_COMPILER, checks: [], runs: [ARM_EMULATOR, "-cpu", "neoverse-n1"] },
  libraries: ["-static"],
};
const BASE = ["ggml.c", "ggml-alloc.c", "ggml-quants.c"];
const BASE_CPP = ["ggml.cpp", "ggml-backend.cpp", "ggml-backend-meta.cpp", "ggml-threading.cpp"];

/** Names the compiler, and all that the probe is compiled from. */
async function inputs({ prefix }: Machine, options: string[]): Promise<BuildInput[]> {
  const { stdout } = await run(prefix ? `${prefix}g++` : "c++", "--version");
  const headers = readdirSync(`${GGML}/src`).filter((name) => name.endsWith(".h"));
  const paths = [import.meta.path, SOURCES, KERNELS, HEADERS, `${GGML}/include`, `${GGML}/src/ggml-cpu`];
  return [
    { literal: [stdout, ...options].join("\n") },
    ...paths.map((path) => ({ path })),
    ...headers.map((name) => ({ path: join(GGML, "src", name) })),
  ];
}

/** Compiles the probe, which takes most of the time of a test, once for each version of the kernels. */
async function probeFor(machine: Machine, options: string[]): Promise<string> {
  const folder = await cachedBuild("kernels-probe", await inputs(machine, options), (dir) =>
    compile(machine, options, dir),
  );
  return join(folder, PROBE);
}

const PROBE = "kernels-probe";
const INCLUDES = [KERNELS, HEADERS, `${GGML}/include`, `${GGML}/src`, `${GGML}/src/ggml-cpu`].map(
  (path) => `-I${path}`,
);

async function compile(machine: Machine, options: string[], dir: string): Promise<void> {
  const kernels = readdirSync(KERNELS).filter((name) => name.endsWith(".cpp"));
  const sources = [join(SOURCES, "kernels-probe.cpp"), ...kernels.map((name) => join(KERNELS, name))];
  const objects = machine === ARM ? await compileBase(dir) : [await compileEmulator(dir)];
  const flags = [
    "-std=c++17",
    "-O1",
    "-g",
    "-w",
    "-rdynamic",
    "-DSHRUTI_KERNELS",
    ...machine.checks,
    ...options,
  ];
  const compiler = machine.prefix ? `${machine.prefix}g++` : "c++";
  const linking = [...objects, ...machine.libraries, "-lpthread", "-o", join(dir, PROBE)];
  const compiled = await run(compiler, ...flags, ...INCLUDES, ...sources, ...linking);
  // A program that is linked statically is warned of functions that load others.
  expect(compiled).toMatchObject({ status: 0, ...(machine === ARM ? {} : { stderr: "" }) });
}

/** Compiles what runs the instructions of AMX on processors without them. */
async function compileEmulator(dir: string): Promise<string> {
  const emulator = join(dir, "amx-emulator.o");
  const plain = await run("cc", "-O2", "-c", join(SOURCES, "amx-emulator.c"), "-o", emulator);
  expect(plain).toMatchObject({ status: 0, stderr: "" });
  return emulator;
}

/** Compiles the parts of ggml that the probe needs, for ARM. */
async function compileBase(dir: string): Promise<string[]> {
  const flags = ["-O1", "-w", "-c", "-D_GNU_SOURCE", '-DGGML_VERSION=""', '-DGGML_COMMIT=""', ...INCLUDES];
  const one = async (name: string, compiler: string) => {
    const object = join(dir, `${name}.o`);
    const compiled = await run(`${ARM_COMPILER}${compiler}`, ...flags, join(GGML, "src", name), "-o", object);
    expect(compiled).toMatchObject({ status: 0, stderr: "" });
    return object;
  };
  return [
    ...(await Promise.all(BASE.map((name) => one(name, "gcc")))),
    ...(await Promise.all(BASE_CPP.map((name) => one(name, "g++")))),
  ];
}

for (const { name, needs, options, mostError, rounded, hasShorts, lacksShorts, tiles, isArm } of TARGETS) {
  const isHere = process.arch === (isArm ? "arm64" : "x64") && needs.every((flag) => FLAGS.has(flag));
  const because = isArm
    ? "ARM, or Debian's packages g++-aarch64-linux-gnu and qemu-user-static"
    : "a processor with its instructions";
  test.if(isHere || (isArm === true && EMULATES_ARM))(
    `the kernels for ${name} compute what they should, and touch no memory of others (needs ${because})`,
    async () => {
      const machine = isHere ? HERE : ARM;
      const probe = await probeFor(machine, options);
      const result = await run(...machine.runs, probe, ...(tiles ? [tiles] : []));
      expect(result).toMatchObject({ status: 0, signal: null, stderr: "" });
      const lines = result.stdout.trim().split("\n");
      const cases = lines.map((line) => line.split("\t")).filter((fields) => fields.length === 3);
      const counts = Object.groupBy(cases, ([what = ""]) => /^\w+/.exec(what)?.[0] ?? "");
      const { relative, ...others } = CASES;
      expect(Object.fromEntries(Object.entries(counts).map(([kind, of]) => [kind, of?.length]))).toEqual(
        lacksShorts ? others : { relative, ...others },
      );
      // Not `>`, so that NaN counts as an error too.
      const limit = (what = "") => {
        if (rounded === WITH_VNNI && what.startsWith("attention in bytes")) return OF_ATTENTION_IN_BYTES;
        if (hasShorts && !rounded.test(what) && IN_SHORTS.test(what))
          return what.includes("set apart") ? OF_SHORTS_SET_APART : OF_SHORTS;
        if (!rounded.test(what)) return mostError;
        return what.startsWith("layers") ? OF_LAYERS : OF_TOKENS;
      };
      expect(cases.filter(([what, , error]) => !(Number(error) < limit(what)))).toEqual([]);
      if (tiles === "emulate-amx")
        expect(Number(/emulated\t(\d+)/.exec(result.stdout)?.[1])).toBeGreaterThan(10_000);
    },
    LIMIT_MS,
  );
}
