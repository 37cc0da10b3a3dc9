import { AppError } from "../../domain/errors.ts";
import { contextOf } from "../context.ts";
import { defineRoutes } from "../route.ts";
import { type ConsoleFiles, openConsoleFiles } from "./console-files.ts";

/**
 * Nothing but this server, and neither script nor style in the page's own text. Recordings that are about to be sent are
 * opened from the browser (`blob:`), to find their lengths.
 */
const POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  "media-src 'self' blob:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const PAGE = "page.html";
/** Names of the other files contain a hash of their bytes. */
const FOREVER = "public, max-age=31536000, immutable";

/** The console: one page and its files (docs/decisions/extensions.md). No key is needed to load them. */
export function consoleRoutes(files: ConsoleFiles = openConsoleFiles()) {
  return (
    defineRoutes("console")
      .get("/console", ({ request }) =>
        send(files, PAGE, request, {
          "content-security-policy": POLICY,
          "referrer-policy": "no-referrer",
          "cross-origin-opener-policy": "same-origin",
          "cache-control": "no-cache",
        }),
      )
      // A relative address, so that a proxy may serve the page below another path.
      .get("/console/", () => new Response(null, { status: 308, headers: { location: "../console" } }))
      .get("/console/assets/:name", ({ request, params }) => {
        if (params.name === PAGE) throw new AppError("not_found");
        return send(files, params.name, request, { "cache-control": FOREVER });
      })
  );
}

/** @throws AppError `not_found` when there is no such file */
async function send(
  files: ConsoleFiles,
  name: string,
  request: Request,
  fields: Record<string, string>,
): Promise<Response> {
  const file = await files.find(name, request.headers.get("accept-encoding"));
  if (file === undefined) throw new AppError("not_found");
  const { type, coding, bytes, tag } = file;
  const headers = { ...fields, "content-type": type, etag: tag, vary: "Accept-Encoding" };
  if (request.headers.get("if-none-match") === tag) return new Response(null, { status: 304, headers });
  return new Response(bytes, {
    headers: coding === "identity" ? headers : { ...headers, "content-encoding": coding },
  });
}

/**
 * Sends browsers from `/` to the console, or where there is none to the documentation. Undefined for other requests:
 * for them there is nothing at `/`.
 */
export function homeOf(request: Request, hasConsole: boolean): Response | undefined {
  const isBrowser = request.headers.get("accept")?.includes("text/html") ?? false;
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (!isBrowser || !isRead || contextOf(request).path !== "/") return undefined;
  // Relative, as the page's own addresses: a proxy may serve the program below a path of its own.
  return new Response(null, {
    status: 302,
    headers: { location: hasConsole ? "console" : "docs", vary: "Accept" },
  });
}
