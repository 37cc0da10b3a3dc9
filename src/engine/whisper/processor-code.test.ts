import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readProcessor } from "../../native/processor.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";

/** The code that whisper.cpp is opened with where the system lists other instructions than the processor has. */

const dir = mkdtempSync(join(tmpdir(), "shruti-processor-code-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A shell that puts its first argument in the place of `/proc/cpuinfo`, for the command that follows alone. */
const WITH_LIST = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/cpuinfo && exec "$@"'];
const probe = join(dir, "probe");
writeFileSync(probe, "");
const canReplace = Bun.which("unshare") !== null && Bun.spawnSync([...WITH_LIST, probe, "true"]).success;
/** A processor with these can run all of the variants below. */
const flags = readProcessor()?.flags;
const hasBf16 = ["avx512_bf16", "avx512vbmi", "avx512_vnni"].every((flag) => flags?.has(flag));
/** A build for one machine lacks some. The tests of a release repeat this one with all processor code. */
const isBuilt = ["icelake", "zen4", "sapphirerapids"].every((name) =>
  existsSync(join(NATIVE_DIR, `libggml-cpu-${name}.so`)),
);
const LIMIT_MS = 60_000;

test.skipIf(!canReplace || !hasBf16 || !isBuilt).each([
  ["GenuineIntel", "icelake"],
  ["AuthenticAMD", "zen4"],
])(
  "without AMX in the list of %s it is %s (needs root, a processor with bf16, and all processor code)",
  async (maker, expected) => {
    const list = join(dir, maker);
    const without = [...(flags ?? [])].filter((flag) => !flag.startsWith("amx_")).join(" ");
    writeFileSync(list, `vendor_id\t: ${maker}\nflags\t\t: ${without}\n`);
    const { cpuVariant } = await askWhisperChild<{ cpuVariant: string }>("describe", {}, LIMIT_MS, [
      ...WITH_LIST,
      list,
    ]);
    expect(cpuVariant).toBe(expected);
  },
  LIMIT_MS,
);
