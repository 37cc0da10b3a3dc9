import type { AuditAction, AuditValues } from "../domain/audit.ts";
import { AppError } from "../domain/errors.ts";
import { type Owner, requireOwned } from "../domain/ownership.ts";
import type { SubscribedEventType } from "../domain/webhook.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import {
  countFailedOfEndpoint,
  countPendingOfEndpoint,
  failPendingDeliveries,
  hastenDeliveries,
} from "./delivery-rows.ts";
import {
  countEndpoints,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  updateEndpoint,
  type WebhookEndpointRow,
} from "./event-rows.ts";
import { newSigningSecret } from "./signature.ts";

/** Most endpoints a project can have. */
export const MAX_ENDPOINTS_PER_PROJECT = 1000;
/** How long a replaced secret signs beside its successor, unless the admin says otherwise. */
export const ROTATION_MS = 24 * 3_600_000;
/** Most endpoints of a list, unless the caller says otherwise. */
const LISTED = 1000;
const NO_PREVIOUS_SECRET = { previousSecret: null, previousSecretExpiresAt: null };

/** An endpoint as admins see it: without its secrets, with the number of deliveries that wait and that failed. */
export type EndpointView = Omit<WebhookEndpointRow, "secret" | "previousSecret"> & {
  pending: number;
  failed: number;
};

/** A new secret and when the previous one expires, epoch milliseconds. */
export type RotatedSecret = { secret: string; previousSecretExpiresAt: number };

export type EndpointDeps = { database: Database; clock: Clock };

/**
 * Finds the endpoint that a transcription is to notify.
 *
 * @throws AppError (detail `webhook_endpoint_id`) `not_found` for an unknown or removed endpoint, `forbidden` for
 *   another project's, `conflict` for a disabled one: accepting would promise an event that cannot arrive
 */
export function requireEndpoint(store: Store, caller: Owner, id: string): WebhookEndpointRow {
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

/** Finds an endpoint of any project that is not removed. @throws AppError `not_found` */
export function requireAnyEndpoint(store: Store, id: string): WebhookEndpointRow {
  const endpoint = findEndpoint(store, id);
  if (!endpoint || endpoint.removedAt !== null) throw noSuchEndpoint();
  return endpoint;
}

export function noSuchEndpoint(): AppError {
  return new AppError("not_found", { message: "There is no such webhook endpoint." });
}

/**
 * Stores a new endpoint with a secret of its own. The URL has been checked.
 *
 * @throws AppError `conflict` when the project has `MAX_ENDPOINTS_PER_PROJECT`
 */
export function addEndpoint(
  deps: EndpointDeps,
  caller: Owner,
  { url, events }: { url: string; events: SubscribedEventType[] },
): WebhookEndpointRow {
  const { organizationId, projectId } = caller;
  return transaction(deps.database.store, (tx) => {
    if (countEndpoints(tx, projectId) >= MAX_ENDPOINTS_PER_PROJECT) {
      const message = `A project can have ${MAX_ENDPOINTS_PER_PROJECT} webhook endpoints.`;
      throw new AppError("conflict", { message });
    }
    const createdAt = deps.clock.now();
    const id = newId("webhookEndpoint", createdAt);
    const row = { id, organizationId, projectId, url, events, secret: newSigningSecret(), createdAt };
    const made = insertEndpoint(tx, row);
    recordEndpoint(tx, "webhook.create", made, createdAt, {
      after: {
        project_id: projectId,
        url: hostOf(url),
        ...(events.length > 0 ? { events: events.join(" ") } : {}),
      },
    });
    return made;
  });
}

type EndpointChange = { before?: AuditValues; after?: AuditValues };

/** Records an act on an endpoint. */
export function recordEndpoint(
  tx: Store,
  action: AuditAction,
  { id, organizationId }: Pick<WebhookEndpointRow, "id" | "organizationId">,
  nowMs: number,
  changes: EndpointChange = {},
): void {
  recordAct(tx, { action, object: id, organizationId, ...changes }, nowMs);
}

/** Returns scheme and host of an address. What follows can contain a secret of the receiver. */
function hostOf(url: string): string {
  return URL.parse(url)?.origin ?? "";
}

const BY_HAND = "switched off by hand";

/** Lists endpoints that are not removed, newest first. */
export function viewEndpoints(
  { database: { store } }: EndpointDeps,
  { limit = LISTED, ...filter }: { projectId?: string; after?: string; limit?: number },
): EndpointView[] {
  return listEndpoints(store, { ...filter, limit }).map((row) => viewOf(store, row));
}

/** Shows an endpoint of any project. @throws AppError `not_found` */
export function viewAnyEndpoint({ database: { store } }: EndpointDeps, id: string): EndpointView {
  return viewOf(store, requireAnyEndpoint(store, id));
}

function viewOf(store: Store, { secret: _s, previousSecret: _p, ...row }: WebhookEndpointRow): EndpointView {
  const [pending, failed] = [countPendingOfEndpoint(store, row.id), countFailedOfEndpoint(store, row.id)];
  return { ...row, pending, failed };
}

/** Lists a page of a project's endpoints. @throws AppError `invalid_request` when `after` is not one of the project's */
export function pageOfEndpoints(
  deps: EndpointDeps,
  { projectId }: Owner,
  { limit, after }: { limit: number; after?: string },
): { data: EndpointView[]; next: string | null } {
  const { store } = deps.database;
  if (after !== undefined && findEndpoint(store, after)?.projectId !== projectId) {
    const message = "`after` must be the ID of a webhook endpoint of this project.";
    throw new AppError("invalid_request", { message, detail: "after" });
  }
  const from = after === undefined ? {} : { after };
  const rows = viewEndpoints(deps, { projectId, ...from, limit: limit + 1 });
  const data = rows.slice(0, limit);
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null };
}

