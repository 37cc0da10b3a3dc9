import { afterEach, beforeEach, expect, test } from "bun:test";
import { SCOPES } from "../../domain/api-key.ts";
import type { AppError } from "../../domain/errors.ts";
import { isId } from "../../lib/ids.ts";
import { openWebhookKit } from "../../testing/kits/webhook-kit.ts";
import { setContext, targetOf } from "../context.ts";
import { defineRoutes } from "../route.ts";
import { errorResponse, toAppError } from "../wire/errors.ts";
import { webhookEndpointRoutes } from "./webhooks.ts";

let kit: ReturnType<typeof openWebhookKit>;
beforeEach(() => {
  kit = openWebhookKit({ allow_http: false, allowed_networks: [] });
});
afterEach(() => kit.close());

async function register(body: unknown) {
  const app = defineRoutes("entrance")
    .onError(({ error }) => errorResponse(toAppError(error) as AppError))
    .use(
      webhookEndpointRoutes({
        ...{ webhooks: kit.service, onWebhooksChanged: () => {} },
        unpaidActs: { require() {}, count() {} },
      }),
    );
  const request = new Request("http://x/v1/webhook_endpoints", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const caller = { ...kit.caller, keyId: "key_1", scopes: new Set(SCOPES) };
  const target = targetOf(request.url);
  const admit = () => caller;
  setContext(request, {
    ...target,
    requestId: "req_1",
    server: undefined,
    responseFields: {},
    client: { address: "127.0.0.1", isKnown: true, isProxied: false },
    admit,
  });
  const response = await app.fetch(request);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

test("registering an endpoint returns the endpoint with its secret, and nothing else", async () => {
  const url = "https://hooks.example/transcriptions?tenant=7";
  const { status, body } = await register({ url });
  expect(status).toBe(201);
  expect(Object.keys(body).sort()).toEqual(["id", "object", "secret", "url"]);
  expect(body).toMatchObject({ object: "webhook_endpoint", url, secret: expect.stringMatching(/^whsec_/) });
  expect(isId("webhookEndpoint", String(body.id))).toBe(true);
  expect(kit.service.list({ projectId: kit.caller.projectId }).map(({ id }) => id)).toEqual([
    String(body.id),
  ]);
});

test.each([
  [{ url: "https://169.254.169.254/" }, "invalid_request", "url"],
  [{ url: "http://hooks.example/" }, "invalid_request", "url"],
  [{ url: "" }, "invalid_request", "url"],
  [{ url: 5 }, "invalid_request", "url"],
  [{}, "invalid_request", "url"],
  [{ url: `https://hooks.example/${"x".repeat(2048)}` }, "invalid_request", "url"],
  [{ url: "https://hooks.example/", types: ["*"] }, "unknown_parameter", "types"],
  [{ url: "https://hooks.example/", events: ["*"] }, "invalid_request", "events.0"],
])("a bad registration is refused (%#)", async (given, code, detail) => {
  const { status, body } = await register(given);
  expect(status).toBe(422);
  expect(body.error).toMatchObject({ code, detail });
  expect(kit.service.list()).toEqual([]);
});
