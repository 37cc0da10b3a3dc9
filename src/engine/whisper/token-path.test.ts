import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** When words are spoken, with what heads look at given. */

const ROOT = join(import.meta.dirname, "../../..");
const WHISPER = join(ROOT, "src/native/whisper");
const folder = mkdtempSync(join(tmpdir(), "shruti-token-path-"));
const probe = join(folder, "probe");

beforeAll(async () => {
  const own = ["token-path.cc", "spoken-letters.cc"].map((name) => join(WHISPER, "alignment", name));
  const sources = [join(ROOT, "src/testing/native/token-path-probe.cc"), ...own];
  const checks = ["-std=c++17", "-Wall", "-Werror", "-fsanitize=address,undefined"];
  const folders = ["-I", join(WHISPER, "alignment"), "-I", join(WHISPER, "decoding")];
  await run("c++", ...checks, ...folders, ...sources, "-o", probe);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(...command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect({ err, status: await child.exited }).toEqual({ err: "", status: 0 });
  return out.trim();
}

/** Returns the frames of each word, and the shares behind them. */
async function find(words: readonly string[], { frames = 80, delay = 0 } = {}) {
  const found = (await run(probe, String(frames), String(delay), ...words)).split(" ");
  return { frames: found.slice(0, words.length), shares: found.slice(words.length).map(Number) };
}

test.each<[string, string[], string[], { frames?: number; delay?: number }]>([
  ["words are where heads look", ["one@10-25", "two@25-40"], ["10-25", "25-40"], {}],
  ["heads that look later are taken back", ["one@14-29", "two@29-44"], ["10-25", "25-40"], { delay: 4 }],
  [
    "a word that heads leave early keeps 0.7 of its letters' time",
    ["hundred@0-4", "two@4-50"],
    ["0-24", "24-50"],
    {},
  ],
  [
    "a word that heads leave early gets more of its letters' time",
    ["three@0-14", "is@14-35"],
    ["0-18", "18-35"],
    {},
  ],
  ["a word may be drawn out", ["three@0-60", "is@60-70"], ["0-60", "60-70"], {}],
  ["a short word may be short", ["a@0-4", "hundred@4-43"], ["0-4", "4-43"], {}],
  ["what is not heard takes a frame", ["...@0-1", "hundred@1-20"], ["0-1", "1-20"], {}],
  ["more letters than frames take one each", ["a@0-1", "abcdefghi@1-2"], ["0-1", "1-2"], { frames: 2 }],
])("%s", async (_, words, frames, options) => {
  expect((await find(words, options)).frames).toEqual(frames);
});

test("the share is that of all words, and of each one it is its own", async () => {
  const { shares } = await find(["one@10-25", "two@25-40", "six@60-60"]);
  const [all = 0, ...own] = shares;
  // The word that is not there takes a part of the one before.
  expect(own).toEqual([1.06, 0.88, 0]);
  // Half of the frames have nothing to look at.
  expect(all).toBe(0.64);
});

test.each<[string, number, boolean]>([
  ["", 0, false],
  [" don't, 2", 5, false],
  ["é ñ", 2, false],
  ["नमस्ते।", 9, false],
  ["কলকাতা", 10, false],
  ["தமிழ்", 7, false],
  ["پاکستان۔", 7, false],
  ["学校。", 6, true],
  ["がっこう", 8, true],
  ["、学校", 6, false],
  ["ไทย", 3, true],
  ["한국", 6, false],
  ["क्\u200Dष", 4, false],
  ["\u{1F600}", 1, false],
  ["ab\xff", 3, false],
])("%p is spoken as %d letters; written without spaces: %p", async (text, letters, isUnspaced) => {
  expect(await run(probe, text)).toBe(`${letters} ${isUnspaced ? 1 : 0}`);
});
