import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { type Installation, install, setInConfig } from "./kit.ts";
import { utterancesIn } from "./samples.ts";
import { joined, type Sound, sampleSound, silence, tone, wavOf, whiteNoise } from "./sounds.ts";

/** Tests word times of Whisper models on the executable where they are hard to find, or cannot be found. */

const ROOT = join(import.meta.dirname, "../..");
/** What manifests of the demonstration model say besides, or instead. */
const MANIFESTS = {
  plain: (manifest: string) => manifest,
  deaf: (manifest: string) => `${manifest}\nalignment_heads = [[0, 1]]\n`,
  untimed: (manifest: string) => `${manifest}\nalignment_heads = []\n`,
  delayed: (manifest: string) => manifest.replace(/alignment_delay_ms = -?\d+/, "alignment_delay_ms = 200"),
  short: (manifest: string) => manifest.replace(/max_chunk_seconds = \d+/, "max_chunk_seconds = 1"),
};
/** A word may begin so long before its speech, and end so long behind it. */
const TOLERANCE_SECONDS = 0.2;
const LIMIT_MS = 120_000;

let installation: Installation;
let config: string;
beforeAll(async () => {
  installation = await install({ environment: { SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true" } });
  config = readFileSync(installation.configPath, "utf8");
  const demo = readFileSync(join(ROOT, "models/demo.toml"), "utf8");
  mkdirSync(join(installation.dataDir, "models"), { recursive: true });
  for (const [id, change] of Object.entries(MANIFESTS)) {
    copyFileSync(join(ROOT, "models/demo.bin"), join(installation.dataDir, "models", `${id}.bin`));
    const manifest = change(demo.replace('id = "demo"', `id = "${id}"`));
    writeFileSync(join(installation.dataDir, "models", `${id}.toml`), manifest);
  }
}, LIMIT_MS);
afterAll(() => installation?.remove(), 60_000);

type Timed = { text: string; start: number; end: number };

async function transcribed(model: keyof typeof MANIFESTS, sound: Sound): Promise<TranscriptionResult> {
  const path = join(installation.folder, "sound.wav");
  writeFileSync(path, wavOf(sound));
  const options = ["--model", model, "--language", "en", "--timestamps", "word", "--format", "json"];
  return JSON.parse(await installation.output("transcribe", path, ...options)) as TranscriptionResult;
}

const wordsOf = ({ segments }: TranscriptionResult): Timed[] => segments.flatMap(({ words = [] }) => words);

/** Expects words that are those of their segments, in order, and within the recording; or a warning where a segment has none. */
function expectOrder({ segments, warnings }: TranscriptionResult, seconds: number): void {
  let last = 0;
  expect(warnings.includes("word_times_missing")).toBe(segments.some(({ words }) => !words));
  for (const { text, start = 0, end = 0, words } of segments) {
    if (!words) continue;
    expect(words.map((word) => word.text).join(" ")).toBe(text);
    for (const word of words) {
      expect(word.start).toBeGreaterThanOrEqual(Math.max(last, start));
      expect(word.end).toBeGreaterThan(word.start);
      expect(word.end).toBeLessThanOrEqual(end);
      last = word.end;
    }
  }
  expect(last).toBeLessThanOrEqual(seconds);
}

const secondsOf = ({ channels, rateHz }: Sound) => (channels[0]?.length ?? 0) / rateHz;

/** Makes a sound so many times as long, and as deep. */
function slowed({ rateHz, channels }: Sound, times: number): Sound {
  const slow = (values: Float32Array) =>
    Float32Array.from({ length: values.length * times }, (_, i) => values[Math.floor(i / times)] ?? 0);
  return { rateHz, channels: channels.map(slow) };
}

const SENTENCES = sampleSound("04-en");

test(
  "heads that look anywhere give segments as without words, and a warning",
  async () => {
    const { segments, warnings } = await transcribed("deaf", SENTENCES);
    const plain = await transcribed("plain", SENTENCES);
    expect(segments.length).toBeGreaterThan(0);
    expect(segments.map(({ text }) => text)).toEqual(plain.segments.map(({ text }) => text));
    expect(segments.flatMap(({ words }) => words ?? [])).toEqual([]);
    expect(warnings).toContain("word_times_missing");
    expect(plain.warnings).not.toContain("word_times_missing");
  },
  LIMIT_MS,
);

test(
  "a model without heads is refused words, and transcribes without them",
  async () => {
    const path = join(installation.folder, "refused.wav");
    writeFileSync(path, wavOf(SENTENCES));
    const options = ["transcribe", path, "--model", "untimed", "--language", "en"];
    const refused = await installation.command(...options, "--timestamps", "word");
    expect(refused.code).not.toBe(0);
    expect(refused.out).toBe("");
    expect(refused.err).toContain("timestamps.word");
    expect(await installation.output(...options)).not.toBe("");
  },
  LIMIT_MS,
);

test(
  "the delay of a manifest moves words inside speech, and neither out of it nor past each other",
  async () => {
    const [plain, delayed] = [await transcribed("plain", SENTENCES), await transcribed("delayed", SENTENCES)];
    const [before, after] = [wordsOf(plain), wordsOf(delayed)];
    expect(after.map(({ text }) => text)).toEqual(before.map(({ text }) => text));
    const moved = after.map(({ start }, n) => start - (before[n]?.start ?? 0));
    expect(Math.min(...moved)).toBeLessThan(-0.05);
    expectOrder(delayed, secondsOf(SENTENCES));
    const speech = utterancesIn("04-en");
    for (const { start, end } of after)
      expect(
        speech.some((each) => start < each.end + TOLERANCE_SECONDS && end > each.start - TOLERANCE_SECONDS),
      ).toBe(true);
  },
  LIMIT_MS,
);

test.each<[string, Sound]>([
  ["silence", silence(4)],
  ["noise", joined(whiteNoise(4, -40), silence(1))],
  ["a tone", joined(silence(0.5), tone(3, 440, -20), silence(0.5))],
])(
  "%s has no words, and nothing is missing",
  async (_, sound) => {
    const { segments, warnings } = await transcribed("plain", sound);
    expect(segments).toEqual([]);
    expect(warnings).not.toContain("word_times_missing");
  },
  LIMIT_MS,
);

test(
  "words that are longer than a chunk are cut with it, and stay in order",
  async () => {
    // Each word takes a second and more, and a chunk is one.
    const slow = joined(silence(0.5), slowed(sampleSound("01-en"), 4), silence(0.5));
    expectOrder(await transcribed("short", slow), secondsOf(slow));
    const usual = await transcribed("short", SENTENCES);
    expectOrder(usual, secondsOf(SENTENCES));
    expect(wordsOf(usual).length).toBeGreaterThan(0);
  },
  LIMIT_MS,
);

test(
  "the exact engine times the same words within the same speech",
  async () => {
    const fast = await transcribed("plain", SENTENCES);
    expect(config).toMatch(/^#? ?precision = "fast"$/m);
    setInConfig(installation, "precision", "exact");
    const exact = await transcribed("plain", SENTENCES);
    writeFileSync(installation.configPath, config);
    expectOrder(exact, secondsOf(SENTENCES));
    const found = wordsOf(exact);
    expect(found.map(({ text }) => text)).toEqual(wordsOf(fast).map(({ text }) => text));
    for (const [n, { start }] of wordsOf(fast).entries())
      expect(Math.abs(start - (found[n]?.start ?? 0))).toBeLessThanOrEqual(TOLERANCE_SECONDS);
  },
  LIMIT_MS,
);
