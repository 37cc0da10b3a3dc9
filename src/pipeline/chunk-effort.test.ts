import { expect, test } from "bun:test";
import type { ChunkRegion } from "../domain/chunk.ts";
import { createChunkEffort } from "./chunk-effort.ts";

const seconds = (from: number, to: number): ChunkRegion => ({
  startSample: from * 16_000,
  endSample: to * 16_000,
});

test("all attempts at a chunk share one budget", () => {
  const chunk = [seconds(1, 4), seconds(10, 12)];
  const effort = createChunkEffort(chunk);
  expect(effort.left()).toEqual({ ofMs: 5_000, most: 2.5 });
  effort.add({ effort: 1 }, chunk);
  expect(effort.left()).toEqual({ ofMs: 5_000, most: 1.5 });
  effort.add({ effort: 1.5 }, chunk);
  expect(effort.left()).toBeUndefined();
});

test("of families without a measure an attempt costs the share of the chunk that it hears", () => {
  const effort = createChunkEffort([seconds(0, 10)]);
  effort.add({}, [seconds(0, 10)]);
  effort.add({}, [seconds(2, 4), seconds(6, 9)]);
  expect(effort.left()?.most).toBe(1);
});