/** Shows an endpoint of the caller's project. @throws AppError `not_found`, `forbidden` */
export function viewOwnedEndpoint(
  { database: { store } }: EndpointDeps,
  caller: Owner,
  id: string,
): EndpointView {
  const row = requireOwned(findEndpoint(store, id), caller);
  if (row.removedAt !== null) throw noSuchEndpoint();
  return viewOf(store, row);
}

/** Enables a disabled endpoint and makes its waiting deliveries due. Does nothing to an enabled one. */
export function enableEndpoint({ database, clock }: EndpointDeps, id: string): void {
  transaction(database.store, (tx) => {
    const endpoint = requireAnyEndpoint(tx, id);
    if (endpoint.disabledAt === null) return;
    updateEndpoint(tx, id, { disabledAt: null, disabledReason: null });
    hastenDeliveries(tx, id, clock.now());
    const before = { disabled_reason: endpoint.disabledReason };
    recordEndpoint(tx, "webhook.enable", endpoint, clock.now(), { before });
  });
}

/**
 * Disables an endpoint by hand: its deliveries wait, and transcriptions that name it are refused. Does nothing to a
 * disabled one.
 */
export function disableEndpoint({ database, clock }: EndpointDeps, id: string): void {
  transaction(database.store, (tx) => {
    const endpoint = requireAnyEndpoint(tx, id);
    if (endpoint.disabledAt !== null) return;
    const disabledAt = clock.now();
    updateEndpoint(tx, id, { disabledAt, disabledReason: BY_HAND });
    recordEndpoint(tx, "webhook.disable", endpoint, disabledAt, { after: { disabled_reason: BY_HAND } });
  });
}

/** Removes an endpoint: its waiting deliveries fail, and its secrets are deleted. */
export function removeEndpoint({ database, clock }: EndpointDeps, id: string): void {
  transaction(database.store, (tx) => {
    const endpoint = requireAnyEndpoint(tx, id);
    const removedAt = clock.now();
    updateEndpoint(tx, id, { removedAt, secret: "", ...NO_PREVIOUS_SECRET });
    failPendingDeliveries(tx, id, removedAt);
    recordEndpoint(tx, "webhook.remove", endpoint, removedAt, { before: { url: hostOf(endpoint.url) } });
  });
}

/**
 * Gives an endpoint a new secret.
 *
 * @param keepPreviousMs how long the previous secret signs as well; 0: not at all
 */
export function rotateSecret(
  { database, clock }: EndpointDeps,
  id: string,
  keepPreviousMs: number,
): RotatedSecret {
  return transaction(database.store, (tx) => {
    const endpoint = requireAnyEndpoint(tx, id);
    const { secret: previousSecret } = endpoint;
    const secret = newSigningSecret();
    const previousSecretExpiresAt = clock.now() + keepPreviousMs;
    const kept = keepPreviousMs > 0 ? { previousSecret, previousSecretExpiresAt } : NO_PREVIOUS_SECRET;
    updateEndpoint(tx, id, { secret, ...kept });
    const after = { keep_previous_seconds: Math.round(keepPreviousMs / 1000) };
    recordEndpoint(tx, "webhook.rotate", endpoint, clock.now(), { after });
    return { secret, previousSecretExpiresAt };
  });
}
