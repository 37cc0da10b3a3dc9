import { describe, expect, test } from "bun:test";
import { createLanes } from "./deliver-lanes.ts";

const fill = (lanes: ReturnType<typeof createLanes>, endpointId: string) => {
  let taken = 0;
  while (lanes.places(endpointId) > 0) lanes.enter(endpointId, `${endpointId}-${taken++}`);
  return taken;
};

describe("places", () => {
  test("an endpoint has one until it answers, then its full number", () => {
    const lanes = createLanes({ maxInFlight: 64, maxPerEndpoint: 4 });
    expect(fill(lanes, "a")).toBe(1);
    lanes.leave("a", "working");
    expect(fill(lanes, "a")).toBe(4);
    lanes.leave("a", "failing");
    expect(lanes.places("a")).toBe(0);
    for (let left = 3; left > 0; left--) lanes.leave("a", "failing");
    expect(fill(lanes, "a")).toBe(1);
    expect(lanes.inFlight()).toBe(1);
  });

  test("failing endpoints together take half; a working one still finds its places", () => {
    const lanes = createLanes({ maxInFlight: 16, maxPerEndpoint: 4 });
    fill(lanes, "alive");
    lanes.leave("alive", "working");
    const dead = Array.from({ length: 100 }, (_, index) => `dead${index}`);
    for (const endpointId of dead) lanes.hasFailedBefore(endpointId);
    expect(dead.reduce((sum, endpointId) => sum + fill(lanes, endpointId), 0)).toBe(8);
    expect(fill(lanes, "alive")).toBe(4);
    lanes.leave("dead0", "working");
    expect(fill(lanes, "dead50")).toBe(1);
    expect(lanes.inFlight()).toBe(12);
  });

  test("an event is held until it is released, and an endpoint forgotten only when nothing waits", () => {
    const lanes = createLanes({ maxInFlight: 4, maxPerEndpoint: 2 });
    lanes.enter("a", "evt_1");
    lanes.leave("a", "working");
    expect([lanes.isHeld("a", "evt_1"), lanes.heldCount("a")]).toEqual([true, 1]);
    lanes.prune(() => false);
    expect(lanes.places("a")).toBe(2);
    lanes.release("a", "evt_1");
    expect(lanes.isHeld("a", "evt_1")).toBe(false);
    lanes.prune(() => true);
    expect(lanes.places("a")).toBe(2);
    lanes.prune(() => false);
    expect(lanes.places("a")).toBe(1);
  });

  test("one place in all is enough for everybody to get on", () => {
    const lanes = createLanes({ maxInFlight: 1, maxPerEndpoint: 4 });
    lanes.hasFailedBefore("dead");
    expect(fill(lanes, "dead")).toBe(1);
    expect(fill(lanes, "alive")).toBe(0);
    lanes.leave("dead", "failing");
    expect(fill(lanes, "alive")).toBe(1);
  });
});
