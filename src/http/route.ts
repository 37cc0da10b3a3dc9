import { type TObject, type TSchema, Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Scope } from "../domain/api-key.ts";
import type { ErrorCode } from "../domain/errors.ts";
import { requireScope } from "./auth.ts";
import { callerOf, contextOf } from "./context.ts";
import { announcesBody, readEmptyBody, readJson, readQuery, refuseBody } from "./wire/parse.ts";

/** What the OpenAPI document says about a route beside the shapes of its answers. */
export type Operation = {
  /** `operationId` in the OpenAPI document. */
  id: string;
  summary: string;
  description?: string;
  tag: "Transcriptions" | "Uploads" | "Models" | "Usage" | "Webhooks" | "OpenAI";
  /** The document leaves the route out, because it refuses every request. */
  isHidden?: boolean;
  /** What the key must be allowed to do. */
  scope: Scope;
  /** The codes this route can answer beside those of every route. */
  errors: readonly ErrorCode[];
  /** Meaning of each success status. */
  responses: Record<number, string>;
  acceptsIdempotencyKey?: boolean;
  /** The JSON body may be absent, which means `{}`. */
  hasOptionalBody?: boolean;
  /** The fields of a `multipart/form-data` body, which the handler receives itself. */
  multipart?: TObject;
  /** Other media types of the success responses. */
  alternatives?: Record<string, string>;
  /** Meaning of each status that a refusal has beside the statuses of codes. */
  refusals?: Record<number, string>;
  /** The shape of refusals; left out: that of docs/interface.md section 7. */
  errorShape?: "openai";
};

/** The schemas that a route reads its request with. */
type Reads<Query, Body> = {
  /** Query parameters by name; none where absent. */
  query?: Query;
  /** A JSON body; none where absent. */
  body?: Body;
  /** Returns the parameters of the query and fields of the body that the config does not switch on now: they are unknown parameters. */
  withheld?: () => readonly string[];
};

/** An operation with the schemas that its request is read with. */
export type DescribedOperation = Operation & { query: TObject; body?: TSchema };

type Hooked = { request: Request; query: unknown };

const DETAIL_NAME = "x-operation";
export const NO_FIELDS = Type.Object({}, { additionalProperties: false });

/**
 * A group of routes with every loose end of the framework tied: nothing is dropped or coerced silently,
 * a trailing slash is another path, and the `Host` field does not change the route.
 */
export function defineRoutes<const Name extends string>(name: Name) {
  return new Elysia({ name, normalize: false, strictPath: true, handler: { standardHostname: false } });
}

/** A group of routes that need a key: their handlers receive the `caller`. */
export function defineKeyedRoutes<const Name extends string>(name: Name) {
  return defineRoutes(name).resolve(({ request }) => ({ caller: callerOf(request) }));
}

/**
 * The hooks that read a request. Elysia gets the types of the schemas, and not the schemas: it would validate a second
 * time, with other errors. Elysia parses a body before any other hook runs, and has no body to parse in a GET.
 *
 * @param look checks who asks, and returns the query
 * @param read returns the body
 */
export function readingHooks<Query extends TObject, Body extends TSchema | undefined>(
  look: (request: Request) => unknown,
  read: (request: Request) => Promise<unknown>,
) {
  const hooks = {
    // Arrow functions: Elysia reads the source of its hooks, and takes a method's whole text for its parameter.
    parse: (context: Hooked) => {
      context.query = look(context.request);
      return read(context.request);
    },
    transform: (context: Hooked) => {
      if (context.request.method !== "GET" && context.request.method !== "HEAD") return;
      context.query = look(context.request);
      refuseBody(context.request);
    },
  };
  return hooks as typeof hooks & { query: Query } & (Body extends TSchema ? { body: Body } : unknown);
}

/**
 * A route's hooks: the scope is checked, then the query and the body are read and validated strictly, once
 * (docs/decisions/order-of-checks.md).
 */
export function operation<
  Query extends TObject = typeof NO_FIELDS,
  Body extends TSchema | undefined = undefined,
>({ query = NO_FIELDS as unknown as Query, body, withheld, ...described }: Operation & Reads<Query, Body>) {
  const check = (request: Request) => {
    requireScope(callerOf(request), described.scope);
    return readQuery(contextOf(request).search, query, withheld?.());
  };
  const read = async (request: Request): Promise<unknown> => {
    if (body && described.hasOptionalBody && !announcesBody(request)) return {};
    if (body) return readJson(request, body, withheld?.());
    if (!described.multipart) await readEmptyBody(request, NO_FIELDS);
    return null;
  };
  const operation = { ...described, query, ...(body ? { body } : {}) };
  return {
    ...readingHooks<Query, Body>(check, read),
    detail: { [DETAIL_NAME]: operation } as Record<string, unknown>,
  };
}

/** The operation of a route of `app.routes`, or undefined for one that has none. */
export function operationOf(route: { hooks: unknown }): DescribedOperation | undefined {
  const { detail } = route.hooks as { detail?: Record<string, unknown> };
  return detail?.[DETAIL_NAME] as DescribedOperation | undefined;
}
