import { describe, expect, test } from "bun:test";
import { createLanes } from "./deliver-lanes.ts";

/** An endpoint of an organization of its own, unless another is named. */
const at = (endpointId: string, organizationId = `org of ${endpointId}`) => ({ endpointId, organizationId });

const fill = (lanes: ReturnType<typeof createLanes>, endpointId: string, organizationId?: string) => {
  const receiver = at(endpointId, organizationId);
  let taken = 0;
  while (lanes.places(receiver) > 0) lanes.enter(receiver, `${endpointId}-${taken++}`);
  return taken;
};

describe("places", () => {
  test("an endpoint has one until it answers, then its full number", () => {
    const lanes = createLanes({ maxInFlight: 64, maxPerEndpoint: 4 });
    expect(fill(lanes, "a")).toBe(1);
    lanes.leave(at("a"), "working");
    expect(fill(lanes, "a")).toBe(4);
    lanes.leave(at("a"), "failing");
    expect(lanes.places(at("a"))).toBe(0);
    for (let left = 3; left > 0; left--) lanes.leave(at("a"), "failing");
    expect(fill(lanes, "a")).toBe(1);
    expect(lanes.inFlight()).toBe(1);
  });

  test("failing endpoints together take half; a working one still finds its places", () => {
    const lanes = createLanes({ maxInFlight: 16, maxPerEndpoint: 4 });
    fill(lanes, "alive");
    lanes.leave(at("alive"), "working");
    const dead = Array.from({ length: 100 }, (_, index) => `dead${index}`);
    for (const endpointId of dead) lanes.hasFailedBefore(endpointId);
    expect(dead.reduce((sum, endpointId) => sum + fill(lanes, endpointId), 0)).toBe(8);
    expect(fill(lanes, "alive")).toBe(4);
    lanes.leave(at("dead0"), "working");
    expect(fill(lanes, "dead50")).toBe(1);
    expect(lanes.inFlight()).toBe(12);
  });

  test("an event is held until it is released, and an endpoint forgotten only when nothing waits", () => {
    const lanes = createLanes({ maxInFlight: 4, maxPerEndpoint: 2 });
    lanes.enter(at("a"), "evt_1");
    lanes.leave(at("a"), "working");
    expect([lanes.isHeld("a", "evt_1"), lanes.heldCount("a")]).toEqual([true, 1]);
    lanes.prune(() => false);
    expect(lanes.places(at("a"))).toBe(2);
    lanes.release("a", "evt_1");
    expect(lanes.isHeld("a", "evt_1")).toBe(false);
    lanes.prune(() => true);
    expect(lanes.places(at("a"))).toBe(2);
    lanes.prune(() => false);
    expect(lanes.places(at("a"))).toBe(1);
  });

  test("an organization with many endpoints leaves places to the others", () => {
    const lanes = createLanes({ maxInFlight: 64, maxPerEndpoint: 4 });
    const many = Array.from({ length: 100 }, (_, index) => `hanging${index}`);
    const taken = many.reduce((sum, endpointId) => sum + fill(lanes, endpointId, "hostile"), 0);
    expect(taken).toBe(48);
    expect(fill(lanes, "new")).toBe(1);
    lanes.leave(at("new"), "working");
    expect(fill(lanes, "new")).toBe(4);
  });

  test("one place in all is enough for everybody to get on", () => {
    const lanes = createLanes({ maxInFlight: 1, maxPerEndpoint: 4 });
    lanes.hasFailedBefore("dead");
    expect(fill(lanes, "dead")).toBe(1);
    expect(fill(lanes, "alive")).toBe(0);
    lanes.leave(at("dead"), "failing");
    expect(fill(lanes, "alive")).toBe(1);
  });
});
