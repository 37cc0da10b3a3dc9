import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sampleNames, samplePath, utterancesIn } from "../../e2e/samples.ts";
import { askWhisperChild } from "../../testing/ask-whisper-child.ts";
import type { Outcome } from "../../testing/whisper-test-child.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

/** The project's own kernels against whisper.cpp's code, on all recordings of the demonstration model. */

const ROOT = join(import.meta.dirname, "../../..");
/** The best variant of the machine, and the one for processors without AVX-512. */
const VARIANTS = ["the best", "haswell"];
/** Of the probability of a token. Measured: 0.069 with bf16, 0.050 with floats. */
const MOST_DIFFERENCE = 0.15;

let dir = "";
let audio: { path: string; language: string }[] = [];
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "shruti-precision-"));
  audio = sampleNames.map((name) => {
    const path = join(dir, `${name}.wav`);
    const input = ["-nostdin", "-loglevel", "error", "-i", `file:${samplePath(name)}`];
    const decoded = Bun.spawnSync(["ffmpeg", ...input, "-ac", "1", "-ar", "16000", "-f", "s16le", "pipe:1"]);
    expect(decoded.stderr.toString()).toBe("");
    // The child skips the head of a WAV file without a look at it.
    writeFileSync(path, Buffer.concat([Buffer.alloc(44), decoded.stdout]));
    return { path, language: utterancesIn(name)[0]?.language ?? "" };
  });
}, 60_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

type Token = { text?: string | undefined; probability: number };

/** Returns the tokens of each recording. */
async function recognizeAll(precision: "fast" | "exact", variant: string | undefined): Promise<Token[][]> {
  const all: Token[][] = [];
  for (const language of ["en", "hi"]) {
    const model = join(ROOT, "models/demo.bin");
    const request = { models: [model], options: [{ language }], precision, variant };
    const own = { ...request, audio: audio.filter((one) => one.language === language) };
    const outcomes = await askWhisperChild<Outcome[][]>("transcribeEach", own, 280_000);
    for (const outcome of outcomes.flat()) {
      if ("error" in outcome) throw new Error(outcome.message);
      all.push((outcome.value as WhisperSegment[]).flatMap(({ tokens }) => tokens));
    }
  }
  return all;
}

test.if(process.arch === "x64").each(VARIANTS)(
  "fast and exact code give the same words (code: %s)",
  async (name) => {
    const variant = name === "haswell" ? name : undefined;
    const fast = await recognizeAll("fast", variant);
    const exact = await recognizeAll("exact", variant);
    const words = (all: Token[][]) => all.map((tokens) => tokens.map(({ text }) => text).join(""));
    expect(words(fast)).toEqual(words(exact));
    expect(fast.flat().length).toBeGreaterThan(100);
    const others = exact.flat();
    const differences = fast.flat().map(({ probability }, i) => probability - (others[i]?.probability ?? 0));
    const largest = Math.max(...differences.map(Math.abs));
    // Not 0: both would be the same code.
    expect(largest).toBeGreaterThan(0);
    expect(largest).toBeLessThan(MOST_DIFFERENCE);
  },
  300_000,
);
