import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { askWhisperChild } from "../../testing/ask-whisper-child.ts";
import { readProcessor } from "../processor.ts";

/** The code that whisper.cpp is opened with where the system lists other instructions than the processor has. */

const dir = mkdtempSync(join(tmpdir(), "shruti-processor-code-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A shell that puts its first argument in the place of `/proc/cpuinfo`, for the command that follows alone. */
const WITH_LIST = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/cpuinfo && exec "$@"'];
const probe = join(dir, "probe");
writeFileSync(probe, "");
const canReplace = Bun.which("unshare") !== null && Bun.spawnSync([...WITH_LIST, probe, "true"]).success;
const flags = readProcessor()?.flags;
const LIMIT_MS = 60_000;

test.skipIf(!canReplace || !flags?.has("amx_tile"))(
  "a processor with AMX that the system does not list gets other code",
  async () => {
    const list = join(dir, "cpuinfo");
    const without = [...(flags ?? [])].filter((flag) => !flag.startsWith("amx_")).join(" ");
    writeFileSync(list, `flags\t\t: ${without}\n`);
    const { cpuVariant } = await askWhisperChild<{ cpuVariant: string }>("describe", {}, LIMIT_MS, [
      ...WITH_LIST,
      list,
    ]);
    expect(cpuVariant).toBe("zen4");
  },
  LIMIT_MS,
);
