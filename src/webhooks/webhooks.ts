import type { Config } from "../config/schema.ts";
import { type Ages, before } from "../domain/clock-trust.ts";
import type { Owner } from "../domain/ownership.ts";
import { type EventType, eventTypeOf, type SubscribedEventType } from "../domain/webhook.ts";
import { ID_PREFIXES, newId } from "../lib/ids.ts";
import { DAY_MS } from "../lib/time.ts";
import { type AddressRules, addressRules, checkEndpointUrl } from "../outbound/addresses.ts";
import type { Resolve } from "../outbound/guarded-fetch.ts";
import { transaction } from "../store/database.ts";
import {
  addEndpoint,
  disableEndpoint,
  type EndpointDeps,
  type EndpointView,
  enableEndpoint,
  pageOfEndpoints,
  ROTATION_MS,
  type RotatedSecret,
  recordEndpoint,
  removeEndpoint,
  requireAnyEndpoint,
  rotateSecret,
  viewAnyEndpoint,
  viewEndpoints,
  viewOwnedEndpoint,
} from "./endpoints.ts";
import { creditLowBody, eventBody, validSecrets, type WebhookEndpointRow } from "./event-rows.ts";
import {
  type DeliveryFilter,
  type DeliveryHistory,
  type DeliveryView,
  redeliver,
  redeliverFailed,
  removeDeliveriesBefore,
  viewDeliveries,
  viewDelivery,
} from "./redelivery.ts";
import { type AttemptOutcome, createWebhookSender } from "./sender.ts";

export type { EndpointView } from "./endpoints.ts";
export { MAX_ENDPOINTS_PER_PROJECT, ROTATION_MS, requireEndpoint } from "./endpoints.ts";
export type { DeliveryView } from "./redelivery.ts";

/** Identifiers in the bodies of test events: the ULID of time zero, which no transcription or organization has. */
export const TEST_TRANSCRIPTION_ID = `${ID_PREFIXES.transcription}_${"0".repeat(26)}`;
const TEST_ORGANIZATION_ID = `${ID_PREFIXES.organization}_${"0".repeat(26)}`;

export type WebhookServiceDeps = EndpointDeps & { config: Config; resolve?: Resolve };

/** Endpoints, newest first. `next` is the `after` of the next page; null: this is the last one. */
export type EndpointPage = { data: EndpointView[]; next: string | null };

/** Outcome of the attempt to send a test event. */
export type TestOutcome = AttemptOutcome & { eventId: string };

/**
 * Webhook endpoints and the deliveries of their events. A project's caller registers, lists and gets endpoints; all other methods
 * are for admins, who may touch the endpoints of each project, and for callers whose endpoint `get` has shown. Methods with an `id` of an endpoint throw AppError
 * `not_found` when it is unknown or removed.
 */
export type WebhookService = {
  /**
   * Registers an endpoint in the caller's project (docs/interface.md section 4.13).
   *
   * @param request `events`: what it receives beside the events of transcriptions that name it
   * @returns the row; the response shows its secret, and nothing shows it again
   * @throws AppError `invalid_request` (detail `url`), `conflict` when the project has its full number
   */
  register(caller: Owner, request: { url: string; events?: SubscribedEventType[] }): WebhookEndpointRow;
  /**
   * Lists a page of the caller's project, newest first.
   *
   * @throws AppError `invalid_request` (detail `after`) when `after` is not an endpoint of this project
   */
  page(caller: Owner, query: { limit: number; after?: string }): EndpointPage;
  /** Shows an endpoint of the caller's project. @throws AppError `not_found`, `forbidden` */
  get(caller: Owner, id: string): EndpointView;
  /** Lists endpoints that are not removed, newest first. */
  list(filter?: { projectId?: string; limit?: number }): EndpointView[];
  /** Shows an endpoint of any project. */
  show(id: string): EndpointView;
  /** Lists deliveries, newest first, with the reason of those that have not arrived. */
  deliveries(filter?: DeliveryFilter): DeliveryView[];
  /** Shows the delivery of an event and its attempts. @throws AppError `not_found` */
  delivery(eventId: string): DeliveryHistory;
  /**
   * Sends an event again under the same `webhook-id`, even if it was delivered.
   *
   * @throws AppError `not_found`; `conflict` when the endpoint is disabled or removed
   */
  redeliver(eventId: string): DeliveryView;
  /** Sends each failed event of an endpoint again. Returns how many. @throws AppError `conflict` as `redeliver` */
  redeliverFailed(endpointId: string): number;
  /** Enables a disabled endpoint; its waiting deliveries are due at once. Does nothing to an enabled endpoint. */
  enable(id: string): void;
  /** Disables an endpoint: its deliveries wait until it is enabled. Does nothing to a disabled endpoint. */
  disable(id: string): void;
  /** Removes an endpoint for good: its waiting deliveries fail, and its secrets are deleted. */
  remove(id: string): void;
  /**
   * Gives an endpoint a new secret. Both secrets sign each delivery until the previous one expires, so that the
   * receiver can change over without losing an event.
   *
   * @param keepPreviousMs 24 h if left out; 0: the previous secret ends at once, because it has leaked
   * @returns the new secret; nothing shows it again
   */
  rotate(id: string, keepPreviousMs?: number): RotatedSecret;
  /**
   * Sends one signed event about a transcription that does not exist, once, even to a disabled endpoint. Stores
   * nothing. A failed attempt is an outcome, not an error.
   */
  test(id: string, type?: EventType): Promise<TestOutcome>;
  /** Removes deliveries older than `webhooks.keep_days`, in small transactions. Returns how many. */
  removeOld(ages: Ages): Promise<number>;
};

