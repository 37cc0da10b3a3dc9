import type { Server } from "bun";
import type { Caller } from "../domain/api-key.ts";
import type { ErrorCode } from "../domain/errors.ts";
import type { ClientAddress } from "./client-address.ts";

/** What is known about a request beside its own bytes. */
export type RequestContext = {
  /** `req_…`, as sent in `x-request-id` and logged. */
  requestId: string;
  server: Server<unknown> | undefined;
  /** The address without its query, as it was sent. */
  path: string;
  /** What follows the question mark; empty where there is none. */
  search: string;
  /** The route as it was declared, such as `/v1/uploads/:upload_id`; set once it is known. */
  route?: string;
  /** Checks the key and its rate, and sets `caller`. */
  admit: () => Caller;
  /** Set once the key was recognised. */
  caller?: Caller;
  /** The code of the refusal, for the log. */
  code?: ErrorCode;
  /** Where the request comes from. */
  client: ClientAddress;
  /** Set once an admin's session was recognised: the user who asked for its link. */
  admin?: string;
  /** The answer says `Connection: close`, and the server closes. */
  closesConnection?: boolean;
  /** Header fields for the response, whatever it will be. */
  responseFields: Record<string, string>;
};

const contexts = new WeakMap<Request, RequestContext>();

/** Notes what is known about a request, for the time it lives. */
export function setContext(request: Request, context: RequestContext): void {
  contexts.set(request, context);
}

/** Returns what is known about a request that the server has received. */
export function contextOf(request: Request): RequestContext {
  const context = contexts.get(request);
  if (!context) throw new Error("the request did not come through createHttpHandler");
  return context;
}

/**
 * Returns who sent the request. The first call checks the key; later ones return what it found.
 *
 * @throws AppError `unauthorized`, `organization_disabled`, `rate_limited`; `not_found` for an encoded path
 */
export function callerOf(request: Request): Caller {
  const context = contextOf(request);
  return context.caller ?? context.admit();
}

/** Splits a request's address into path and query. The host is the client's word and may be anything: not parsed. */
export function targetOf(url: string): { path: string; search: string } {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const target = start < 0 ? "/" : url.slice(start);
  const at = target.indexOf("?");
  return at < 0 ? { path: target, search: "" } : { path: target.slice(0, at), search: target.slice(at + 1) };
}
