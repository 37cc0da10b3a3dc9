import { expect, test } from "bun:test";
import { getPriority } from "node:os";
import { join } from "node:path";
import { samplePath } from "../../e2e/samples.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { Niceness } from "../../testing/programs/whisper-test-child.ts";

/** How urgent threads are for the system, with whisper.cpp and the demonstration model. */

const ROOT = join(import.meta.dirname, "../../..");
const CHILD_LIMIT_MS = 300_000;
/** The highest niceness of the test. The system knows 19 at most. */
const HIGHEST = 7;

test.skipIf(getPriority() + HIGHEST > 19)(
  "all threads of a transcription have its niceness, also those that an earlier one with another niceness has left (needs a run that is not nice)",
  async () => {
    const options = [
      { niceness: 4, threadGroups: 2, groupThreads: 2 },
      { niceness: 4, threads: 2 },
      { niceness: 0, threads: 2 },
      { niceness: HIGHEST, threads: 2 },
      { threads: 1 },
    ];
    const request = {
      models: [join(ROOT, "models/demo.bin")],
      audio: [{ path: samplePath("01-en") }],
      options,
    };
    const seen = await askWhisperChild<Niceness>("niceness", request, CHILD_LIMIT_MS);
    for (const [index, { niceness = 0, threads = 1, groupThreads = 1 }] of options.entries()) {
      const busy = seen[index] ?? [];
      const own = busy.filter((value) => value === niceness);
      expect(own.length).toBeGreaterThanOrEqual(Math.max(threads, groupThreads));
      // Threads of the runtime are as urgent as the process.
      expect(busy.filter((value) => value !== niceness && value !== 0)).toEqual([]);
    }
  },
  CHILD_LIMIT_MS,
);
