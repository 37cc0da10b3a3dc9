const MAX_AGE_SECONDS = 600;
const EXPOSED = [
  "x-request-id",
  "retry-after",
  "ratelimit",
  "ratelimit-policy",
  "location",
  "content-disposition",
  "content-range",
  "accept-ranges",
  "etag",
  "x-ignored-parameters",
  "x-transcription-id",
  "x-transcription-state",
  "x-should-retry",
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

export type Cors = {
  /** Whether a request is a browser's question before another request, from an allowed origin. */
  isPreflight(request: Request): boolean;
  /** The answer to such a question; undefined for any other request. */
  preflight(request: Request, methods: readonly string[]): Response | undefined;
  /** Adds what a browser needs to hand a response to its page. */
  decorate(request: Request, headers: Headers): void;
};

/**
 * Lets pages of the configured origins call the service (`server.cors_origins`); with none it does nothing.
 *
 * @param origins is called for each request
 */
export function createCors(origins: () => readonly string[]): Cors {
  const isAllowed = (origin: string | null): origin is string =>
    origin !== null && (origins().includes(origin) || origins().includes("*"));

  const isPreflight = ({ method, headers }: Request) =>
    method === "OPTIONS" && headers.has("access-control-request-method") && isAllowed(headers.get("origin"));

  return {
    isPreflight,

    preflight(request, methods) {
      if (!isPreflight(request)) return undefined;
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

    decorate(request, headers) {
      if (origins().length === 0) return;
      headers.append("vary", "Origin");
      const origin = request.headers.get("origin");
      if (!isAllowed(origin)) return;
      headers.set("access-control-allow-origin", origin);
      headers.set("access-control-expose-headers", EXPOSED.join(", "));
    },
  };
}
