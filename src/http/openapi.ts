import type { TObject, TSchema } from "@sinclair/typebox";
import { version } from "../../package.json" with { type: "json" };
import { ERROR_TABLE, type ErrorCode } from "../domain/errors.ts";
import { type Operation, operationOf } from "./route.ts";
import { ErrorObject, WebhookEvent } from "./schemas.ts";

type Json = Record<string, unknown>;
export type DescribedRoute = { method: string; path: string; hooks: unknown };

/** Codes that every route with a key can answer, whatever it does. */
const COMMON_ERRORS = [
  "unauthorized",
  "organization_disabled",
  "rate_limited",
  "method_not_allowed",
  "forbidden",
  "internal_error",
  // While the server stops.
  "capacity_unavailable",
] as const satisfies readonly ErrorCode[];

const TAGS = [
  { name: "Transcriptions", description: "Start, follow, fetch, cancel and delete transcriptions." },
  { name: "Uploads", description: "Places that recordings are sent to." },
  { name: "Models", description: "What can be asked for." },
  { name: "Usage", description: "Usage events and credit." },
  { name: "Webhooks", description: "Receivers of events." },
  { name: "Operations", description: "For those who run the program; no project key is needed." },
];

const DESCRIPTION = `Converts speech recordings into text, mainly for Indian languages.

Long recordings: create an upload, send the file, complete the upload, start a transcription, poll it or wait for
its event, fetch the result. Short audio: send one form, and the response is the result.

Unknown fields and parameters are refused with \`unknown_parameter\`. Every response carries \`x-request-id\`.`;

/**
 * The OpenAPI 3.1 document of the service, made from the routes themselves and the schemas they validate with.
 *
 * @param routes of the framework; those without an operation are left out
 * @param baseUrl address of the server, without a slash at the end
 */
export function openApiDocument(routes: readonly DescribedRoute[], baseUrl: string): Json {
  const components = new Map<string, Json>();
  const toJson = createSchemaWriter(components);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const operation = operationOf(route);
    if (!operation) continue;
    const path = route.path.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = describe(route, operation, toJson);
  }
  const webhooks = { transcription: describeWebhook(toJson) };
  toJson(ErrorObject);
  return {
    openapi: "3.1.0",
    info: { title: "Shruti", version, description: DESCRIPTION },
    servers: [{ url: baseUrl }],
    security: [{ projectKey: [] }],
    tags: TAGS,
    paths: { ...paths, ...PUBLIC_PATHS },
    webhooks,
    components: {
      schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
      headers: HEADERS,
      securitySchemes: {
        projectKey: { type: "http", scheme: "bearer", description: "A project's key, `shr_…`." },
        uploadToken: {
          type: "http",
          scheme: "bearer",
          description: "The token of one upload, in the header fields of its create response.",
        },
      },
    },
  };
}

const HEADERS = {
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

const headerRef = (name: keyof typeof HEADERS) => ({ [name]: { $ref: `#/components/headers/${name}` } });
const RATE_HEADERS = { ...headerRef("RateLimit"), ...headerRef("RateLimit-Policy") };

function describe(route: DescribedRoute, operation: Operation, toJson: (schema: TSchema) => Json): Json {
  const hooks = route.hooks as { body?: TSchema; response?: Record<string, TSchema> };
  const media = operation.multipart ? "multipart/form-data" : "application/json";
  const body = operation.multipart ?? hooks.body;
  const parameters = [
    ...pathParameters(route.path),
    ...queryParameters(operation.query, toJson),
    ...(operation.acceptsIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
  ];
  return {
    operationId: operation.id,
    summary: operation.summary,
    description: `${operation.description ? `${operation.description}\n\n` : ""}Scope: \`${operation.scope}\`.`,
    tags: [operation.tag],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body ? { requestBody: { required: true, content: { [media]: contentOf(body, toJson) } } } : {}),
    responses: {
      ...successResponses(operation, hooks.response ?? {}, toJson),
      ...errorResponses([...COMMON_ERRORS, ...operation.errors]),
    },
  };
}

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "A repeated request with its key gets the first transcription; keys are kept for 24 hours at least.",
  schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[\\x20-\\x7e]+$" },
  example: "5f0c2a5e-8f0b-4f0e-9a55-2d9b5d0f3b11",
};

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function queryParameters(query: TObject | undefined, toJson: (schema: TSchema) => Json): Json[] {
  return Object.entries(query?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = toJson(property);
    return { name, in: "query", required: query?.required?.includes(name) ?? false, description, schema };
  });
}

function contentOf(schema: TSchema, toJson: (schema: TSchema) => Json): Json {
  const [example] = (schema.examples as unknown[] | undefined) ?? [];
  return { schema: toJson(schema), ...(example === undefined ? {} : { example }) };
}

