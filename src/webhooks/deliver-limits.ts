import { createShares, usualSpare } from "../admission/shares.ts";

/** An endpoint and the organization that it belongs to. */
export type Receiver = { endpointId: string; organizationId: string };

/** How the last attempt at an endpoint ended; `unknown` before the first. */
type Health = "unknown" | "working" | "failing";

/** The present deliveries to one endpoint. */
type EndpointLoad = {
  /** Attempts being sent. */
  inFlight: number;
  /** Events that are being sent, or whose outcomes are not recorded yet. The database still reports them as due. */
  held: Set<string>;
  health: Health;
};

/** Limits the attempts that are in flight at once. Each attempt is counted from `begin` to `end`. */
export type DeliveryLimits = {
  /** Returns the attempts in flight, to all endpoints. */
  inFlight(): number;
  /** Returns how many more attempts may be in flight, whatever their endpoints. */
  free(): number;
  /** Returns how many more attempts may go to this endpoint now. */
  freeFor(receiver: Receiver): number;
  /** Reports whether an event is in flight, or waits for its outcome to be recorded. */
  isHeld(endpointId: string, eventId: string): boolean;
  heldCount(endpointId: string): number;
  /** Marks an endpoint as failing that failed before this program was started, unless it has been tried since. */
  hasFailedBefore(endpointId: string): void;
  /** Counts an attempt as in flight. @throws Error when `freeFor` is 0 because of the organization's share */
  begin(receiver: Receiver, eventId: string): void;
  /** Ends an attempt. The event stays held until `release`. Health is undefined where the attempt showed nothing. */
  end(receiver: Receiver, health: Health | undefined): void;
  /** Ends the hold of an event, once its outcome is recorded or there is none. */
  release(endpointId: string, eventId: string): void;
  /** Forgets all endpoints without held or waiting events. */
  prune(isWaiting: (endpointId: string) => boolean): void;
};

/**
 * At most `maxInFlight` attempts are in flight in all, and `maxPerEndpoint` to an endpoint that works. An endpoint that
 * has not answered yet, or whose last attempt failed, gets one attempt at a time. All failing endpoints together get
 * half of `maxInFlight`, so the others find the second half free however many receivers hang. An organization with many
 * endpoints cannot use up what is left (`admission/shares`).
 */
export function createDeliveryLimits({
  maxInFlight,
  maxPerEndpoint,
}: {
  maxInFlight: number;
  maxPerEndpoint: number;
}): DeliveryLimits {
  const loads = new Map<string, EndpointLoad>();
  const maxFailing = Math.max(1, Math.floor(maxInFlight / 2));
  const shares = createShares(maxInFlight, usualSpare(maxInFlight));
  let inFlight = 0;
  let inFlightToFailing = 0;

  const loadOf = (endpointId: string): EndpointLoad => {
    const found = loads.get(endpointId);
    if (found) return found;
    const load: EndpointLoad = { inFlight: 0, held: new Set(), health: "unknown" };
    loads.set(endpointId, load);
    return load;
  };
  const setHealth = (load: EndpointLoad, health: Health) => {
    if (load.health === "failing") inFlightToFailing -= load.inFlight;
    if (health === "failing") inFlightToFailing += load.inFlight;
    load.health = health;
  };

  return {
    inFlight: () => inFlight,
    free: () => maxInFlight - inFlight,
    freeFor({ endpointId, organizationId }) {
      if (!shares.mayTake(organizationId)) return 0;
      const { health, inFlight: busy } = loadOf(endpointId);
      const most = health === "working" ? maxPerEndpoint : 1;
      const failing = health === "failing" ? maxFailing - inFlightToFailing : maxInFlight;
      return Math.max(0, Math.min(maxInFlight - inFlight, most - busy, failing));
    },
    isHeld: (endpointId, eventId) => loads.get(endpointId)?.held.has(eventId) ?? false,
    heldCount: (endpointId) => loads.get(endpointId)?.held.size ?? 0,
    hasFailedBefore(endpointId) {
      const load = loadOf(endpointId);
      if (load.health === "unknown") setHealth(load, "failing");
    },
    begin({ endpointId, organizationId }, eventId) {
      if (!shares.take(organizationId)) throw new Error("an attempt was started beyond the limits");
      const load = loadOf(endpointId);
      load.held.add(eventId);
      load.inFlight++;
      inFlight++;
      if (load.health === "failing") inFlightToFailing++;
    },
    end({ endpointId, organizationId }, health) {
      shares.giveBack(organizationId);
      const load = loadOf(endpointId);
      if (load.health === "failing") inFlightToFailing--;
      load.inFlight--;
      inFlight--;
      if (health) setHealth(load, health);
    },
    release(endpointId, eventId) {
      loads.get(endpointId)?.held.delete(eventId);
    },
    prune(isWaiting) {
      for (const [endpointId, { held }] of loads) {
        if (held.size === 0 && !isWaiting(endpointId)) loads.delete(endpointId);
      }
    },
  };
}
