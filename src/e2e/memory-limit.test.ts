import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeBenchModel } from "../../scripts/bench/engine/bench-model.ts";
import { openMemoryGroup } from "../testing/boxes/memory-group.ts";
import { type Installation, install } from "./kit.ts";
import { concatenated } from "./samples.ts";

/** The number of chunks at once follows from the memory that a container or service may use. */

/**
 * A limit for a model in the shape of Whisper's base, 147 MB. Each chunk may need 130 MB, so that eight chunks and the
 * program's processes may need more than this. They were ended by the system when `engine.workers` was 8 and each chunk
 * had an encoder's memory of its own.
 */
const LIMIT_BYTES = 900_000_000;
const WORDS = 96;
const TIMEOUT_MS = 240_000;

const group = openMemoryGroup(LIMIT_BYTES);
let box: Installation;

beforeAll(async () => {
  if (!group) return;
  box = await install();
  const weights = join(box.folder, "base.bin");
  writeBenchModel(weights, WORDS);
  const given = ["--id", "base", "--language", "en:native+verbatim", "--no-trial"];
  await box.output("models", "add", weights, ...given, "--licence", "none", "--source", "test");
  writeFileSync(join(box.folder, "long.wav"), concatenated(["12-en-long"], 8));
}, TIMEOUT_MS);
afterAll(async () => {
  await box?.remove();
  await group?.remove();
});

async function inGroup(...args: string[]) {
  const program = join(box.folder, "program/shruti");
  const command = group?.around([program, ...args, "--config", box.configPath]) ?? [];
  const child = Bun.spawn(command, {
    cwd: box.folder,
    env: {},
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out, err, code };
}

test.skipIf(group === undefined)(
  "a model whose chunks do not all fit has fewer at once, and no process is ended for lack of memory (needs root and control groups)",
  async () => {
    const { out: findings } = await inGroup("doctor", "--json");
    const chunks = Number(/(\d+) chunks at once \(auto\)/.exec(findings)?.[1]);
    expect(chunks).toBeGreaterThanOrEqual(1);
    expect(chunks).toBeLessThan(8);
    const { out, code } = await inGroup("transcribe", "long.wav", "--model", "base", "--language", "en");
    expect(code).toBe(0);
    expect(out.split(/\s+/).length).toBeGreaterThan(WORDS);
    expect(group?.kills()).toBe(0);
  },
  TIMEOUT_MS,
);
