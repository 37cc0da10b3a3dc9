import { expect, test } from "bun:test";
import { join } from "node:path";
import { type BuildInput, cachedBuild } from "../build/cache.ts";
import { readProcessor } from "../processor.ts";

/** products.cpp as it is compiled for each kind of processor that this machine runs, with the compiler's checks. */

const ONNX = import.meta.dirname;
const PROBE = join(ONNX, "../../testing/native/products-probe.cpp");
const CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
const AVX2 = ["-mavx2", "-mfma"];
const VNNI = ["-mavx512f", "-mavx512vnni", "-mfma", "-mprefer-vector-width=512"];
const has = readProcessor()?.flags ?? new Set<string>();

const BUILDS: [string, string[], boolean][] = [
  ["plain", [], true],
  ["avx2", AVX2, has.has("avx2")],
  ["avx_vnni", [...AVX2, "-mavxvnni"], has.has("avx_vnni")],
  ["avx512_vnni", VNNI, has.has("avx512_vnni")],
];

for (const [name, flags, isHere] of BUILDS)
  test.skipIf(!isHere)(
    `${name} (needs such a processor): odd sizes, zeros at the ends and the largest bytes have the exact numbers`,
    async () => {
      const inputs: BuildInput[] = [ONNX, PROBE, import.meta.path, join(ONNX, "../headers")].map((path) => ({
        path,
      }));
      const folder = await cachedBuild(`products-probe-${name}`, inputs, async (outDir) => {
        const options = ["-std=gnu++17", "-O2", "-fno-exceptions", "-ffp-contract=off", ...CHECKS, ...flags];
        const files = [join(ONNX, "products.cpp"), PROBE, "-o", join(outDir, "probe")];
        const command = ["g++", ...options, "-DPRODUCTS=PRODUCTS", `-I${ONNX}`, ...files];
        const child = Bun.spawnSync(command, { stdout: "pipe", stderr: "pipe" });
        if (child.exitCode !== 0) throw new Error(child.stderr.toString());
      });
      const child = Bun.spawnSync([join(folder, "probe")], { stdout: "pipe", stderr: "pipe" });
      expect({ text: child.stdout.toString(), errors: child.stderr.toString() }).toEqual({
        text: "3456 cases, 0 wrong\n",
        errors: "",
      });
    },
    300_000,
  );
