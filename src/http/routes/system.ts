import { AppError } from "../../domain/errors.ts";
import { equalsConstantTime } from "../../lib/sha256.ts";
import { bearerOf } from "../../services/api-keys.ts";
import type { HttpDeps } from "../deps.ts";
import { type DescribedRoute, openApiDocument } from "../openapi/document.ts";
import { defineRoutes } from "../route.ts";

/** Routes for those who run the program; they need no project key (docs/decisions/health.md). */
export function systemRoutes(deps: HttpDeps, described: () => readonly DescribedRoute[]) {
  const { config, metrics, unreadyReasons } = deps;
  const document = rememberLast((baseUrl) =>
    openApiDocument(described(), { baseUrl, hasMetrics: config.metrics.enabled }),
  );
  const routes = defineRoutes("system")
    .get("/healthz", () => ({ status: "ok" }))
    .get("/readyz", ({ status }) => {
      const reasons = unreadyReasons();
      return reasons.length === 0 ? { status: "ready" } : status(503, { status: "not_ready", reasons });
    })
    .get("/openapi.json", () => document(deps.baseUrl()));
  if (!config.metrics.enabled) return routes;
  return routes.get("/metrics", async ({ request }) => {
    requireToken(request, config.metrics.token);
    const { contentType, text } = await metrics.render();
    return new Response(text, { headers: { "content-type": contentType } });
  });
}

/** @throws AppError `unauthorized` when a token is configured and the request does not carry it */
function requireToken(request: Request, token: string): void {
  if (token === "") return;
  const given = bearerOf(request.headers.get("authorization")) ?? "";
  if (!equalsConstantTime(given, token)) throw new AppError("unauthorized");
}

/** The address hardly ever changes, and writing the document takes milliseconds. */
function rememberLast<T>(make: (input: string) => T): (input: string) => T {
  let last: { input: string; output: T } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, output: make(input) };
    return last.output;
  };
}
