import { describe, expect, test } from "bun:test";
import { createSlots, type Slot, type SlotRequest, type Slots } from "./slots.ts";

const never = new AbortController().signal;
const request = (
  organizationId: string,
  transcriptionId: string,
  values: Partial<SlotRequest> = {},
): SlotRequest => ({
  isSynchronous: false,
  organizationId,
  weight: 1,
  projectId: `${organizationId}-main`,
  transcriptionId,
  position: 0,
  remainingMs: 3_600_000,
  costMs: 30_000,
  model: { id: "model", slots: 100 },
  ...values,
});
const open = (slots: number, synchronousSlots = 0) => createSlots({ slots, synchronousSlots });

/** Asks for many slots at once, releases each as it is given, and returns the order in which they were given. */
async function orderOf(slots: Slots, requests: SlotRequest[]): Promise<string[]> {
  const order: string[] = [];
  const blocker = await slots.acquire(request("first", "t0"), never);
  const all = requests.map(async (wanted) => {
    const slot = await slots.acquire(wanted, never);
    order.push(`${wanted.organizationId}${wanted.transcriptionId}.${wanted.position}`);
    slot.release();
  });
  blocker.release();
  await Promise.all(all);
  return order;
}

describe("slots", () => {
  test("organizations take turns, the oldest transcription of each first, chunks in order", async () => {
    const order = await orderOf(open(1), [
      request("a", "2"),
      request("a", "1", { position: 1 }),
      request("a", "1", { position: 0 }),
      request("b", "3"),
    ]);
    expect(order).toEqual(["a1.0", "b3.0", "a1.1", "a2.0"]);
  });

  test("after a change of the number, running chunks continue and more start at once", async () => {
    const slots = open(3);
    const held: Slot[] = [];
    for (let i = 0; i < 5; i++) {
      void slots.acquire(request("a", String(i)), never).then((slot) => held.push(slot));
    }
    const settled = () => Bun.sleep(0);
    await settled();
    expect(held.length).toBe(3);
    slots.resize(1);
    expect(slots.status()).toMatchObject({ running: 3, waiting: 2, workers: 1 });
    for (const slot of held.splice(0, 2)) slot.release();
    await settled();
    expect(slots.status()).toMatchObject({ running: 1, waiting: 2 });
    slots.resize(2);
    await settled();
    expect(slots.status()).toMatchObject({ running: 2, waiting: 1 });
  });

  test("a large model gets no more slots than fit into memory, and keeps no slot from other models", async () => {
    const slots = open(3, 1);
    const large = { model: { id: "large", slots: 1 } };
    const given = new Map<string, Slot>();
    const ask = (id: string, values: Partial<SlotRequest> = {}) =>
      void slots.acquire(request("a", id, values), never).then((slot) => given.set(id, slot));
    ask("1", large);
    await Bun.sleep(0);
    expect(given.get("1")?.sharers).toBe(1);
    ask("2", large);
    ask("3", large);
    ask("4");
    ask("5", { ...large, isSynchronous: true });
    await Bun.sleep(0);
    expect([...given.keys()]).toEqual(["1", "4", "5"]);
    given.get("5")?.release();
    await Bun.sleep(0);
    expect(given.has("2")).toBe(false);
    given.get("1")?.release();
    await Bun.sleep(0);
    expect(given.has("2")).toBe(true);
    expect(given.has("3")).toBe(false);
    given.get("4")?.release();
    // Only chunks that wait for the same slot could run beside it.
    given.get("2")?.release();
    await Bun.sleep(0);
    expect(given.get("3")?.sharers).toBe(1);
  });

  test("an organization with one chunk is served next beside one with a thousand", async () => {
    const many = Array.from({ length: 1000 }, (_, i) => request("a", String(i).padStart(4, "0")));
    const order = await orderOf(open(1), [...many, request("b", "9999")]);
    expect(order.indexOf("b9999.0")).toBeLessThanOrEqual(1);
  });

  test("a weight of three gets three turns of four", async () => {
    const wanted = Array.from({ length: 40 }, (_, i) => [
      request("a", String(i).padStart(2, "0"), { weight: 3 }),
      request("b", String(i).padStart(2, "0")),
    ]).flat();
    const order = (await orderOf(open(1), wanted)).slice(0, 40);
    expect(order.filter((name) => name.startsWith("a")).length).toBeWithin(29, 32);
  });

  test("synchronous work goes first and has slots of its own", async () => {
    const slots = open(1, 1);
    const held = await slots.acquire(request("a", "1"), never);
    let isSecondIn = false;
    const second = slots.acquire(request("a", "2"), never).then((slot) => {
      isSecondIn = true;
      return slot;
    });
    const synchronous = await slots.acquire(request("b", "3", { isSynchronous: true }), never);
    expect(slots.status()).toMatchObject({ running: 2, runningSynchronous: 1, waiting: 1 });
    expect(isSecondIn).toBe(false);
    held.release();
    (await second).release();
    synchronous.release();
    expect(slots.status()).toMatchObject({ running: 0, runningSynchronous: 0, waiting: 0 });
  });

  test("a waiter that is aborted leaves the queue; releasing twice frees once", async () => {
    const slots = open(1);
    const held = await slots.acquire(request("a", "1"), never);
    const controller = new AbortController();
    const aborted = slots.acquire(request("a", "2"), controller.signal);
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    held.release();
    held.release();
    expect(slots.status()).toMatchObject({ running: 0, waiting: 0 });
  });

  test("few chunks share all threads of the machine, and with many chunks each gets the threads of one slot", async () => {
    const slots = open(4);
    const alone = await slots.acquire(request("a", "1"), never);
    expect(alone.sharers).toBe(1);
    alone.release();
    const blockers = await Promise.all([1, 2, 3, 4].map((n) => slots.acquire(request("a", `b${n}`), never)));
    const later = [5, 6, 7, 8].map((n) => slots.acquire(request("a", `c${n}`), never));
    for (const slot of blockers) slot.release();
    const sharers = (await Promise.all(later)).map((slot: Slot) => slot.sharers);
    expect(sharers).toEqual([4, 4, 4, 4]);
    const first = await open(4).acquire({ ...request("a", "1"), hasSuccessors: true }, never);
    expect(first.sharers).toBe(4);
  });

  test("nothing starts once paused", async () => {
    const slots = open(1);
    const held = await slots.acquire(request("a", "1"), never);
    void slots.acquire(request("a", "2"), never);
    slots.pause();
    held.release();
    expect(slots.status()).toMatchObject({ running: 0, waiting: 1 });
  });
});
