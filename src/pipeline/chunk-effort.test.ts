import { expect, test } from "bun:test";
import { createChunkEffort } from "./chunk-effort.ts";

test("all calls for a chunk share one budget", () => {
  const effort = createChunkEffort(5_000);
  expect(effort.left()).toEqual({ ofMs: 5_000, most: 2.5 });
  effort.add({ effort: 1 });
  expect(effort.left()).toEqual({ ofMs: 5_000, most: 1.5 });
  // Families without a measure count nothing.
  effort.add({});
  expect(effort.left()?.most).toBe(1.5);
  effort.add({ effort: 1.5 });
  expect(effort.left()).toBeUndefined();
});
