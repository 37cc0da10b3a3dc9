import type { Caller, Scope } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import { rateLimitFields } from "../services/rate-limit.ts";
import type { RequestContext } from "./context.ts";
import type { HttpDeps } from "./deps.ts";

/**
 * Recognises the sender of a request and counts the request against the key's rate.
 *
 * @throws AppError `unauthorized`, `organization_disabled`, `rate_limited`, `not_found` (in this order)
 */
export function admit(deps: HttpDeps, request: Request, context: RequestContext): Caller {
  const caller =
    callerOfLink(deps, context) ?? deps.apiKeys.authenticate(request.headers.get("authorization"));
  const limits = deps.rateLimiter.limitsFor(deps.apiKeys.requestsPerSecondOf(caller));
  try {
    deps.rateLimiter.take(caller.keyId, limits);
  } finally {
    const standing = deps.rateLimiter.peek(caller.keyId, limits);
    if (standing) Object.assign(context.responseFields, rateLimitFields(standing));
  }
  context.caller = caller;
  // Identifiers need no percent-encoding, and Elysia would decode it: no resource has such an address.
  if (context.path.includes("%")) throw new AppError("not_found");
  return caller;
}

const AUDIO_PATH = /^\/v1\/transcriptions\/(tr_[0-9A-Z]{26})\/audio$/;

/** Returns the caller of a request that has an audio link in the place of a key; undefined for every other request. */
function callerOfLink({ listening }: HttpDeps, { path, search }: RequestContext): Caller | undefined {
  const id = AUDIO_PATH.exec(path)?.[1];
  const link = id && new URLSearchParams(search).get("link");
  return id && link ? listening.callerOf(link, id) : undefined;
}

/** @throws AppError `forbidden`, detail: the scope that the key lacks */
export function requireScope({ scopes }: Caller, needed: Scope): void {
  if (scopes.has(needed)) return;
  throw new AppError("forbidden", { detail: needed, message: `This API key lacks the scope ${needed}.` });
}
