import type { WebhookEndpointRow } from "../store/webhooks.ts";
import { callerOf } from "./context.ts";
import type { HttpDeps } from "./deps.ts";
import { defineRoutes, jsonBody, operation } from "./route.ts";
import { WebhookEndpoint, WebhookEndpointCreate } from "./schemas.ts";

/** Registration of receivers (docs/interface.md section 4.13). */
export function webhookEndpointRoutes({ webhooks }: Pick<HttpDeps, "webhooks">) {
  return defineRoutes("webhook-endpoints").post(
    "/v1/webhook_endpoints",
    ({ request, body, status }) => status(201, toResponse(webhooks.register(callerOf(request), body))),
    {
      ...jsonBody(WebhookEndpointCreate),
      response: { 201: WebhookEndpoint },
      ...operation({
        id: "createWebhookEndpoint",
        summary: "Register a webhook endpoint",
        description:
          "Events are signed as Standard Webhooks 1.0 says. The signing secret is returned this once only.",
        tag: "Webhooks",
        scope: "webhooks:write",
        errors: ["invalid_request", "unknown_parameter", "conflict"],
        responses: { 201: "The endpoint, with its signing secret." },
      }),
    },
  );
}

function toResponse({ id, url, secret }: WebhookEndpointRow): WebhookEndpoint {
  return { id, object: "webhook_endpoint", url, secret };
}
