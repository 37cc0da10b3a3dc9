import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { extractNativeFiles } from "../native-files.ts";

/** Names of the files that a process has mapped once it has loaded the ONNX runtime. */
async function mappedWith(environment: Record<string, string>): Promise<string[]> {
  const script = `${import.meta.dirname}/../../testing/programs/onnx-test-child.ts`;
  const files = JSON.stringify(await extractNativeFiles(""));
  const child = Bun.spawn([process.execPath, script, files], {
    env: { ...process.env, ...environment },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(errors);
  return (JSON.parse(out) as string[]).map((path) => basename(path));
}

const CARRIED = ["carried-libstdc++.so.6", "carried-libgcc_s.so.1"];

test.skipIf(process.platform !== "linux")(
  "the machine's C++ run time is used if it has one (needs Linux)",
  async () => {
    const mapped = await mappedWith({});
    for (const name of ["onnx.addon", "libonnxruntime.so"]) expect(mapped).toContain(name);
    for (const name of CARRIED) expect(mapped).not.toContain(name);
  },
  30_000,
);

test.skipIf(process.platform !== "linux")(
  "the embedded C++ run time is used if the machine has no usable one (needs Linux)",
  async () => {
    const broken = mkdtempSync(join(tmpdir(), "shruti-libraries-"));
    for (const name of ["libstdc++.so.6", "libgcc_s.so.1"]) writeFileSync(join(broken, name), "");
    try {
      const mapped = await mappedWith({ LD_LIBRARY_PATH: broken });
      for (const name of ["libonnxruntime.so", ...CARRIED]) expect(mapped).toContain(name);
    } finally {
      rmSync(broken, { recursive: true });
    }
  },
  30_000,
);
