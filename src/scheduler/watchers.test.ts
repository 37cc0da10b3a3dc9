import { expect, test } from "bun:test";
import { createWatchers } from "./watchers.ts";

test("functions are called for their identifier, until they are removed", () => {
  const watchers = createWatchers((error) => expect.unreachable(String(error)));
  const calls: string[] = [];
  const stop = watchers.watch("a", () => calls.push("first"));
  watchers.watch("a", () => calls.push("second"));
  watchers.notify("a");
  watchers.notify("b");
  stop();
  stop();
  watchers.notify("a");
  expect(calls).toEqual(["first", "second", "second"]);
});

test("a function that throws stops no other, and its error is reported", () => {
  const errors: unknown[] = [];
  const watchers = createWatchers((error) => errors.push(error));
  let calls = 0;
  watchers.watch("a", () => {
    throw new Error("as scripted");
  });
  watchers.watch("a", () => calls++);
  watchers.notify("a");
  expect([errors.length, calls]).toEqual([1, 1]);
});
