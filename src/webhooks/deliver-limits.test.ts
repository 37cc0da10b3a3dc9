import { describe, expect, test } from "bun:test";
import { createDeliveryLimits, type DeliveryLimits } from "./deliver-limits.ts";

/** Names an endpoint. Each belongs to its own organization unless another is given. */
const at = (endpointId: string, organizationId = `org of ${endpointId}`) => ({ endpointId, organizationId });

const fill = (limits: DeliveryLimits, endpointId: string, organizationId?: string) => {
  const receiver = at(endpointId, organizationId);
  let taken = 0;
  while (limits.freeFor(receiver) > 0) limits.begin(receiver, `${endpointId}-${taken++}`);
  return taken;
};

describe("limits of deliveries", () => {
  test("an endpoint gets one attempt at a time until it answers, then its full number", () => {
    const limits = createDeliveryLimits({ maxInFlight: 64, maxPerEndpoint: 4 });
    expect(fill(limits, "a")).toBe(1);
    limits.end(at("a"), "working");
    expect(fill(limits, "a")).toBe(4);
    limits.end(at("a"), "failing");
    expect(limits.freeFor(at("a"))).toBe(0);
    for (let left = 3; left > 0; left--) limits.end(at("a"), "failing");
    expect(fill(limits, "a")).toBe(1);
    expect(limits.inFlight()).toBe(1);
  });

  test("failing endpoints together get half; a working one still gets its full number", () => {
    const limits = createDeliveryLimits({ maxInFlight: 16, maxPerEndpoint: 4 });
    fill(limits, "alive");
    limits.end(at("alive"), "working");
    const dead = Array.from({ length: 100 }, (_, index) => `dead${index}`);
    for (const endpointId of dead) limits.hasFailedBefore(endpointId);
    expect(dead.reduce((sum, endpointId) => sum + fill(limits, endpointId), 0)).toBe(8);
    expect(fill(limits, "alive")).toBe(4);
    limits.end(at("dead0"), "working");
    expect(fill(limits, "dead50")).toBe(1);
    expect(limits.inFlight()).toBe(12);
  });

  test("an event is held until it is released; an endpoint is forgotten once nothing waits for it", () => {
    const limits = createDeliveryLimits({ maxInFlight: 4, maxPerEndpoint: 2 });
    limits.begin(at("a"), "evt_1");
    limits.end(at("a"), "working");
    expect([limits.isHeld("a", "evt_1"), limits.heldCount("a")]).toEqual([true, 1]);
    limits.prune(() => false);
    expect(limits.freeFor(at("a"))).toBe(2);
    limits.release("a", "evt_1");
    expect(limits.isHeld("a", "evt_1")).toBe(false);
    limits.prune(() => true);
    expect(limits.freeFor(at("a"))).toBe(2);
    limits.prune(() => false);
    expect(limits.freeFor(at("a"))).toBe(1);
  });

  test("an organization with many endpoints leaves attempts for the others", () => {
    const limits = createDeliveryLimits({ maxInFlight: 64, maxPerEndpoint: 4 });
    const many = Array.from({ length: 100 }, (_, index) => `hanging${index}`);
    const taken = many.reduce((sum, endpointId) => sum + fill(limits, endpointId, "hostile"), 0);
    expect(taken).toBe(48);
    expect(fill(limits, "new")).toBe(1);
    limits.end(at("new"), "working");
    expect(fill(limits, "new")).toBe(4);
  });

  test("with one attempt at a time, a failing endpoint does not block the others", () => {
    const limits = createDeliveryLimits({ maxInFlight: 1, maxPerEndpoint: 4 });
    limits.hasFailedBefore("dead");
    expect(fill(limits, "dead")).toBe(1);
    expect(fill(limits, "alive")).toBe(0);
    limits.end(at("dead"), "failing");
    expect(fill(limits, "alive")).toBe(1);
  });
});
