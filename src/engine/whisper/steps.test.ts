import { expect, test } from "bun:test";
import { join } from "node:path";
import { samplePath } from "../../e2e/samples.ts";
import type { InLanes } from "../../testing/whisper-test-child.ts";

/** Transcriptions that make their decoding steps together, with whisper.cpp and the demonstration model. */

const ROOT = join(import.meta.dirname, "../../..");
const NATIVE_DIR = join(ROOT, "build/native");
const CHILD_LIMIT_MS = 120_000;
/** Mono WAVs. */
const SAMPLES = ["01-en", "02-hi", "03-mixed", "04-en", "14-en-hesitation", "13-hi-noise"];

test(
  "words and probabilities are exactly those of a chunk alone, whatever happens to others in the same lanes",
  async () => {
    const audio = SAMPLES.map((name) => ({ path: samplePath(name) }));
    const request = JSON.stringify({ models: [join(ROOT, "models/demo.bin")], audio });
    const script = join(ROOT, "src/testing/whisper-test-child.ts");
    const child = Bun.spawn([process.execPath, script, NATIVE_DIR, "inLanes", request], {
      stdout: "pipe",
      stderr: "pipe",
      timeout: CHILD_LIMIT_MS,
    });
    const [stdout, stderr] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    expect({ code: await child.exited, stderr }).toEqual({ code: 0, stderr: "" });
    const { alone, together, disturbed, aborted, sampled } = JSON.parse(stdout) as InLanes;
    expect(alone.filter(({ text, probabilities }) => text === "" || probabilities.length === 0)).toEqual([]);
    expect(together).toEqual(alone);
    expect(disturbed).toEqual(alone);
    for (const { outcome, tookMs } of aborted) {
      if ("error" in outcome) expect(outcome.error).toBe("AbortError");
      expect(tookMs).toBeLessThan(2_000);
    }
    expect(sampled.every((outcome) => "value" in outcome)).toBe(true);
  },
  CHILD_LIMIT_MS,
);
