import type { WebhookEndpointRow } from "../../store/webhooks.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { WebhookEndpoint, WebhookEndpointCreate } from "../wire/schemas.ts";

/** Registration of receivers (docs/interface.md section 4.13); callers need the scope `webhooks:write`. */
export function webhookEndpointRoutes({ webhooks }: Pick<HttpDeps, "webhooks">) {
  return defineKeyedRoutes("webhook-endpoints").post(
    "/v1/webhook_endpoints",
    ({ caller, body, status }) => status(201, toResponse(webhooks.register(caller, body))),
    {
      response: { 201: WebhookEndpoint },
      ...operation({
        id: "createWebhookEndpoint",
        summary: "Register a webhook endpoint",
        description:
          "Events are signed as Standard Webhooks 1.0 says. The signing secret is returned this once only.",
        tag: "Webhooks",
        scope: "webhooks:write",
        body: WebhookEndpointCreate,
        errors: ["conflict"],
        responses: { 201: "The endpoint, with its signing secret." },
      }),
    },
  );
}

function toResponse({ id, url, secret }: WebhookEndpointRow): WebhookEndpoint {
  return { id, object: "webhook_endpoint", url, secret };
}
