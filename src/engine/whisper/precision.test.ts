import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sampleNames, samplePath, utterancesIn } from "../../e2e/samples.ts";
import { readProcessor } from "../../native/processor.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { Outcome } from "../../testing/programs/whisper-test-child.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

/** The project's own kernels against whisper.cpp's code, on all recordings of the demonstration model. */

const ROOT = join(import.meta.dirname, "../../..");
/** The best variant of the machine, and those for processors without AVX-512, and without bf16. */
const FLAGS = readProcessor()?.flags ?? new Set();
const HAS_VNNI = FLAGS.has("avx512vbmi") && FLAGS.has("avx512_vnni");
/** Each with the most recordings that end in a tie. The best one of a processor with VNNI and without bf16 is icelake. */
const VARIANTS: [string, number][] = [
  ["the best", HAS_VNNI && !FLAGS.has("avx512_bf16") ? 1 : 0],
  ["haswell", 0],
  ...(HAS_VNNI ? [["icelake", 1] satisfies [string, number]] : []),
];
/** The largest difference of a token's probability. Measured: 0.084 with zen4, 0.091 with icelake, 0.047 with haswell. */
const MOST_DIFFERENCE = 0.15;
/** Where both codes hesitate between two words, rounding decides. Measured: 0.49 and 0.53 for the one such word, with icelake. */
const MOST_OF_TIE = 0.6;

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

/** Returns the place of the first token that is another one in the other list; -1: there is none. */
function firstOther(tokens: Token[], others: Token[]): number {
  const longer = tokens.length < others.length ? others : tokens;
  return longer.findIndex((_, i) => tokens[i]?.text !== others[i]?.text);
}

/** A build for one machine lacks some of them. The tests of a release repeat this one with all processor code. */
const BUILT = VARIANTS.filter(
  ([name]) => name === "the best" || existsSync(join(NATIVE_DIR, `libggml-cpu-${name}.so`)),
);

test.if(process.arch === "x64").each(BUILT)(
  "fast and exact code give the same words, but for ties (code: %s) (needs x86-64)",
  async (name, mostTies) => {
    const variant = name === "the best" ? undefined : name;
    const fast = await recognizeAll("fast", variant);
    const exact = await recognizeAll("exact", variant);
    const firstOthers = fast.map((tokens, i) => firstOther(tokens, exact[i] ?? []));
    expect(firstOthers.filter((at) => at !== -1).length).toBeLessThanOrEqual(mostTies);
    const hesitations = firstOthers.flatMap((at, i) => (at === -1 ? [] : [fast[i]?.[at], exact[i]?.[at]]));
    expect(hesitations.filter((token) => !((token?.probability ?? 0) < MOST_OF_TIE))).toEqual([]);
    expect(fast.flat().length).toBeGreaterThan(100);
    // After another word, the tokens that follow are others, too.
    const same = (all: Token[][]) =>
      all.flatMap((tokens, i) => (firstOthers[i] === -1 ? tokens : tokens.slice(0, firstOthers[i])));
    const others = same(exact);
    const differences = same(fast).map(({ probability }, i) => probability - (others[i]?.probability ?? 0));
    const largest = Math.max(...differences.map(Math.abs));
    // Not 0: both would be the same code.
    expect(largest).toBeGreaterThan(0);
    expect(largest).toBeLessThan(MOST_DIFFERENCE);
  },
  300_000,
);
