import { expect, test } from "bun:test";
import type { ChunkJob, EngineError } from "../../engine/protocol.ts";
import { createReconcile, RECONCILE_EVERY_MS } from "./reconcile.ts";
import { createRegistry, type LostWorker } from "./registry.ts";
import { createSuspects } from "./suspects.ts";
import { createWantedJobs, type WantedChunk } from "./wanted-jobs.ts";

const LOST_AFTER_MS = 4_000;
const BEAT = {
  ...{
    v: 1,
    instance: "0123456789abcdef",
    version: "1.2.3",
    device: "cpu",
    places: 1,
    synchronous_places: 0,
  },
  ...{ models: [], jobs: [], draining: false },
};
const nothing = () => {};
const never = () => new Promise<never>(nothing);

/**
 * Opens a control plane's comparison on a clock of its own, with a messaging server that never says what is in the stream.
 *
 * @param ping the server's sign of life
 */
function open(ping: () => Promise<void> = async () => {}) {
  const clock = { now: 100_000 };
  const lost: LostWorker[] = [];
  const registry = createRegistry();
  const [suspects, jobs] = [createSuspects(), createWantedJobs(nothing)];
  const reconcile = createReconcile({
    ...{ registry, suspects, jobs, lostAfterMs: LOST_AFTER_MS, clock: () => clock.now },
    results: {
      ...{ take: nothing, takeEarly: () => undefined, isKnown: () => false, sweep: nothing },
      counts: () => ({ taken: 0, prepared: 0, early: 0, adopted: 0, refused: 0 }),
    },
    dispatch: {
      ...{ send: never, withdraw: async () => {}, isWithdrawn: () => false, cancel: nothing },
      counts: () => ({ published: 0, repeated: 0, adopted: 0 }),
    },
    tickets: { publish: never, remove: never, ensure: never, models: () => [], snapshot: never },
    linkUpForMs: () => clock.now,
    ping,
    connection: () => clock,
    onLost: (worker) => void lost.push(worker),
  });
  /** Lets some time pass, and beats of these workers arrive before the tick. */
  const tick = async (ms: number, ...beating: string[]) => {
    clock.now += ms;
    for (const name of beating) registry.beat(name, BEAT, clock.now);
    void reconcile.tick();
    await Bun.sleep(0);
  };
  return { tick, registry, reconcile, suspects, jobs, lost: () => lost.map(({ name }) => name) };
}

test("a silent worker is lost while the messaging server does not say what is in the stream", async () => {
  const { tick, lost } = open();
  await tick(RECONCILE_EVERY_MS, "one", "two");
  for (let n = 0; n < 4; n++) await tick(RECONCILE_EVERY_MS, "one");
  expect(lost()).toEqual([]);
  await tick(RECONCILE_EVERY_MS, "one");
  expect(lost()).toEqual(["two"]);
});

test("a silent worker is lost when this machine is so busy that every tick is late, and the others are not", async () => {
  const { tick, lost } = open();
  await tick(3_000, "one", "two");
  for (let n = 0; n < 3; n++) await tick(3_000, "one");
  expect(lost()).toEqual([]);
  for (let n = 0; n < 3; n++) await tick(3_000, "one");
  expect(lost()).toEqual(["two"]);
});

test("no worker is lost because this process was stopped", async () => {
  const { tick, lost } = open();
  await tick(RECONCILE_EVERY_MS, "one", "two");
  await tick(60_000);
  await tick(RECONCILE_EVERY_MS);
  await tick(RECONCILE_EVERY_MS, "one");
  await tick(RECONCILE_EVERY_MS, "one", "two");
  for (let n = 0; n < 10; n++) await tick(RECONCILE_EVERY_MS, "one", "two");
  expect(lost()).toEqual([]);
});

test("no worker is lost while the messaging server gives no answers at all", async () => {
  const { tick, lost } = open(never);
  for (let n = 0; n < 100; n++) await tick(RECONCILE_EVERY_MS);
  expect(lost()).toEqual([]);
});

/** Gives a job to a worker. Returns the kind of error that ends it. */
function give({ jobs, registry, reconcile }: ReturnType<typeof open>, worker: string, job: string) {
  const asked = {
    id: job,
    urgency: "a",
    subject: job,
    modelSha256: "",
    queue: "",
    timeoutMs: 1e9,
    isAlone: false,
  } as const;
  const chunk = { kind: "chunk", job: {} as ChunkJob, audioMs: 1, ...asked } as const;
  const { outcome } = jobs.want<WantedChunk>(chunk, new AbortController().signal);
  const beat = { ...BEAT, jobs: [job] };
  registry.beat(worker, beat, 1);
  reconcile.observe(worker, beat);
  return outcome.then(
    () => "recognized",
    ({ kind }: EngineError) => kind,
  );
}

test("a chunk is suspect when its worker was silent, and not when an admin has removed it", async () => {
  const world = open();
  for (const isSilent of [false, true]) {
    const job = isSilent ? "silent" : "removed";
    const ended = give(world, "one", job);
    const removed = world.registry.remove("one");
    expect(removed?.isRemoved).toBe(true);
    if (removed) world.reconcile.lose([{ ...removed, isRemoved: !isSilent }]);
    expect([await ended, world.suspects.isSuspect(job)]).toEqual(["interrupted", isSilent]);
  }
});

test("chunks are suspect when their worker has started again, and not when several have, as after a power cut", async () => {
  const world = open();
  const { registry, reconcile, suspects } = world;
  const startAgain = (name: string) => {
    const before = registry.beat(name, { ...BEAT, instance: "fedcba9876543210" }, 9_000);
    if (before) reconcile.lose([before]);
  };
  const ended = [give(world, "one", "first"), give(world, "two", "second")];
  startAgain("one");
  expect(suspects.isSuspect("first")).toBe(true);
  startAgain("two");
  expect(await Promise.all(ended)).toEqual(["interrupted", "interrupted"]);
  expect([suspects.isSuspect("first"), suspects.isSuspect("second")]).toEqual([false, false]);
});
