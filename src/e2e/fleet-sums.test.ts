import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addPart, NOTHING, type RunPart } from "./fleet-sums.ts";

test("parts of the long form add up, also those that failed", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-fleet-sums-"));
  try {
    const path = join(folder, "sums.jsonl");
    const part: RunPart = {
      ...NOTHING,
      ...{
        faults: { killed: 2, frozen: 1 },
        recoveries: { killed: [1, 4, 2] },
        installations: 3,
        seconds: 60,
      },
      ...{ transcriptions: 5, chunks: 100, twice: 0 },
    };
    addPart(path, part);
    const sums = addPart(path, { ...part, faults: { frozen: 4 }, twice: 1, problem: "not within 1 s" });
    expect(JSON.parse(sums)).toEqual({
      ...{ parts: 2, failed: 1, seconds: 120, faults: 7, transcriptions: 10, chunks: 200, twice: 1 },
      kinds: { killed: 2, frozen: 5 },
      recoveries: { killed: { median: 2, longest: 4 } },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
