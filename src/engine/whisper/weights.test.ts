import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath, wordsIn } from "../../e2e/samples.ts";
import { FILE_TYPES } from "../../families/whisper/model-file.ts";
import { variantName } from "../../native/cpu-variants.ts";
import { readProcessor } from "../../native/processor.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { disassemble, fileOffset, functionOffset } from "../../testing/makers/elf.ts";
import { openWideModel } from "../../testing/makers/wide-model.ts";
import type { Heard } from "../../testing/programs/whisper-test-child.ts";

/** Tests every type of weights on every processor variant that this machine can run, and on AMX, which most machines lack. */

const ROOT = join(import.meta.dirname, "../../..");
const SOURCES = join(import.meta.dirname, "../../testing/native");
const HEADERS = [
  "node_modules/nodejs-whisper/cpp/whisper.cpp/ggml/include",
  "src/native/whisper/kernels",
].map((path) => `-I${join(ROOT, path)}`);
const AMX_LIBRARY = join(NATIVE_DIR, "libggml-cpu-sapphirerapids.so");
const TYPES = [...FILE_TYPES.values()].map(({ name }) => name);
const VARIANTS = readdirSync(NATIVE_DIR).flatMap((file) => variantName(file) ?? []);
/** Instructions that the library uses besides AMX. A processor that has AMX runs the library without an emulator. */
const CPU_FLAGS = readProcessor()?.flags ?? new Set();
const CAN_EMULATE_AMX =
  !CPU_FLAGS.has("amx_int8") &&
  ["avx512f", "avx512vbmi", "avx512_vnni", "avx512_bf16"].every((flag) => CPU_FLAGS.has(flag));
/** All types on all variants as complete transcriptions as well, which takes several minutes. */
const IS_THOROUGH = process.env.SHRUTI_ALL_WEIGHTS === "1";
/** The plainest variant, and the one for processors without AVX-512. */
const SOME_VARIANTS = ["x64", "haswell"];
/** Inputs are rounded to 8 bits, and for half of the types in blocks of 256. Measured everywhere: 0.5 to 0.7 %. */
const MOST_ERROR = 0.01;
const MOST_ERROR_F16 = 0.0005;
/** Where whole windows are multiplied in bf16. Measured: 0.24 %. */
const MOST_ERROR_BF16 = 0.004;
/** Variants without AVX2, which the kernels need. */
const PLAIN_VARIANTS = ["x64", "sse42", "sandybridge", "ivybridge", "piledriver"];
/** The most tokens that the kernel for tokens takes. */
const MOST_TOKENS = 31;
/** Variants without VNNI. With q8_0, only their products of tokens have whisper.cpp's order of sums; with f16 all have. */
const VARIANTS_WITHOUT_VNNI = ["haswell", "skylakex", "cannonlake"];
/** Largest difference of another result from whisper.cpp's, relative to the root mean square of all. Measured: 1.6e-6. */
const MOST_TOKEN_DIFFERENCE = 3e-6;
const BF16_VARIANTS = ["cooperlake", "zen4", "sapphirerapids"];
/** Kernels of our own multiply matrices that have at least so many columns. */
const WINDOW_COLUMNS = 32;
/** Largest difference of a token's probability between variants. Measured: 0.025 for q2_k, 0.006 for the others. */
const MOST_DIFFERENCE = 0.05;

let dir = "";
let probe = "";
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "shruti-weights-"));
  probe = join(dir, "weights-probe");
  const sources = ["weights-probe.c", "amx-emulator.c"].map((name) => join(SOURCES, name));
  const libraries = ["libggml.so", "libggml-base.so"].map((name) => join(NATIVE_DIR, name));
  const linking = [...libraries, `-Wl,-rpath,${NATIVE_DIR}`, "-lm"];
  const compiled = await run("cc", "-O2", "-rdynamic", ...HEADERS, ...sources, "-o", probe, ...linking);
  expect(compiled).toMatchObject({ status: 0, stderr: "" });
}, 60_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function run(...command: string[]) {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe", timeout: 300_000 });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  await child.exited;
  return { status: child.exitCode, signal: child.signalCode, stdout, stderr };
}

type Product = { type: string; buffer: string; columns: number; error: number };

