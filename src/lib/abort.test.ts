import { expect, test } from "bun:test";
import { errorMessage } from "./error-message.ts";
import { untilAborted } from "./abort.ts";

const never = new Promise<never>(() => {});

test("a promise that settles first decides the outcome, and the listener is removed afterwards", async () => {
  const { signal } = new AbortController();
  expect(await untilAborted(Promise.resolve(7), signal)).toBe(7);
  await expect(untilAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
});

test("an abort ends the wait with its reason, before and during it", async () => {
  const reason = new Error("the limit is over");
  await expect(untilAborted(never, AbortSignal.abort(reason))).rejects.toBe(reason);
  const during = new AbortController();
  const waited = untilAborted(never, during.signal);
  during.abort(reason);
  await expect(waited).rejects.toBe(reason);
});

test("errorMessage gives any thrown value a message", () => {
  expect([new Error("text"), "text", 7, undefined].map(errorMessage)).toEqual([
    "text",
    "text",
    "7",
    "undefined",
  ]);
});
