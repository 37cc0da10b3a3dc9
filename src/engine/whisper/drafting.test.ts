import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath } from "../../e2e/samples.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { openWideModel } from "../../testing/makers/wide-model.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { Drafted, Outcome } from "../../testing/programs/whisper-test-child.ts";
import type { WhisperOptions } from "./whisper-model.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

/** A small model that drafts for a larger one, with whisper.cpp and the demonstration model. */

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");
const LIMIT_MS = 240_000;

const dir = mkdtempSync(join(tmpdir(), "shruti-drafting-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Returns a copy of the demonstration model that agrees with it only now and then. */
function otherModel(): string {
  const path = join(dir, "other.bin");
  const bytes = readFileSync(DEMO);
  const name = "decoder.ln.bias";
  const at = bytes.indexOf(name) + name.length;
  // The head of a tensor ends with its name. These numbers are floats.
  for (let i = 0; i < 128; i++)
    bytes.writeFloatLE(bytes.readFloatLE(at + 4 * i) + Math.sin(7 * i), at + 4 * i);
  writeFileSync(path, bytes);
  return path;
}

function copiedModel(): string {
  const path = join(dir, "copy.bin");
  copyFileSync(DEMO, path);
  return path;
}

const wideModels = openWideModel(DEMO, NATIVE_DIR);
function wideModel(type: string): string {
  const path = join(dir, `wide-${type}.bin`);
  wideModels(path, type);
  return path;
}

/** Sets of options whose rules bound each token. */
const OPTIONS: Partial<WhisperOptions>[] = [
  { words: true },
  { initialPrompt: "\u0928\u092e\u0938\u094d\u0924\u0947 hello", words: true },
  { heldBack: "[a-z]", language: "hi" },
  { timestamps: false, maxTokens: 30 },
  { maxTokens: 9, suppressNonSpeech: true },
  // Each attempt fails, and those behind the first one draw samples.
  {
    strategy: { name: "greedy", bestOf: 3 },
    temperatureIncrement: 0.5,
    logprobThreshold: 0,
    words: true,
  },
  // The text ends in its middle, because it has cost what it may.
  { budget: { left: 12, encoderSteps: 1 } },
  { strategy: { name: "beam", beamSize: 3, bestOf: 3 } },
];

/** The sets that say most. */
const FEW_OPTIONS = OPTIONS.slice(0, 3);

type Asked = {
  model?: string;
  draft: string;
  ahead?: number;
  samples: string[];
  options?: Partial<WhisperOptions>[];
};

function ask({ model = DEMO, draft, ahead, samples, options = FEW_OPTIONS }: Asked): Promise<Drafted> {
  const audio = samples.map((name) => ({ path: samplePath(name) }));
  const request = { models: [model, draft], audio, options, ...(ahead === undefined ? {} : { ahead }) };
  return askWhisperChild<Drafted>("drafted", request, LIMIT_MS);
}

const segmentsOf = (outcome: Outcome | undefined) =>
  outcome && "value" in outcome ? (outcome.value as WhisperSegment[]) : [];

function expectSame({ failure, plain, drafted, beside }: Drafted): void {
  expect(failure).toBeUndefined();
  expect(plain.every((outcome) => "value" in outcome)).toBe(true);
  expect(plain.flatMap(segmentsOf).some(({ words }) => words !== undefined)).toBe(true);
  expect(drafted).toEqual(plain);
  expect(beside).toHaveLength(plain.length);
  // Samples and beams are drawn by chance, which depends on what runs beside.
  const isGreedy = (n: number) => plain.length % OPTIONS.length > 0 || ![5, 7].includes(n % OPTIONS.length);
  for (const [n, outcome] of beside.entries()) if (isGreedy(n)) expect(outcome).toEqual(plain[n] as Outcome);
}

describe("texts, tokens, probabilities, times and languages are those without a draft", () => {
  test(
    "with a draft that always agrees",
    async () => {
      const found = await ask({
        draft: copiedModel(),
        ahead: 4,
        samples: ["02-hi", "13-hi-noise"],
        options: OPTIONS,
      });
      expectSame(found);
      // What it writes behind the end of a text is not asked for.
      expect(found.counts.accepted).toBeGreaterThan(0.8 * found.counts.drafted);
      expect(found.steps.drafted).toBeLessThan(0.6 * found.steps.plain);
    },
    LIMIT_MS,
  );

  test.each([1, 11, 15])(
    "with a draft that seldom agrees, %d tokens ahead",
    async (ahead) => {
      const found = await ask({ draft: otherModel(), ahead, samples: ["14-en-hesitation"] });
      expectSame(found);
      expect(found.counts.drafted).toBeGreaterThan(0);
      expect(found.counts.accepted).toBeLessThan(found.counts.drafted);
    },
    LIMIT_MS,
  );

  test.each(["f16", "q8_0", "q5_0", "q4_k", "q6_k"])(
    "with weights of %s, and a draft of half the width",
    async (type) => {
      const found = await ask({
        model: wideModel(type),
        draft: DEMO,
        ahead: 6,
        samples: ["02-hi"],
      });
      expectSame(found);
      expect(found.counts.accepted).toBeGreaterThan(0);
    },
    LIMIT_MS,
  );

  test(
    "while times decide how far it goes ahead",
    async () =>
      expectSame(await ask({ model: wideModel("q5_1"), draft: DEMO, samples: ["01-en", "13-hi-noise"] })),
    LIMIT_MS,
  );
});

test(
  "a draft with other tokens is left out, and the model works without",
  async () => {
    const path = join(dir, "tokens.bin");
    const bytes = readFileSync(DEMO);
    const token = bytes.indexOf(" the");
    bytes.write(" thx", token);
    writeFileSync(path, bytes);
    const found = await ask({ draft: path, ahead: 4, samples: ["01-en"] });
    expect(found.failure).toBe("the draft model has other tokens");
    expect(found.counts.drafted).toBe(0);
    expectSame({ ...found, failure: undefined });
  },
  LIMIT_MS,
);
