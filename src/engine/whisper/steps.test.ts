import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath } from "../../e2e/samples.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { openWideModel } from "../../testing/makers/wide-model.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { InThreadGroups } from "../../testing/programs/whisper-test-child.ts";

/** Transcriptions that make their decoding steps together, with whisper.cpp and the demonstration model. */

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");
const BACKEND = process.env.SHRUTI_TEST_BACKEND;
/** Mono WAVs. */
const SAMPLES = ["01-en", "02-hi", "03-mixed", "04-en", "14-en-hesitation", "13-hi-noise"];
const ABORTED_WITHIN_MS = 2_000;

const dir = mkdtempSync(join(tmpdir(), "shruti-steps-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

type Options = {
  samples: readonly string[];
  limitMs: number;
  model?: string;
  backend?: string | undefined;
  threadGroups?: number;
};

function runChild({ samples, limitMs, model = DEMO, ...options }: Options): Promise<InThreadGroups> {
  const audio = samples.map((name) => ({ path: samplePath(name) }));
  const request = { models: [model], audio, ...options };
  return askWhisperChild<InThreadGroups>("inThreadGroups", request, limitMs);
}

function expectSame({ alone, together, steps, disturbed, aborted, sampled }: InThreadGroups): void {
  expect(alone.filter(({ text, probabilities }) => text === "" || probabilities.length === 0)).toEqual([]);
  expect(alone.some(({ words }) => words.length > 0)).toBe(true);
  expect(together).toEqual(alone);
  expect(steps.steps).toBeGreaterThan(0);
  expect(steps.tokens).toBeGreaterThan(steps.steps);
  expect(disturbed).toEqual(alone);
  for (const { outcome, tookMs } of aborted) {
    if ("error" in outcome) expect(outcome.error).toBe("AbortError");
    expect(tookMs).toBeLessThan(ABORTED_WITHIN_MS);
  }
  expect(sampled.every((outcome) => "value" in outcome)).toBe(true);
}

const LIMIT_MS = 120_000;
test(
  "words and probabilities are exactly those of a chunk alone, whatever happens to others in the same thread groups",
  async () => expectSame(await runChild({ samples: SAMPLES, limitMs: LIMIT_MS })),
  LIMIT_MS,
);

test.each(["q4_k", "q6_k"])(
  "the same holds with weights of %s",
  async (type) => {
    const model = join(dir, `${type}.bin`);
    openWideModel(DEMO, NATIVE_DIR)(model, type);
    expectSame(await runChild({ samples: SAMPLES.slice(0, 3), limitMs: LIMIT_MS, model }));
  },
  LIMIT_MS,
);

/** A software device encodes a window in 5 to 20 s. */
const GPU_LIMIT_MS = 900_000;
describe.skipIf(BACKEND === undefined)("on a GPU (needs SHRUTI_TEST_BACKEND)", () => {
  test(
    "the same holds in the one thread group of a GPU",
    async () => {
      const found = await runChild({
        ...{ samples: SAMPLES.slice(0, 3), limitMs: GPU_LIMIT_MS, backend: BACKEND, threadGroups: 1 },
      });
      // An encoder pass on a software device is not aborted. The worker process is killed then.
      expectSame({ ...found, aborted: found.aborted.map((one) => ({ ...one, tookMs: 0 })) });
    },
    GPU_LIMIT_MS,
  );
});
