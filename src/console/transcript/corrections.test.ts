import { expect, test } from "bun:test";
import { createCorrections } from "./corrections.ts";

test("what was undone can be made again, until another correction is made", () => {
  const corrections = createCorrections("tr_undo");
  const texts = () => [...corrections.all.value].map(([index, { text }]) => [index, text]);
  void corrections.set([{ index: 0, original: "a", text: "one" }]);
  void corrections.set([
    { index: 0, original: "a", text: "two" },
    { index: 3, original: "d", text: "three" },
  ]);
  const after = texts();
  expect([corrections.undo(), texts()]).toEqual([0, [[0, "one"]]]);
  expect([corrections.undo(), texts()]).toEqual([0, []]);
  expect(corrections.undo()).toBeUndefined();
  expect([corrections.redo(), texts()]).toEqual([0, [[0, "one"]]]);
  expect([corrections.redo(), texts()]).toEqual([0, after]);
  expect(corrections.redo()).toBeUndefined();
  corrections.undo();
  void corrections.set([{ index: 5, original: "e", text: "other" }]);
  expect(corrections.redo()).toBeUndefined();
  expect(texts()).toEqual([
    [0, "one"],
    [5, "other"],
  ]);
  corrections.close();
});

test("a browser that keeps nothing is noticed, and the correction lives with the page", async () => {
  // Here there is no IndexedDB at all.
  const corrections = createCorrections("tr_kept");
  expect(corrections.isKept.value).toBe(true);
  expect(await corrections.set([{ index: 0, original: "a", text: "one" }])).toBe(false);
  expect(corrections.isKept.value).toBe(false);
  expect(corrections.all.value.get(0)?.text).toBe("one");
  corrections.close();
});

test("what is corrected in one tab is corrected in the others, and only in those of the same transcription", async () => {
  const [one, other, foreign] = ["tr_tabs", "tr_tabs", "tr_other"].map(createCorrections);
  void one?.set([{ index: 2, original: "c", text: "corrected" }]);
  for (let left = 100; left > 0 && !other?.all.value.has(2); left -= 1) await Bun.sleep(10);
  expect(other?.all.value.get(2)?.text).toBe("corrected");
  one?.undo();
  for (let left = 100; left > 0 && other?.all.value.has(2); left -= 1) await Bun.sleep(10);
  expect([other?.all.value.size, foreign?.all.value.size]).toEqual([0, 0]);
  for (const each of [one, other, foreign]) each?.close();
});
