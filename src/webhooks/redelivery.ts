import type { AuditValues } from "../domain/audit.ts";
import type { Ages } from "../domain/clock-trust.ts";
import { AppError } from "../domain/errors.ts";
import type { DeliveryState } from "../domain/webhook.ts";
import { type Store, transaction } from "../store/database.ts";
import {
  type DeliveryRow,
  listAttempts,
  listDeliveries,
  removeOldDeliveries,
  restartDelivery,
  restartFailedDeliveries,
} from "./delivery-rows.ts";
import { type EndpointDeps, noSuchEndpoint, recordEndpoint, requireAnyEndpoint } from "./endpoints.ts";
import { findEndpoint, type WebhookEndpointRow } from "./event-rows.ts";

const REMOVAL_BATCH = 500;
/** Most deliveries of a list, unless the caller says otherwise. */
const LISTED = 100;

/** A delivery and why it has not arrived; null: it has arrived, or no attempt was made yet. */
export type DeliveryView = DeliveryRow & { reason: string | null };
/** A delivery and each attempt of it, oldest first. */
export type DeliveryHistory = DeliveryView & { history: ReturnType<typeof listAttempts> };
/** Which deliveries are listed; `after` is the identifier of an event. */
export type DeliveryFilter = { endpointId?: string; state?: DeliveryState; limit?: number; after?: string };

/** Lists deliveries, newest first. @throws AppError `not_found` for an unknown endpoint */
export function viewDeliveries(store: Store, filter: DeliveryFilter): DeliveryView[] {
  if (filter.endpointId !== undefined && !findEndpoint(store, filter.endpointId)) throw noSuchEndpoint();
  return listDeliveries(store, { limit: LISTED, ...filter }).map(withReason);
}

/** Shows the delivery of an event. @throws AppError `not_found` */
export function viewDelivery(store: Store, eventId: string): DeliveryHistory {
  return { ...withReason(requireDelivery(store, eventId)), history: listAttempts(store, eventId) };
}

/** Starts the delivery of an event again. @throws AppError `not_found`, `conflict` */
export function redeliver({ database, clock }: EndpointDeps, eventId: string): DeliveryView {
  return transaction(database.store, (tx) => {
    const { endpoint, endpointId } = requireDelivery(tx, eventId);
    requireSendable(endpoint);
    restartDelivery(tx, eventId, clock.now());
    recordRedelivery(tx, endpointId, clock.now(), { event_id: eventId });
    return withReason(requireDelivery(tx, eventId));
  });
}

/** Starts each failed delivery of an endpoint again. Returns how many. @throws AppError `not_found`, `conflict` */
export function redeliverFailed({ database, clock }: EndpointDeps, endpointId: string): number {
  return transaction(database.store, (tx) => {
    requireSendable(requireAnyEndpoint(tx, endpointId));
    const events = restartFailedDeliveries(tx, endpointId, clock.now());
    if (events > 0) recordRedelivery(tx, endpointId, clock.now(), { events });
    return events;
  });
}

function recordRedelivery(tx: Store, endpointId: string, nowMs: number, after: AuditValues): void {
  const endpoint = findEndpoint(tx, endpointId);
  if (endpoint) recordEndpoint(tx, "webhook.redeliver", endpoint, nowMs, { after });
}

/** Removes deliveries that were made before a time, in small transactions. Returns how many. */
export async function removeDeliveriesBefore(store: Store, madeBefore: Ages): Promise<number> {
  let removed = 0;
  for (;;) {
    const batch = transaction(store, (tx) => removeOldDeliveries(tx, madeBefore, REMOVAL_BATCH));
    removed += batch;
    if (batch < REMOVAL_BATCH) return removed;
    await Bun.sleep(0);
  }
}

function requireDelivery(store: Store, eventId: string): DeliveryRow {
  const [row] = listDeliveries(store, { eventId, limit: 1 });
  if (!row) throw new AppError("not_found", { message: "There is no such event." });
  return row;
}

function requireSendable({
  disabledAt,
  removedAt,
}: Pick<WebhookEndpointRow, "disabledAt" | "removedAt">): void {
  if (removedAt !== null) throw new AppError("conflict", { message: "The webhook endpoint was removed." });
  if (disabledAt !== null) {
    const message =
      "The webhook endpoint is disabled; `shruti webhooks enable` enables it and sends waiting events.";
    throw new AppError("conflict", { message });
  }
}

function withReason(row: DeliveryRow): DeliveryView {
  return { ...row, reason: reasonOf(row) };
}

function reasonOf({ state, failedAt, endpoint, lastAttempt }: DeliveryRow): string | null {
  if (state === "delivered") return null;
  if (state === "failed" && endpoint.removedAt !== null && (failedAt ?? 0) >= endpoint.removedAt) {
    return "the endpoint was removed before the event could be sent";
  }
  if (state === "pending" && endpoint.disabledAt !== null) {
    return `waiting until the endpoint is enabled (${endpoint.disabledReason ?? "it was disabled"})`;
  }
  return lastAttempt?.error ?? null;
}
