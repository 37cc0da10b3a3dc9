import { ERROR_TABLE, type ErrorCode } from "../../domain/errors.ts";
import { ErrorObject } from "../wire/schemas.ts";

/** Pieces of the OpenAPI document that routes and the public addresses share. */

export type Json = Record<string, unknown>;

/** The body of every refusal. */
export const ERROR = { $ref: `#/components/schemas/${ErrorObject.title}` };

export const HEADERS = {
  "x-request-id": {
    description: "Names this request; quote it when asking for help.",
    required: true,
    schema: { type: "string" },
    example: "req_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C",
  },
  "Retry-After": {
    description: "Whole seconds to wait before trying again.",
    required: true,
    schema: { type: "integer", minimum: 1 },
    example: 2,
  },
  RateLimit: {
    description: "Requests that can be sent at once now (r), seconds until all can (t).",
    schema: { type: "string" },
    example: '"default";r=99;t=1',
  },
  "RateLimit-Policy": {
    description: "Requests that can be sent at once (q), seconds in which they come back (w).",
    schema: { type: "string" },
    example: '"default";q=100;w=2',
  },
  Allow: {
    description: "Methods that the path knows.",
    required: true,
    schema: { type: "string" },
    example: "GET, HEAD, POST",
  },
};

export const headerRef = (name: keyof typeof HEADERS) => ({
  [name]: { $ref: `#/components/headers/${name}` },
});
export const RATE_HEADERS = { ...headerRef("RateLimit"), ...headerRef("RateLimit-Policy") };

/** The parameters of a path as Elysia writes it, such as `/v1/uploads/:upload_id`. */
export function pathParameters(path: string): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

/** How the errors of an interface are described: the schema of their body, and one example with its status. */
export type DescribedErrors = {
  schema: Json;
  answerOf: (code: ErrorCode) => { status: number; error: Json };
};

const OWN_ERRORS: DescribedErrors = {
  schema: ERROR,
  answerOf(code) {
    const { status, message } = ERROR_TABLE[code];
    return { status, error: { code, message } };
  },
};

/** One response for each status, with an example for each of its codes. */
export function errorResponses(
  codes: readonly ErrorCode[],
  headers: Json = RATE_HEADERS,
  described: DescribedErrors = OWN_ERRORS,
): Json {
  const byStatus = Map.groupBy(new Set(codes), (code) => described.answerOf(code).status);
  const entries = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, found]) => [status, errorResponse(status, found, headers, described)]);
  return Object.fromEntries(entries);
}

function errorResponse(
  status: number,
  codes: readonly ErrorCode[],
  headers: Json,
  { schema, answerOf }: DescribedErrors,
): Json {
  const examples = codes.map((code) => [code, { value: { error: answerOf(code).error } }]);
  return {
    description: codes.map((code) => `\`${code}\`: ${ERROR_TABLE[code].message}`).join("\n\n"),
    headers: {
      ...headerRef("x-request-id"),
      ...(status === 401 ? {} : headers),
      ...(status === 429 || status === 503 ? headerRef("Retry-After") : {}),
      ...(status === 405 ? headerRef("Allow") : {}),
    },
    content: { "application/json": { schema, examples: Object.fromEntries(examples) } },
  };
}
