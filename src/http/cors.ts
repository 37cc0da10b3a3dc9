const MAX_AGE_SECONDS = 600;
const EXPOSED = [
  "x-request-id",
  "retry-after",
  "ratelimit",
  "ratelimit-policy",
  "location",
  "tus-resumable",
  "upload-offset",
  "upload-length",
  "upload-expires",
  "upload-metadata",
  "tus-version",
  "tus-extension",
  "tus-max-size",
  "tus-checksum-algorithm",
];

/** Lets pages of the configured origins call the service (`server.cors_origins`); with none it does nothing. */
export function createCors(origins: readonly string[]) {
  const allowed = new Set(origins);
  const isAllowed = (origin: string | null): origin is string =>
    origin !== null && (allowed.has(origin) || allowed.has("*"));

  return {
    /** The answer to a browser's question before a request; undefined for any other request. */
    preflight(request: Request, methods: readonly string[]): Response | undefined {
      const isQuestion = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
      if (!isQuestion || !isAllowed(request.headers.get("origin"))) return undefined;
      return new Response(null, {
        status: 204,
        headers: {
          "access-control-allow-methods": methods.join(", "),
          "access-control-allow-headers":
            request.headers.get("access-control-request-headers") ?? "authorization, content-type",
          "access-control-max-age": String(MAX_AGE_SECONDS),
        },
      });
    },

    /** Adds what a browser needs to hand a response to its page. */
    decorate(request: Request, headers: Headers): void {
      if (allowed.size === 0) return;
      headers.append("vary", "Origin");
      const origin = request.headers.get("origin");
      if (!isAllowed(origin)) return;
      headers.set("access-control-allow-origin", origin);
      headers.set("access-control-expose-headers", EXPOSED.join(", "));
    },
  };
}
