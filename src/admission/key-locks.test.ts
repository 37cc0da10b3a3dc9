import { expect, test } from "bun:test";
import { createKeyLocks } from "./key-locks.ts";

test("work under one name runs in order, one at a time; work under other names runs beside it", async () => {
  const locks = createKeyLocks();
  const log: string[] = [];
  const work = (name: string, label: string, milliseconds: number) =>
    locks.run(name, new AbortController().signal, async () => {
      log.push(`${label} starts`);
      await Bun.sleep(milliseconds);
      log.push(`${label} ends`);
      if (label === "a2") throw new Error("a2 failed");
      return label;
    });
  const outcomes = await Promise.allSettled([
    work("a", "a1", 20),
    work("a", "a2", 1),
    work("a", "a3", 1),
    work("b", "b1", 5),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
  expect(log.filter((line) => line.startsWith("a"))).toEqual([
    "a1 starts",
    "a1 ends",
    "a2 starts",
    "a2 ends",
    "a3 starts",
    "a3 ends",
  ]);
  expect(log.indexOf("b1 ends")).toBeLessThan(log.indexOf("a1 ends"));
  expect(locks.size()).toBe(0);
});

test("work that is aborted while it waits does not run, and the order is kept", async () => {
  const locks = createKeyLocks();
  const stays = new AbortController();
  const leaves = new AbortController();
  const gate = Promise.withResolvers<void>();
  const log: string[] = [];
  const work = (signal: AbortSignal, label: string, until?: Promise<void>) =>
    locks.run("a", signal, async () => {
      log.push(`${label} starts`);
      await until;
      log.push(`${label} ends`);
    });
  const outcomes = [
    work(stays.signal, "a1", gate.promise),
    work(leaves.signal, "a2"),
    work(stays.signal, "a3"),
  ];
  leaves.abort(new Error("no time left"));
  await expect(outcomes[1]).rejects.toThrow("no time left");
  await Bun.sleep(1);
  gate.resolve();
  expect((await Promise.allSettled(outcomes)).map(({ status }) => status)).toEqual([
    "fulfilled",
    "rejected",
    "fulfilled",
  ]);
  expect(log).toEqual(["a1 starts", "a1 ends", "a3 starts", "a3 ends"]);
  expect(locks.size()).toBe(0);
});
