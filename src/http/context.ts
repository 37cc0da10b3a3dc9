import type { Server } from "bun";
import type { Caller } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";

/** What is known about a request beside its own bytes. */
export type RequestContext = {
  /** `req_…`, as sent in `x-request-id` and logged. */
  requestId: string;
  server: Server<unknown> | undefined;
  /** Set once the key was recognised. */
  caller?: Caller;
  /** The strictly parsed query, as the route's schema types it. */
  query?: unknown;
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

export function contextOf(request: Request): RequestContext {
  const context = contexts.get(request);
  if (!context) throw new Error("the request did not come through the server's entrance");
  return context;
}

/** Who sent the request; every route outside the public ones has a caller. */
export function callerOf(request: Request): Caller {
  const { caller } = contextOf(request);
  if (!caller) throw new AppError("unauthorized");
  return caller;
}
