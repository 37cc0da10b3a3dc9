import type { TObject, TSchema } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Scope } from "../domain/api-key.ts";
import type { ErrorCode } from "../domain/errors.ts";
import { contextOf } from "./context.ts";
import { readJson } from "./parse.ts";

/** What a route says about itself beside its handler; read by the server (scope, query) and by openapi.ts. */
export type Operation = {
  /** `operationId` in the OpenAPI document. */
  id: string;
  summary: string;
  description?: string;
  tag: "Transcriptions" | "Uploads" | "Models" | "Usage" | "Webhooks";
  /** What the key must be allowed to do. */
  scope: Scope;
  /** Query parameters by name; none where absent. */
  query?: TObject;
  /** The codes this route can answer beside those of every route. */
  errors: readonly ErrorCode[];
  /** Meaning of each success status. */
  responses: Record<number, string>;
  acceptsIdempotencyKey?: boolean;
  /** A body that Elysia does not validate, for the document: fields of `multipart/form-data`. */
  multipart?: TObject;
  /** Other media types of the 200 response, chosen by `Accept`. */
  alternatives?: Record<string, string>;
};

const DETAIL_NAME = "x-operation";

/**
 * A group of routes with every loose end of the framework tied: nothing is dropped or coerced silently,
 * a trailing slash is another path, and the `Host` field does not change the route.
 */
export function defineRoutes<const Name extends string>(name: Name) {
  return new Elysia({ name, normalize: false, strictPath: true, handler: { standardHostname: false } });
}

/** A route's hook for a JSON body: strictly parsed, typed, described. */
export function jsonBody<T extends TSchema>(schema: T) {
  return { parse: ({ request }: { request: Request }) => readJson(request, schema), body: schema };
}

/** A route's hook that carries its operation. */
export function operation(value: Operation) {
  return { detail: { [DETAIL_NAME]: value } as Record<string, unknown> };
}

/** The operation of a route of `app.routes`, or undefined for one that has none. */
export function operationOf(route: { hooks: unknown }): Operation | undefined {
  const { detail } = route.hooks as { detail?: Record<string, unknown> };
  return detail?.[DETAIL_NAME] as Operation | undefined;
}

/** The query as the server parsed it against the operation's schema. */
export function queryOf<T>(request: Request): T {
  return contextOf(request).query as T;
}
