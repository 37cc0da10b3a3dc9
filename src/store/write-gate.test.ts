import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Database, openDatabase, transaction } from "./database.ts";
import { isLocked } from "./disk-full.ts";
import { settings } from "./schema.ts";
import { NOTICED_AFTER_MS } from "./write-gate.ts";

let folder: string;
let database: Database;
let other: Database;
const said: string[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-gate-"));
  database = openDatabase(join(folder, "shruti.db"));
  other = openDatabase(join(folder, "shruti.db"));
  said.length = 0;
  database.gate.serve({ onLocked: () => said.push("locked"), onFree: () => said.push("free") });
});
afterEach(() => {
  other.close();
  database.close();
  rmSync(folder, { recursive: true });
});

const lock = () => void other.sqlite.run("BEGIN IMMEDIATE");
const unlock = () => void other.sqlite.run("ROLLBACK");
const names = () =>
  other.store
    .select()
    .from(settings)
    .all()
    .map(({ name }) => name);
const insert = (name: string) => () =>
  transaction(database.store, (tx) => tx.insert(settings).values({ name, value: 1, updatedAt: 0 }).run());
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test("work waits for the lock of another program in its order, is done once, and the event loop runs meanwhile", async () => {
  lock();
  let worstMs = 0;
  let last = performance.now();
  const watch = setInterval(() => {
    worstMs = Math.max(worstMs, performance.now() - last);
    last = performance.now();
  }, 5);
  const done: string[] = [];
  const all = ["a", "b", "c"].map((name) => database.gate.run(insert(name)).then(() => done.push(name)));
  await Bun.sleep(NOTICED_AFTER_MS + 400);
  expect([names(), done, said]).toEqual([[], [], ["locked"]]);
  expect(database.gate.lockedMs()).toBeGreaterThan(NOTICED_AFTER_MS);
  unlock();
  await Promise.all(all);
  clearInterval(watch);
  expect([names(), done, said]).toEqual([
    ["a", "b", "c"],
    ["a", "b", "c"],
    ["locked", "free"],
  ]);
  expect(database.gate.lockedMs()).toBe(0);
  // SQLite alone would have blocked for the whole time.
  expect(worstMs).toBeLessThan(500);
});

test("a transaction outside the gate fails at once while the lock is known to be held", async () => {
  lock();
  expect(isLocked(await failureOf(database.gate.passed({ withinMs: 1 })))).toBe(true);
  const begun = performance.now();
  for (let n = 0; n < 20; n++) expect(insert("a")).toThrow();
  expect(performance.now() - begun).toBeLessThan(200);
  unlock();
  await database.gate.run(insert("a"));
  expect(names()).toEqual(["a"]);
});

test("a wait ends after its time, with its signal, and with the stop of the server", async () => {
  lock();
  const begun = performance.now();
  expect(isLocked(await failureOf(database.gate.run(insert("a"), { withinMs: 200 })))).toBe(true);
  expect(performance.now() - begun).toBeGreaterThan(150);
  const stop = new AbortController();
  const stopped = failureOf(database.gate.run(insert("b"), { signal: stop.signal }));
  const waiting = failureOf(database.gate.run(insert("c")));
  stop.abort(new Error("gone"));
  expect(await stopped).toEqual(new Error("gone"));
  database.gate.giveUp();
  expect(isLocked(await waiting)).toBe(true);
  // What a stop still writes is tried once.
  expect(isLocked(await failureOf(database.gate.run(insert("d"))))).toBe(true);
  unlock();
  await database.gate.run(insert("e"));
  expect(names()).toEqual(["e"]);
});

test("work whose turn has not come when the server stops is done, where the lock is free", async () => {
  lock();
  const first = database.gate.run(insert("a"));
  const second = first.then(() => database.gate.giveUp());
  const waiting = failureOf(database.gate.run(insert("b")));
  await Bun.sleep(100);
  unlock();
  await second;
  expect(await waiting).toBeUndefined();
  expect(names()).toEqual(["a", "b"]);
});

test("an error of the work itself is passed on at once, and a command does not wait here", async () => {
  const failure = new Error("no");
  expect(
    await failureOf(
      database.gate.run(() => {
        throw failure;
      }),
    ),
  ).toBe(failure);
  const command = openDatabase(join(folder, "shruti.db"), { busyTimeoutMs: 0 });
  lock();
  const write = () => transaction(command.store, (tx) => tx.delete(settings).run());
  expect(isLocked(await failureOf(command.gate.run(write)))).toBe(true);
  expect(await failureOf(command.gate.passed())).toBeUndefined();
  expect(command.gate.lockedMs()).toBe(0);
  unlock();
  command.close();
});
