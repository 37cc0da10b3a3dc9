import { AppError } from "../domain/errors.ts";
import type { Store } from "../store/database.ts";
import { findEndpoint, type WebhookEndpointRow } from "../store/webhooks.ts";
import { requireOwned, type Scope } from "./ownership.ts";

/**
 * The endpoint a transcription asks to be notified at.
 *
 * @throws AppError `not_found` for an unknown one, `forbidden` for another project's, `conflict` for one that
 *   is disabled or removed: accepting would promise an event that cannot arrive. Detail `webhook_endpoint_id`
 */
export function requireEndpoint(store: Store, caller: Scope, id: string): WebhookEndpointRow {
  const detail = "webhook_endpoint_id";
  const endpoint = requireOwned(findEndpoint(store, id), caller, detail);
  if (endpoint.removedAt !== null) {
    throw new AppError("conflict", { detail, message: "The webhook endpoint has been removed." });
  }
  if (endpoint.disabledAt !== null) {
    throw new AppError("conflict", { detail, message: "The webhook endpoint is disabled." });
  }
  return endpoint;
}