function productsIn(stdout: string): Product[] {
  return stdout
    .trim()
    .split("\n")
    .map((line) => line.split(" "))
    .filter((fields) => fields.length === 4)
    .map(([type = "", buffer = "", columns, error]) => ({
      type: type.toLowerCase(),
      buffer,
      columns: Number(columns),
      error: Number(error),
    }));
}

function mostError(variant: string, { type, columns }: Product): number {
  if (type !== "f16") return MOST_ERROR;
  return columns >= WINDOW_COLUMNS && BF16_VARIANTS.includes(variant) ? MOST_ERROR_BF16 : MOST_ERROR_F16;
}

function expectRight(variant: string, products: Product[]): void {
  expect([...new Set(products.map(({ type }) => type))].sort()).toEqual([...TYPES].sort());
  // Not `>`, so that NaN counts as an error too.
  const wrong = products.filter((product) => !(product.error < mostError(variant, product)));
  expect(wrong).toEqual([]);
}

/**
 * Expects that each token has the same bits alone and beside others, and those of whisper.cpp's own code for it alone. With
 * another order of sums it may differ from the latter in the last bits.
 */
function expectSameBits(variant: string, stdout: string): void {
  const lines = stdout.split("\n").filter((line) => line.startsWith("tokens "));
  const isPlain = process.arch !== "x64" || PLAIN_VARIANTS.includes(variant);
  expect(lines.length).toBe(isPlain ? 0 : TYPES.length * MOST_TOKENS);
  const wrong = lines.filter((line) => {
    const [, type, , otherThanAlone, otherThanPlain, difference] = line.split(" ");
    const hasSameOrder = type === "f16" || (type === "q8_0" && VARIANTS_WITHOUT_VNNI.includes(variant));
    const isRight = hasSameOrder ? otherThanPlain === "0" : Number(difference) < MOST_TOKEN_DIFFERENCE;
    return otherThanAlone !== "0" || !isRight;
  });
  expect(wrong).toEqual([]);
}

describe("matrix products", () => {
  test.each(VARIANTS)("%s multiplies every type of weights", async (variant) => {
    const result = await run(probe, join(NATIVE_DIR, `libggml-cpu-${variant}.so`));
    if (result.stderr.includes("cannot be used on this processor")) {
      expect({ status: result.status, stdout: result.stdout }).toEqual({ status: 1, stdout: "" });
      return;
    }
    expect(result).toMatchObject({ status: 0, signal: null });
    expectRight(variant, productsIn(result.stdout));
    expectSameBits(variant, result.stdout);
  });
});

/** ggml's tile configuration: palette 1; bytes in a row of each tile, two bytes each; rows of each tile (ggml-cpu/amx/mmq.cpp). */
const TILE_CONFIGURATION = [
  ...[1, ...Array(15).fill(0)],
  ...[64, 64, 32, 32, 64, 64, 64, 64].flatMap((bytes) => [bytes, 0]),
  ...Array(16).fill(0),
  ...[8, 8, 16, 16, 16, 16, 16, 16, ...Array(8).fill(0)],
];

/** That of our own kernels: all tiles have 16 rows of 64 bytes (src/native/whisper/kernels/blocks.h). */
const KERNEL_TILE_CONFIGURATION = [
  ...[1, ...Array(15).fill(0)],
  ...[...Array(8).fill([64, 0]), ...Array(8).fill([0, 0])].flat(),
  ...[...Array(8).fill(16), ...Array(8).fill(0)],
];

/**
 * Returns the 64 bytes that each `ldtilecfg` of a library loads, if they are constant.
 *
 * @throws Error if they are not constant: the library then stores them first, and compilers have omitted that
 */
function tileConfigurations(library: string): number[][] {
  const lines = disassemble(library);
  const bytes = readFileSync(library);
  return lines.flatMap((line, at) => {
    if (!line.includes("ldtilecfg")) return [];
    const register = /ldtilecfg \((%\w+)\)$/.exec(line)?.[1];
    const origin = lines.slice(at - 10, at).findLast((before) => before.includes(`,${register} `));
    const address =
      /ldtilecfg .*\(%rip\).*# ([0-9a-f]+) /.exec(line)?.[1] ??
      /lea .*\(%rip\),.*# ([0-9a-f]+) /.exec(origin ?? "")?.[1];
    if (address === undefined) throw new Error(`no constant is loaded: ${line}`);
    const offset = fileOffset(library, Number.parseInt(address, 16));
    return [[...bytes.subarray(offset, offset + 64)]];
  });
}

