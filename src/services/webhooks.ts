import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { type DeliveryState, type EventType, eventTypeOf } from "../domain/webhook.ts";
import type { Clock } from "../lib/clock.ts";
import { ID_PREFIXES, newId } from "../lib/ids.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import {
  countOfEndpoint,
  type DeliveryRow,
  failPendingDeliveries,
  hastenDeliveries,
  listAttempts,
  listDeliveries,
  removeOldDeliveries,
  restartDelivery,
  restartFailedDeliveries,
} from "../store/webhook-deliveries.ts";
import {
  countEndpoints,
  eventBody,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  updateEndpoint,
  validSecrets,
  type WebhookEndpointRow,
} from "../store/webhooks.ts";
import { requireOwned, type Scope } from "./ownership.ts";
import { type AddressRules, addressRules, checkEndpointUrl } from "./webhook-addresses.ts";
import { type AttemptOutcome, createWebhookSender, type Resolve } from "./webhook-sender.ts";
import { newSigningSecret } from "./webhook-signature.ts";

/** Most endpoints a project can have. */
export const MAX_ENDPOINTS_PER_PROJECT = 1000;
/** How long a replaced secret goes on signing beside its successor, unless the admin says otherwise. */
export const ROTATION_MS = 24 * 3_600_000;
const DAY_MS = 24 * 3_600_000;
const REMOVAL_BATCH = 500;
/** Identifier in the body of a test event: the ULID of time zero, which no transcription has. */
export const TEST_TRANSCRIPTION_ID = `${ID_PREFIXES.transcription}_${"0".repeat(26)}`;

/** An endpoint as admins see it: without its secrets. */
export type EndpointView = Omit<WebhookEndpointRow, "secret" | "previousSecret"> & {
  pending: number;
  failed: number;
};
/** A delivery with the reason it has not arrived; null: it has, or nothing was tried yet. */
export type DeliveryView = DeliveryRow & { reason: string | null };

export type WebhookServiceDeps = { database: Database; clock: Clock; config: Config; resolve?: Resolve };
export type WebhookService = ReturnType<typeof createWebhookService>;

/**
 * The endpoint a transcription asks to be notified at.
 *
 * @throws AppError `not_found` for an unknown one, `forbidden` for another project's, `conflict` for one that
 *   is disabled: accepting would promise an event that cannot arrive. Detail `webhook_endpoint_id`
 */
export function requireEndpoint(store: Store, caller: Scope, id: string): WebhookEndpointRow {
  const detail = "webhook_endpoint_id";
  const endpoint = requireOwned(findEndpoint(store, id), caller, detail);
  if (endpoint.removedAt !== null) {
    throw new AppError("not_found", { detail, message: "The webhook endpoint was removed." });
  }
  if (endpoint.disabledAt !== null) {
    throw new AppError("conflict", { detail, message: "The webhook endpoint is disabled." });
  }
  return endpoint;
}

