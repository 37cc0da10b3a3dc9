import { promisify } from "node:util";
import { gzip } from "node:zlib";
import viewerPath from "../../../node_modules/@scalar/api-reference/dist/browser/standalone.js" with {
  type: "file",
};
import { sha256Hex } from "../../lib/sha256.ts";
import { defineRoutes } from "../route.ts";

/** Nothing but this server: no fonts, telemetry, proxy or other host (docs/decisions/health.md). */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Addresses are relative: a proxy may serve the program below a path of its own. */
const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Shruti: interface</title>
    <link rel="icon" href="data:,">
  </head>
  <body>
    <div id="app"></div>
    <script src="docs/viewer.js"></script>
    <script src="docs/start.js"></script>
  </body>
</html>
`;

const START = `Scalar.createApiReference("#app", {
  url: "./openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  modelsSectionLabel: "Schemas",
  agent: { disabled: true },
  mcp: { disabled: true },
});
`;

const IMMUTABLE_FOR_SECONDS = 3600;

/** The page that shows the OpenAPI document. Its viewer is inside the executable; no key is needed. */
export function docsRoutes() {
  return defineRoutes("docs")
    .get("/docs", () => page(PAGE, "text/html; charset=utf-8"))
    .get("/docs/start.js", () => page(START, "text/javascript; charset=utf-8"))
    .get("/docs/viewer.js", ({ request }) => viewer(request));
}

function page(text: string, contentType: string): Response {
  return new Response(text, {
    headers: {
      "content-type": contentType,
      "content-security-policy": POLICY,
      "referrer-policy": "no-referrer",
      "cache-control": "no-cache",
    },
  });
}

type Viewer = { plain: Uint8Array<ArrayBuffer>; gzip: Uint8Array<ArrayBuffer>; tag: string };
let loading: Promise<Viewer> | undefined;

/** Reads and compresses the viewer at its first request: the start does not wait for 4 MB of script. */
async function loadViewer(): Promise<Viewer> {
  const plain = await Bun.file(viewerPath).bytes();
  return {
    plain,
    gzip: new Uint8Array(await promisify(gzip)(plain)),
    tag: `"${sha256Hex(plain).slice(0, 32)}"`,
  };
}

async function viewer(request: Request): Promise<Response> {
  loading ??= loadViewer();
  const { plain, gzip: small, tag } = await loading;
  const headers = {
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": `public, max-age=${IMMUTABLE_FOR_SECONDS}`,
    etag: tag,
    vary: "Accept-Encoding",
  };
  if (request.headers.get("if-none-match") === tag) return new Response(null, { status: 304, headers });
  const isCompressed = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  return isCompressed
    ? new Response(small, { headers: { ...headers, "content-encoding": "gzip" } })
    : new Response(plain, { headers });
}