/** Makes a copy of a library that reports to support this processor. */
function forced(library: string): string {
  const bytes = readFileSync(library);
  const returnOne = [0xb8, 1, 0, 0, 0, 0xc3];
  bytes.set(returnOne, functionOffset(library, "ggml_backend_score"));
  const path = join(dir, "forced.so");
  writeFileSync(path, bytes);
  return path;
}

/** A build for one machine may lack it. The tests of a release repeat these with all processor code. */
const HAS_AMX_CODE = VARIANTS.includes("sapphirerapids");

describe.if(HAS_AMX_CODE)("AMX (needs a build with all processor code)", () => {
  test("the processor reads a complete tile configuration", () => {
    const configurations = tileConfigurations(AMX_LIBRARY);
    const different = [...new Set(configurations.map((bytes) => bytes.join()))].sort();
    expect(different).toEqual([TILE_CONFIGURATION.join(), KERNEL_TILE_CONFIGURATION.join()].sort());
  });

  test.if(CAN_EMULATE_AMX)(
    "every type of weights is multiplied correctly by emulated instructions (needs AVX-512 with bf16 and no AMX)",
    async () => {
      const result = await run(probe, forced(AMX_LIBRARY), "emulate-amx");
      expect(result).toMatchObject({ status: 0, signal: null });
      const products = productsIn(result.stdout);
      expectRight("sapphirerapids", products);
      expectSameBits("sapphirerapids", result.stdout);
      const onTiles = products.filter(({ buffer }) => buffer === "AMX").map(({ type }) => type);
      expect([...new Set(onTiles)].sort()).toEqual(["f16", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k", "q8_0"]);
      expect(Number(/emulated (\d+)/.exec(result.stdout)?.[1])).toBeGreaterThan(10_000);
    },
    60_000,
  );
});

describe("transcriptions", () => {
  const written = new Map<string, string>();
  let write: ReturnType<typeof openWideModel> | undefined;
  const sure = new Map<string, number[]>();
  let usable: string[] = [];

  function wideModel(type: string): string {
    const path = join(dir, `${type}.bin`);
    write ??= openWideModel(join(ROOT, "models/demo.bin"), NATIVE_DIR);
    if (!written.has(type)) write(path, type);
    written.set(type, path);
    return path;
  }

  async function child<T>(scenario: string, request: object): Promise<T> {
    const script = join(import.meta.dirname, "../../testing/programs/whisper-test-child.ts");
    const result = await run(process.execPath, script, NATIVE_DIR, scenario, JSON.stringify(request));
    expect(result).toMatchObject({ status: 0, signal: null, stderr: "" });
    return JSON.parse(result.stdout);
  }

  async function hear(types: string[], variant: string): Promise<void> {
    const request = { models: types.map(wideModel), audio: [{ path: samplePath("01-en") }], variant };
    const { cpuVariant, heard } = await child<{ cpuVariant: string; heard: Heard[] }>("hearEach", request);
    expect(cpuVariant).toBe(variant);
    for (const [i, { text, probabilities }] of heard.entries()) {
      const type = types[i] ?? "";
      expect({ variant, type, text }).toEqual({ variant, type, text: wordsIn("01-en", "verbatim") });
      // The best variant comes first, because the others are compared with it.
      const expected = sure.get(type) ?? probabilities;
      sure.set(type, expected);
      expect(probabilities.length).toBe(expected.length);
      const differences = probabilities.map((probability, at) => Math.abs(probability - (expected[at] ?? 0)));
      expect({ variant, type, isNear: Math.max(...differences) < MOST_DIFFERENCE }).toMatchObject({
        isNear: true,
      });
    }
  }

  test("every type of weights gives the same text on the best variant", async () => {
    const found = await child<{ cpuVariant: string; plainerVariants: string[] }>("describe", { models: [] });
    usable = [found.cpuVariant, ...found.plainerVariants];
    await hear(TYPES, found.cpuVariant);
  }, 120_000);

  test("one type of weights gives the same text on other variants", async () => {
    expect(usable).toContain("x64");
    const others = usable.slice(1).filter((name) => IS_THOROUGH || SOME_VARIANTS.includes(name));
    expect(others).not.toEqual([]);
    for (const variant of others) await hear(IS_THOROUGH ? TYPES : ["q8_0"], variant);
  }, 1_200_000);
});