/**
 * Opens the webhooks of a database.
 *
 * The methods that use `[webhooks]` addresses throw ConfigError when the section cannot be used; the others work.
 */
export function createWebhookService(deps: WebhookServiceDeps): WebhookService {
  const { config } = deps;
  const { store } = deps.database;
  let rules: AddressRules | undefined;
  return {
    register(caller, { url, events = [] }) {
      rules ??= addressRules(config.webhooks);
      checkEndpointUrl(url, rules);
      return addEndpoint(deps, caller, { url, events });
    },
    page: (caller, query) => pageOfEndpoints(deps, caller, query),
    get: (caller, id) => viewOwnedEndpoint(deps, caller, id),
    show: (id) => viewAnyEndpoint(deps, id),
    list: (filter = {}) => viewEndpoints(deps, filter),
    deliveries: (filter = {}) => viewDeliveries(store, filter),
    delivery: (eventId) => viewDelivery(store, eventId),
    redeliver: (eventId) => redeliver(deps, eventId),
    redeliverFailed: (endpointId) => redeliverFailed(deps, endpointId),
    enable: (id) => enableEndpoint(deps, id),
    disable: (id) => disableEndpoint(deps, id),
    remove: (id) => removeEndpoint(deps, id),
    rotate: (id, keepPreviousMs = ROTATION_MS) => rotateSecret(deps, id, keepPreviousMs),
    test: (id, type = "transcription.completed") => sendTestEvent(deps, id, type),
    removeOld: (ages) => removeDeliveriesBefore(store, before(ages, config.webhooks.keep_days * DAY_MS)),
  };
}

async function sendTestEvent(
  { database, clock, config, resolve }: WebhookServiceDeps,
  id: string,
  type: EventType,
): Promise<TestOutcome> {
  const endpoint = requireAnyEndpoint(database.store, id);
  const sender = createWebhookSender({ config, clock, ...(resolve ? { resolve } : {}) });
  const eventId = newId("event", clock.now());
  const outcome = await sender.send({
    eventId,
    url: endpoint.url,
    secrets: validSecrets(endpoint, clock.now()),
    body: testBody(type, clock.now()),
    attempts: 0,
  });
  if (!outcome) throw new Error("a test delivery cannot be called off");
  const { id: sentTo, organizationId } = endpoint;
  transaction(database.store, (tx) =>
    recordEndpoint(tx, "webhook.test", { id: sentTo, organizationId }, clock.now(), {
      after: { event_id: eventId, status: outcome.status },
    }),
  );
  return { ...outcome, eventId };
}

function testBody(type: EventType, nowMs: number): string {
  if (type === "credit.low") {
    return creditLowBody({ organizationId: TEST_ORGANIZATION_ID, balancePaise: 0, thresholdPaise: 1 }, nowMs);
  }
  const states = ["completed", "partial", "failed", "cancelled"] as const;
  const state = states.find((candidate) => eventTypeOf(candidate) === type) ?? "completed";
  const error = { code: "transcription_failed", message: "This is a test event." } as const;
  return eventBody({ id: TEST_TRANSCRIPTION_ID, state, ...(state === "failed" ? { error } : {}) });
}