function successResponses(
  operation: Operation,
  schemas: Record<string, TSchema>,
  toJson: (schema: TSchema) => Json,
): Json {
  const entries = Object.entries(operation.responses).map(([status, description]) => {
    const schema = schemas[status];
    const alternatives = Object.entries(operation.alternatives ?? {}).map(([type, meaning]) => [
      type,
      { schema: { type: "string", description: meaning } },
    ]);
    const content = {
      ...(schema ? { "application/json": contentOf(schema, toJson) } : {}),
      ...Object.fromEntries(alternatives),
    };
    return [status, { description, headers: { ...headerRef("x-request-id"), ...RATE_HEADERS }, content }];
  });
  return Object.fromEntries(entries);
}

/** One response for each status, with an example for each of its codes. */
function errorResponses(codes: readonly ErrorCode[]): Json {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const { status } = ERROR_TABLE[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const entries = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([status, found]) => [status, errorResponse(status, found)]);
  return Object.fromEntries(entries);
}

function errorResponse(status: number, codes: readonly ErrorCode[]): Json {
  const examples = codes.map((code) => [
    code,
    { value: { error: { code, message: ERROR_TABLE[code].message } } },
  ]);
  return {
    description: codes.map((code) => `\`${code}\`: ${ERROR_TABLE[code].message}`).join("\n\n"),
    headers: {
      ...headerRef("x-request-id"),
      ...(status === 401 ? {} : RATE_HEADERS),
      ...(status === 429 || status === 503 ? headerRef("Retry-After") : {}),
      ...(status === 405 ? headerRef("Allow") : {}),
    },
    content: {
      "application/json": {
        schema: { $ref: `#/components/schemas/${ErrorObject.title}` },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

const SIGNATURE_HEADERS = [
  ["webhook-id", "Event identifier, the same in every attempt.", "evt_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"],
  ["webhook-timestamp", "Unix seconds of the attempt.", "1795233906"],
  [
    "webhook-signature",
    "`v1,` and the base64 HMAC-SHA256 of `<id>.<timestamp>.<body>` (Standard Webhooks 1.0).",
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ],
];

function describeWebhook(toJson: (schema: TSchema) => Json): Json {
  return {
    post: {
      operationId: "receiveEvent",
      summary: "A transcription finished",
      description: "Any 2xx within the time limit ends the delivery; otherwise it is repeated.",
      tags: ["Webhooks"],
      security: [{}],
      parameters: SIGNATURE_HEADERS.map(([name, description, example]) => ({
        name,
        in: "header",
        required: true,
        description,
        schema: { type: "string" },
        example,
      })),
      requestBody: { required: true, content: { "application/json": contentOf(WebhookEvent, toJson) } },
      responses: { "2XX": { description: "Received." } },
    },
  };
}

/** Addresses that no project key opens. */
const PUBLIC_PATHS = {
  "/storage/uploads/{upload_id}": {
    put: {
      operationId: "sendFile",
      summary: "Send a file in one request",
      description: "Address, method and header fields are those of the upload's create response.",
      tags: ["Uploads"],
      security: [{ uploadToken: [] }],
      parameters: pathParameters("/:upload_id"),
      requestBody: { required: true, content: { "application/octet-stream": {} } },
      responses: {
        "200": { description: "Every byte is stored.", headers: headerRef("x-request-id") },
        ...errorResponses(["unauthorized", "not_found", "invalid_request", "audio_too_large", "conflict"]),
      },
    },
  },
  "/healthz": publicPath("getHealth", "Whether the program is alive", "It is."),
  "/readyz": publicPath("getReadiness", "Whether the program can take work", "It can.", {
    "503": { description: "It cannot; the body says why.", headers: headerRef("x-request-id") },
  }),
  "/metrics": publicPath("getMetrics", "Numbers in Prometheus text format", "The numbers."),
};

function publicPath(operationId: string, summary: string, meaning: string, others: Json = {}): Json {
  return {
    get: {
      operationId,
      summary,
      tags: ["Operations"],
      security: [{}],
      responses: { "200": { description: meaning, headers: headerRef("x-request-id") }, ...others },
    },
  };
}

/** Turns schemas into plain JSON Schema 2020-12; titled ones become components and are referred to. */
function createSchemaWriter(components: Map<string, Json>): (schema: TSchema) => Json {
  function write(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map(write);
    if (typeof schema !== "object" || schema === null) return schema;
    const { title, examples, ...rest } = schema as Json;
    const isComponent = typeof title === "string";
    if (isComponent && components.has(title)) return { $ref: `#/components/schemas/${title}` };
    const written: Json = examples === undefined ? {} : { examples };
    for (const [name, value] of Object.entries(rest)) written[name] = KEPT.has(name) ? value : write(value);
    const flat = asEnum(written);
    if (!isComponent) return flat;
    components.set(title, { title, ...flat });
    return { $ref: `#/components/schemas/${title}` };
  }
  return (schema) => write(schema) as Json;
}

/** Members of a schema whose values are data, not schemas. */
const KEPT = new Set(["default", "const", "enum", "required"]);

/** A union of words is an enumeration to everybody else. */
function asEnum(schema: Json): Json {
  const branches = schema.anyOf as Json[] | undefined;
  if (!branches?.every((branch) => typeof branch.const === "string")) return schema;
  const { anyOf: _, ...rest } = schema;
  return { type: "string", enum: branches.map((branch) => branch.const), ...rest };
}
