import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sileroVariants } from "../../native/build/silero.ts";
import { openSilero } from "../../native/silero/silero.ts";

const ROOT = join(import.meta.dirname, "../../..");
const NET = join(ROOT, "src/native/silero");
const NATIVE_DIR = join(ROOT, "build/native");
const CHECKS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

async function run(...command: string[]) {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe", timeout: 200_000 });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { status: await child.exited, stdout, stderr };
}

test("each build of the net touches no memory of others, whatever the number of windows", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-silero-memory-"));
  try {
    const objects = await Promise.all(
      sileroVariants(process.arch).map(async ({ name, vector, flags }) => {
        const object = join(folder, `${name}.o`);
        const defined = ["-std=gnu++17", `-DRUN_NET=${name}`, `-DVECTOR=${vector}`, ...flags];
        const compiled = await run("c++", ...CHECKS, ...defined, "-c", join(NET, "net.cpp"), "-o", object);
        expect(compiled).toEqual({ status: 0, stdout: "", stderr: "" });
        return object;
      }),
    );
    const probe = join(folder, "probe");
    const sources = [join(ROOT, "src/testing/native/silero-probe.c"), join(NET, "silero.c"), ...objects];
    const linked = await run("cc", ...CHECKS, ...sources, "-lm", "-o", probe);
    expect(linked).toEqual({ status: 0, stdout: "", stderr: "" });
    const sileroWeights = join(NATIVE_DIR, "silero.weights");
    const { variants } = openSilero({ silero: join(NATIVE_DIR, "silero.so"), sileroWeights });
    const stdout = Array.from({ length: variants }, (_, n) => `build ${n}\n`).join("");
    expect(await run(probe, sileroWeights)).toEqual({ status: 0, stdout, stderr: "" });
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 240_000);
