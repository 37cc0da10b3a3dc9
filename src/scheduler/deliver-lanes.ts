import { createShares, usualSpare } from "../lib/shares.ts";

/** An endpoint, and whose it is. */
export type Receiver = { endpointId: string; organizationId: string };

/** What is known of an endpoint: nothing yet, or how its last attempt ended. */
type Health = "unknown" | "working" | "failing";

/** What is on its way to one endpoint. */
type Lane = {
  inFlight: number;
  /** Events that are in flight, or ended and not recorded yet; the database still calls them due. */
  held: Set<string>;
  health: Health;
};

export type Lanes = ReturnType<typeof createLanes>;

/**
 * Decides which attempts may be sent now. Bounds: `maxInFlight` in all, `maxPerEndpoint` to one endpoint that works. An
 * endpoint that has not answered yet, or failed last, gets one place, and all failing endpoints together get half of
 * the places: however many receivers hang, the living ones find the other half free. One organization cannot take the
 * last places, however many endpoints it has.
 */
export function createLanes({
  maxInFlight,
  maxPerEndpoint,
}: {
  maxInFlight: number;
  maxPerEndpoint: number;
}) {
  const lanes = new Map<string, Lane>();
  const maxFailing = Math.max(1, Math.floor(maxInFlight / 2));
  const shares = createShares(maxInFlight, usualSpare(maxInFlight));
  let inFlight = 0;
  let inFlightToFailing = 0;

  const laneOf = (endpointId: string): Lane => {
    const found = lanes.get(endpointId);
    if (found) return found;
    const lane: Lane = { inFlight: 0, held: new Set(), health: "unknown" };
    lanes.set(endpointId, lane);
    return lane;
  };
  const setHealth = (lane: Lane, health: Health) => {
    if (lane.health === "failing") inFlightToFailing -= lane.inFlight;
    if (health === "failing") inFlightToFailing += lane.inFlight;
    lane.health = health;
  };

  return {
    inFlight: () => inFlight,
    free: () => maxInFlight - inFlight,
    isHeld: (endpointId: string, eventId: string) => lanes.get(endpointId)?.held.has(eventId) ?? false,
    heldCount: (endpointId: string) => lanes.get(endpointId)?.held.size ?? 0,

    /** How many more attempts may go to this endpoint now. */
    places({ endpointId, organizationId }: Receiver): number {
      if (!shares.mayTake(organizationId)) return 0;
      const { health, inFlight: busy } = laneOf(endpointId);
      const most = health === "working" ? maxPerEndpoint : 1;
      const failing = health === "failing" ? maxFailing - inFlightToFailing : maxInFlight;
      return Math.max(0, Math.min(maxInFlight - inFlight, most - busy, failing));
    },

    /** What the database remembers of an endpoint from before this program was started. */
    hasFailedBefore(endpointId: string): void {
      const lane = laneOf(endpointId);
      if (lane.health === "unknown") setHealth(lane, "failing");
    },

    /** Takes a place. */
    enter({ endpointId, organizationId }: Receiver, eventId: string): void {
      if (!shares.take(organizationId)) throw new Error("an attempt was started without a place");
      const lane = laneOf(endpointId);
      lane.held.add(eventId);
      lane.inFlight++;
      inFlight++;
      if (lane.health === "failing") inFlightToFailing++;
    },

    /** Gives the place back; the event stays held until `release`. Health undefined: nothing was learned. */
    leave({ endpointId, organizationId }: Receiver, health: Health | undefined): void {
      shares.giveBack(organizationId);
      const lane = laneOf(endpointId);
      if (lane.health === "failing") inFlightToFailing--;
      lane.inFlight--;
      inFlight--;
      if (health) setHealth(lane, health);
    },

    /** The event's outcome is recorded, or given up. */
    release(endpointId: string, eventId: string): void {
      lanes.get(endpointId)?.held.delete(eventId);
    },

    /** Forgets endpoints at which nothing waits any more. */
    prune(isWaiting: (endpointId: string) => boolean): void {
      for (const [endpointId, { held }] of lanes) {
        if (held.size === 0 && !isWaiting(endpointId)) lanes.delete(endpointId);
      }
    },
  };
}