/** Webhook endpoints and what becomes of their events: registration for clients, the rest for admins. */
export function createWebhookService({ database, clock, config, resolve }: WebhookServiceDeps) {
  const { store } = database;
  let knownRules: AddressRules | undefined;
  const rules = () => {
    knownRules ??= addressRules(config.webhooks);
    return knownRules;
  };

  const requireAny = (id: string): WebhookEndpointRow => {
    const endpoint = findEndpoint(store, id);
    if (!endpoint || endpoint.removedAt !== null) throw notFound("There is no such webhook endpoint.");
    return endpoint;
  };

  return {
    /**
     * Registers an endpoint (docs/interface.md section 4.13).
     *
     * @returns the row, whose secret the response shows this once
     * @throws AppError `invalid_request` (detail `url`), `conflict` when the project has its full number
     */
    register(caller: Scope, { url }: { url: string }): WebhookEndpointRow {
      checkEndpointUrl(url, rules());
      const { organizationId, projectId } = caller;
      return transaction(store, (tx) => {
        if (countEndpoints(tx, projectId) >= MAX_ENDPOINTS_PER_PROJECT) {
          const message = `A project can have ${MAX_ENDPOINTS_PER_PROJECT} webhook endpoints.`;
          throw new AppError("conflict", { message });
        }
        const createdAt = clock.now();
        const id = newId("webhookEndpoint", createdAt);
        return insertEndpoint(tx, {
          id,
          organizationId,
          projectId,
          url,
          secret: newSigningSecret(),
          createdAt,
        });
      });
    },

    /** Endpoints that are not removed, newest first, with what waits and what failed at each. */
    list(filter: { projectId?: string; limit?: number } = {}): EndpointView[] {
      const { limit = 1000, ...rest } = filter;
      return listEndpoints(store, { ...rest, limit }).map(({ secret: _s, previousSecret: _p, ...row }) => ({
        ...row,
        ...countOfEndpoint(store, row.id),
      }));
    },

    /** Deliveries, newest first, with the reason of those that have not arrived. */
    deliveries(
      filter: { endpointId?: string; state?: DeliveryState; limit?: number; after?: string } = {},
    ): DeliveryView[] {
      if (filter.endpointId !== undefined && !findEndpoint(store, filter.endpointId)) {
        throw notFound("There is no such webhook endpoint.");
      }
      return listDeliveries(store, { limit: 100, ...filter }).map(withReason);
    },

    /** One delivery and every attempt of it, oldest first. */
    delivery(eventId: string) {
      const [row] = listDeliveries(store, { eventId, limit: 1 });
      if (!row) throw notFound("There is no such event.");
      return { ...withReason(row), history: listAttempts(store, eventId) };
    },

    /**
     * Sends an event again, under the same `webhook-id`, also one that was delivered.
     *
     * @throws AppError `not_found`; `conflict` while the endpoint is disabled or when it is removed
     */
    redeliver(eventId: string): DeliveryView {
      return transaction(store, (tx) => {
        const [row] = listDeliveries(tx, { eventId, limit: 1 });
        if (!row) throw notFound("There is no such event.");
        requireSendable(row.endpoint);
        restartDelivery(tx, eventId, clock.now());
        const [restarted] = listDeliveries(tx, { eventId, limit: 1 });
        return withReason(restarted ?? row);
      });
    },

    /** Sends every failed event of an endpoint again. Returns how many. Throws as `redeliver`. */
    redeliverFailed(endpointId: string): number {
      return transaction(store, (tx) => {
        requireSendable(requireAny(endpointId));
        return restartFailedDeliveries(tx, endpointId, clock.now());
      });
    },

    /** Ends the pause of a disabled endpoint; what waits there is due at once. Nothing happens to one that works. */
    enable(id: string): void {
      transaction(store, (tx) => {
        if (requireAny(id).disabledAt === null) return;
        updateEndpoint(tx, id, { disabledAt: null, disabledReason: null });
        hastenDeliveries(tx, id, clock.now());
      });
    },

    /** Removes an endpoint for good; what waits there has failed, and its secrets are forgotten. */
    remove(id: string): void {
      transaction(store, (tx) => {
        requireAny(id);
        const removedAt = clock.now();
        updateEndpoint(tx, id, {
          removedAt,
          secret: "",
          previousSecret: null,
          previousSecretExpiresAt: null,
        });
        failPendingDeliveries(tx, id, removedAt);
      });
    },

    /**
     * Gives an endpoint a new secret. Both sign every delivery until the previous one expires, so that the
     * receiver can change over without losing an event.
     *
     * @param keepPreviousMs 0: the previous secret ends at once (it leaked)
     * @returns the new secret, shown this once
     */
    rotate(id: string, keepPreviousMs = ROTATION_MS): { secret: string; previousSecretExpiresAt: number } {
      return transaction(store, (tx) => {
        const { secret: previousSecret } = requireAny(id);
        const secret = newSigningSecret();
        const previousSecretExpiresAt = clock.now() + keepPreviousMs;
        const kept = keepPreviousMs > 0 ? { previousSecret, previousSecretExpiresAt } : FORGOTTEN;
        updateEndpoint(tx, id, { secret, ...kept });
        return { secret, previousSecretExpiresAt };
      });
    },

    /**
     * Sends one signed event about a transcription that does not exist, once, also to a disabled endpoint.
     * Nothing is stored.
     */
    async test(
      id: string,
      type: EventType = "transcription.completed",
    ): Promise<AttemptOutcome & { eventId: string }> {
      const endpoint = requireAny(id);
      const sender = createWebhookSender({ config, clock, ...(resolve ? { resolve } : {}) });
      const eventId = newId("event", clock.now());
      const secrets = validSecrets(endpoint, clock.now());
      const outcome = await sender.send({
        eventId,
        url: endpoint.url,
        secrets,
        body: testBody(type),
        attempts: 0,
      });
      if (!outcome) throw new Error("a test delivery cannot be called off");
      return { ...outcome, eventId };
    },

    /** Removes deliveries older than `webhooks.keep_days`, in small transactions. Returns how many. */
    async removeOld(): Promise<number> {
      const beforeMs = clock.now() - config.webhooks.keep_days * DAY_MS;
      let removed = 0;
      for (;;) {
        const batch = transaction(store, (tx) => removeOldDeliveries(tx, beforeMs, REMOVAL_BATCH));
        removed += batch;
        if (batch < REMOVAL_BATCH) return removed;
        await Bun.sleep(0);
      }
    },
  };
}

const FORGOTTEN = { previousSecret: null, previousSecretExpiresAt: null };

function notFound(message: string): AppError {
  return new AppError("not_found", { message });
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

function testBody(type: EventType): string {
  const states = ["completed", "partial", "failed", "cancelled"] as const;
  const state = states.find((candidate) => eventTypeOf(candidate) === type) ?? "completed";
  const error = { code: "transcription_failed", message: "This is a test event." } as const;
  return eventBody({ id: TEST_TRANSCRIPTION_ID, state, ...(state === "failed" ? { error } : {}) });
}
