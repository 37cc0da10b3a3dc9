import { expect, test } from "bun:test";
import { beginWait, onAbort, untilAborted } from "./abort.ts";
import { errorMessage } from "./error-message.ts";

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

test("an abort calls once, at once where it came before, and never after the end of the watch", () => {
  const calls: string[] = [];
  onAbort(AbortSignal.abort(), () => calls.push("before"));
  expect(calls).toEqual(["before"]);
  const later = new AbortController();
  onAbort(later.signal, () => calls.push("later"));
  onAbort(later.signal, () => calls.push("ended"))();
  onAbort(undefined, () => calls.push("none"))();
  later.abort();
  expect(calls).toEqual(["before", "later"]);
});

test("a wait ends by its queue or by an abort, whichever comes first, and leaves its queue within the abort", async () => {
  const reason = new Error("gone");
  const begin = (signal: AbortSignal | undefined) => {
    const queue = new Set<unknown>();
    const wait = beginWait<number>(signal, () => queue.delete(wait));
    queue.add(wait);
    return { queue, wait };
  };
  const [served, left, refused] = [new AbortController(), new AbortController(), new AbortController()];
  const first = begin(served.signal);
  first.wait.resolve(1);
  served.abort(reason);
  expect(await first.wait.promise).toBe(1);
  expect(first.queue.size).toBe(1);
  const second = begin(left.signal);
  left.abort(reason);
  expect(second.queue.size).toBe(0);
  second.wait.resolve(2);
  await expect(second.wait.promise).rejects.toBe(reason);
  const third = begin(refused.signal);
  third.wait.reject(new Error("refused"));
  refused.abort(reason);
  await expect(third.wait.promise).rejects.toThrow("refused");
  const endless = begin(undefined);
  endless.wait.resolve(3);
  expect(await endless.wait.promise).toBe(3);
  expect(() => begin(AbortSignal.abort(reason))).toThrow(reason);
});

test("errorMessage gives any thrown value a message", () => {
  expect([new Error("text"), "text", 7, undefined].map(errorMessage)).toEqual([
    "text",
    "text",
    "7",
    "undefined",
  ]);
});
