import type { Caller } from "../../domain/api-key.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { WebhookEndpointRow } from "../../webhooks/event-rows.ts";
import type { EndpointView } from "../../webhooks/webhooks.ts";
import { requireScope } from "../auth.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { DEFAULT_PAGE_SIZE } from "../wire/paging.ts";
import {
  RotatedSecret,
  SecretRotate,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointListQuery,
  WebhookEndpointRemoved,
  WebhookEndpointView,
} from "../wire/schemas.ts";

const SHARED = { tag: "Webhooks", scope: "webhooks:write" } as const;

const CREATE = operation({
  ...SHARED,
  id: "createWebhookEndpoint",
  summary: "Register a webhook endpoint",
  description:
    "Events are signed as Standard Webhooks 1.0 says. The signing secret is returned this once only. `events` with `credit.low` also needs the scope `usage:read`.",
  body: WebhookEndpointCreate,
  errors: ["conflict"],
  responses: { 201: "The endpoint, with its signing secret." },
});

const LIST = operation({
  ...SHARED,
  id: "listWebhookEndpoints",
  summary: "List webhook endpoints",
  query: WebhookEndpointListQuery,
  errors: [],
  responses: { 200: "A page of the project's endpoints, newest first." },
});

const GET = operation({
  ...SHARED,
  id: "getWebhookEndpoint",
  summary: "Get a webhook endpoint",
  errors: ["not_found"],
  responses: { 200: "The endpoint, without its secret." },
});

const REMOVE = operation({
  ...SHARED,
  id: "deleteWebhookEndpoint",
  summary: "Remove a webhook endpoint",
  description: "For good: its waiting events fail, and its secrets are deleted.",
  errors: ["not_found"],
  responses: { 200: "It is removed." },
});

const ENABLE = operation({
  ...SHARED,
  id: "enableWebhookEndpoint",
  summary: "Enable a webhook endpoint",
  description: "An endpoint that answered 410 was disabled. Its waiting events are sent at once.",
  errors: ["not_found"],
  responses: { 200: "The endpoint, enabled." },
});

const ROTATE = operation({
  ...SHARED,
  id: "rotateWebhookSecret",
  summary: "Replace a signing secret",
  description:
    "Both secrets sign until the previous one expires: `webhook-signature` then has two signatures, separated by a space.",
  body: SecretRotate,
  hasOptionalBody: true,
  errors: ["not_found"],
  responses: { 200: "The new secret, this once only." },
});

/**
 * Registration of receivers (docs/interface.md section 4.13) and their administration (docs/decisions/webhooks.md,
 * "Endpoints"); callers need the scope `webhooks:write`.
 */
export function webhookEndpointRoutes({ webhooks, onWebhooksChanged, unpaidActs }: WebhookRouteDeps) {
  /** Makes a change, which the audit log keeps for ever, within its rate. */
  const changing = <T>({ organizationId }: Caller, change: () => T): T => {
    unpaidActs.require("webhook changes", organizationId);
    const changed = change();
    unpaidActs.count("webhook changes", organizationId);
    return changed;
  };
  return defineKeyedRoutes("webhook-endpoints")
    .post(
      "/v1/webhook_endpoints",
      ({ caller, body, status }) => {
        // The event has the balance, which other keys read with this scope.
        if (body.events?.includes("credit.low")) requireScope(caller, "usage:read");
        return status(201, toResponse(changing(caller, () => webhooks.register(caller, body))));
      },
      { response: { 201: WebhookEndpoint }, ...CREATE },
    )
    .get(
      "/v1/webhook_endpoints",
      ({ caller, query }): WebhookEndpointList => {
        const { limit = DEFAULT_PAGE_SIZE, after } = query;
        const page = webhooks.page(caller, { limit, ...(after === undefined ? {} : { after }) });
        return { object: "list", data: page.data.map(toView), next: page.next };
      },
      { response: { 200: WebhookEndpointList }, ...LIST },
    )
    .get(
      "/v1/webhook_endpoints/:webhook_endpoint_id",
      ({ caller, params }) => toView(webhooks.get(caller, params.webhook_endpoint_id)),
      { response: { 200: WebhookEndpointView }, ...GET },
    )
    .delete(
      "/v1/webhook_endpoints/:webhook_endpoint_id",
      ({ caller, params }): WebhookEndpointRemoved => {
        const { id } = webhooks.get(caller, params.webhook_endpoint_id);
        changing(caller, () => webhooks.remove(id));
        return { id, object: "webhook_endpoint", deleted: true };
      },
      { response: { 200: WebhookEndpointRemoved }, ...REMOVE },
    )
    .post(
      "/v1/webhook_endpoints/:webhook_endpoint_id/enable",
      ({ caller, params }) => {
        const { id, disabledAt } = webhooks.get(caller, params.webhook_endpoint_id);
        if (disabledAt !== null) changing(caller, () => webhooks.enable(id));
        onWebhooksChanged();
        return toView(webhooks.get(caller, id));
      },
      { response: { 200: WebhookEndpointView }, ...ENABLE },
    )
    .post(
      "/v1/webhook_endpoints/:webhook_endpoint_id/rotate_secret",
      ({ caller, params, body }): RotatedSecret => {
        const { id } = webhooks.get(caller, params.webhook_endpoint_id);
        const { keep_previous_seconds: keep } = body;
        const { secret, previousSecretExpiresAt } = changing(caller, () =>
          webhooks.rotate(id, keep === undefined ? undefined : keep * 1000),
        );
        const expires = toTimestamp(previousSecretExpiresAt);
        return { id, object: "webhook_endpoint", secret, previous_secret_expires_at: expires };
      },
      { response: { 200: RotatedSecret }, ...ROTATE },
    );
}

type WebhookRouteDeps = Pick<HttpDeps, "webhooks" | "onWebhooksChanged" | "unpaidActs">;

function toResponse({ id, url, secret, events }: WebhookEndpointRow): WebhookEndpoint {
  return { id, object: "webhook_endpoint", url, secret, ...(events.length > 0 ? { events } : {}) };
}

function toView(row: EndpointView): WebhookEndpointView {
  return {
    id: row.id,
    object: "webhook_endpoint",
    url: row.url,
    state: row.disabledAt === null ? "enabled" : "disabled",
    ...(row.disabledReason === null ? {} : { disabled_reason: row.disabledReason }),
    created_at: toTimestamp(row.createdAt),
    ...(row.previousSecretExpiresAt === null
      ? {}
      : { previous_secret_expires_at: toTimestamp(row.previousSecretExpiresAt) }),
    events: row.events,
    pending_deliveries: row.pending,
    failed_deliveries: row.failed,
  };
}
