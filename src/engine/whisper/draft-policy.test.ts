import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How many tokens a draft model writes ahead, and when none, with times that are given. */

const ROOT = join(import.meta.dirname, "../../..");
const DRAFTING = join(ROOT, "src/native/whisper/drafting");
const folder = mkdtempSync(join(tmpdir(), "shruti-draft-policy-"));
const probe = join(folder, "probe");

beforeAll(async () => {
  const sources = [join(ROOT, "src/testing/native/draft-policy-probe.cc"), join(DRAFTING, "draft-policy.cc")];
  const checks = ["-std=c++17", "-Wall", "-Werror", "-fsanitize=address,undefined"];
  await run("c++", ...checks, "-I", DRAFTING, ...sources, "-lpthread", "-o", probe);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(...command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect({ err, status: await child.exited }).toEqual({ err: "", status: 0 });
  return out;
}

type Times = { alone: number; draft: number; batch: number; encoder: number };

/** Returns the tokens of the last draft in each of so many windows. */
async function play({ alone, draft, batch, encoder }: Times, agrees: number, windows: number) {
  const out = await run(probe, ...[alone, draft, batch, encoder, agrees, windows].map(String));
  return out.trim().split(" ").map(Number);
}

const LARGE = { alone: 20, draft: 1, batch: 0.5, encoder: 100 };

test("a draft that is accepted whole grows up to the tokens of a pass", async () => {
  expect(await play(LARGE, 15, 3)).toEqual([11, 11, 11]);
});

test("a draft of which little is accepted becomes short, and stays where that pays", async () => {
  expect(await play(LARGE, 1, 4)).toEqual([2, 2, 2, 2]);
});

test("without gain there are breaks, each twice as long as the one before, up to 64 windows", async () => {
  const windows = await play({ ...LARGE, draft: 20 }, 1, 200);
  const drafted = windows.flatMap((ahead, window) => (ahead > 0 ? [window] : []));
  const breaks = drafted.slice(1).map((window, n) => window - (drafted[n] ?? 0) - 1);
  expect(breaks.slice(0, 5)).toEqual([4, 8, 16, 32, 64]);
});

test("where steps gain, and less than the draft model's encoder costs, there are breaks, too", async () => {
  const windows = await play({ alone: 1, draft: 0.1, batch: 0.05, encoder: 100 }, 15, 12);
  expect(windows[0]).toBeGreaterThan(0);
  expect(windows.slice(1, 5)).toEqual([0, 0, 0, 0]);
});
