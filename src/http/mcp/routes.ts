import { AppError } from "../../domain/errors.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { contextOf } from "../context.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes } from "../route.ts";
import { readMessage } from "../wire/parse.ts";

export const MCP_PATH = "/mcp";

/** Answers a request that the program sends to itself. */
export type OwnHandler = (request: Request) => Promise<Response>;

/**
 * The Model Context Protocol (docs/clients/mcp.md); only with `mcp.enabled`. Its tools are requests of this API with the
 * sender's key, which this program answers itself.
 */
export function mcpRoutes({ log, stopping, baseUrl }: HttpDeps, handle: OwnHandler) {
  return defineKeyedRoutes("mcp").post(
    MCP_PATH,
    async ({ request }) => {
      // Most servers have no assistants.
      const { answerMessage, MAX_MESSAGE_BYTES } = await import("./over-http.ts");
      const message = await readMessage(request, MAX_MESSAGE_BYTES);
      if (Array.isArray(message))
        throw new AppError("invalid_request", { message: "A request has one message, not a list of them." });
      const { server, requestId } = contextOf(request);
      // Nothing passes while a transcript is awaited.
      server?.timeout(request, 0);
      const authorization = request.headers.get("authorization") ?? "";
      return answerMessage(request, message, {
        send: (address, init) => handle(ownRequest(address.replace(baseUrl(), ""), init, authorization)),
        signal: AbortSignal.any([request.signal, stopping]),
        onFault: (error) =>
          log.error({ request_id: requestId, fault: errorMessage(error) }, "a tool of an assistant failed"),
      });
    },
    { parse: "none" },
  );
}

/** A request of this program to itself. That of a file has a token of its own. */
function ownRequest(path: string, init: RequestInit, authorization: string): Request {
  const headers = new Headers(init.headers);
  if (!headers.has("authorization")) headers.set("authorization", authorization);
  if (init.body instanceof Blob) headers.set("content-length", String(init.body.size));
  return new Request(`http://localhost${path}`, { ...init, headers });
}
