import { expect, spyOn, test } from "bun:test";
import * as kept from "../lib/kept.ts";
import { NO_ACTS, withAct } from "./correction-acts.ts";
import { createCorrections, forgetCorrections } from "./corrections.ts";

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
  // It can be taken back where it is shown.
  expect(other?.undo()).toBe(2);
  for (let left = 100; left > 0 && one?.all.value.has(2); left -= 1) await Bun.sleep(10);
  expect([one?.all.value.size, foreign?.all.value.size]).toEqual([0, 0]);
  for (const each of [one, other, foreign]) each?.close();
});

test("a correction that the browser does not forget counts as not kept", async () => {
  const corrections = createCorrections("tr_forget");
  const original = { index: 0, original: "a", text: "a" };
  expect(await corrections.set([original])).toBe(true);
  const refusing = spyOn(kept, "forget").mockRejectedValue(new Error("the disk is full"));
  expect(await corrections.set([original])).toBe(false);
  expect(corrections.isKept.value).toBe(false);
  refusing.mockRestore();
  corrections.close();
});

/** Here it is the memory of the module that keeps, which another page does not have. */
const openAgain = async (id: string) => {
  const corrections = createCorrections(id);
  await corrections.load();
  return corrections;
};

test("what was done can be taken back and made again after the page was loaded again", async () => {
  const first = createCorrections("tr_again");
  const texts = ({ all }: typeof first) => [...all.value].map(([index, { text }]) => [index, text]);
  await first.set([{ index: 0, original: "a", text: "one" }]);
  await first.set([{ index: 0, original: "a", text: "two" }]);
  await first.set([{ index: 7, original: "h", text: "three" }]);
  first.undo();
  first.close();
  const second = await openAgain("tr_again");
  expect(texts(second)).toEqual([[0, "two"]]);
  expect([second.redo(), texts(second)]).toEqual([
    7,
    [
      [0, "two"],
      [7, "three"],
    ],
  ]);
  for (let left = 3; left > 0; left -= 1) second.undo();
  expect([second.undo(), texts(second)]).toEqual([undefined, []]);
  second.close();
});

test("what is corrected while the browser still reads is not replaced by what it kept before", async () => {
  const first = createCorrections("tr_reading");
  await first.set([0, 1, 2].map((index) => ({ index, original: "a", text: "before" })));
  first.setDraft(5, "typed before");
  first.close();
  const second = createCorrections("tr_reading");
  const isLoaded = second.load();
  void second.set([{ index: 0, original: "a", text: "after" }]);
  void second.set([{ index: 1, original: "a", text: "a" }]);
  second.setDraft(5, "typed after");
  second.setDraft(5, undefined);
  await isLoaded;
  expect(second.all.value.get(0)?.text).toBe("after");
  expect([second.all.value.has(1), second.all.value.get(2)?.text]).toEqual([false, "before"]);
  expect(second.drafts.value.size).toBe(0);
  expect([second.undo(), second.undo(), second.undo()]).toEqual([1, 0, undefined]);
  second.close();
  const third = createCorrections("tr_reading");
  const isRead = third.load();
  forgetCorrections();
  await isRead;
  expect(third.all.value.size).toBe(0);
  third.close();
});

test("old acts are forgotten, and never the newest", () => {
  const act = (count: number) => Array.from({ length: count }, (_, index) => ({ index, before: undefined }));
  let acts = NO_ACTS;
  for (let number = 0; number < 5; number += 1) acts = withAct(acts, act(600));
  expect(acts.past).toHaveLength(3);
  expect(withAct(acts, act(9000)).past.map(({ length }) => length)).toEqual([9000]);
});
