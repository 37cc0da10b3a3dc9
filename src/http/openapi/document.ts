import type { TObject, TSchema } from "@sinclair/typebox";
import { version } from "../../../package.json" with { type: "json" };
import type { ErrorCode } from "../../domain/errors.ts";
import { openAiAnswer } from "../openai/errors.ts";
import { OpenAiError } from "../openai/schemas.ts";
import { type DescribedOperation, type Operation, operationOf } from "../route.ts";
import {
  CreditLowEvent,
  ErrorObject,
  Health,
  NotReady,
  Readiness,
  Upload,
  WebhookEvent,
} from "../wire/schemas.ts";
import {
  ERROR,
  errorResponses,
  HEADERS,
  headerRef,
  type Json,
  pathParameters,
  RATE_HEADERS,
} from "./parts.ts";
import { publicPaths } from "./public.ts";

export type DescribedRoute = { method: string; path: string; hooks: unknown };

/** Codes that every route with a key can answer, whatever it does. */
const COMMON_ERRORS = [
  "unauthorized",
  "organization_disabled",
  "rate_limited",
  "method_not_allowed",
  "forbidden",
  // Of the query, and of a body where none is taken.
  "unknown_parameter",
  "invalid_request",
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
  { name: "OpenAI", description: "OpenAI's audio API, where the admin has switched it on." },
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
 * @param options.baseUrl address of the server, without a slash at the end
 */
export function openApiDocument(
  routes: readonly DescribedRoute[],
  { baseUrl, hasMetrics }: { baseUrl: string; hasMetrics: boolean },
): Json {
  const components = new Map<string, Json>();
  const toJson = createSchemaWriter(components);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const operation = operationOf(route);
    if (!operation || operation.isHidden) continue;
    const path = route.path.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = {
      ...describe(route, operation, toJson),
      ...(operation.id === REGISTRATION ? { callbacks: eventCallbacks(toJson) } : {}),
    };
  }
  for (const schema of [ErrorObject, Upload, Health, Readiness, NotReady]) toJson(schema);
  return {
    openapi: "3.1.0",
    info: {
      title: "Shruti",
      version,
      description: DESCRIPTION,
      contact: { name: "The admin of this server" },
      license: { name: "No licence has been chosen yet", identifier: "LicenseRef-none" },
    },
    servers: [{ url: baseUrl }],
    security: [{ projectKey: [] }],
    tags: TAGS,
    paths: { ...paths, ...publicPaths({ hasMetrics }) },
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
        ...(hasMetrics
          ? {
              metricsToken: { type: "http", scheme: "bearer", description: "`metrics.token` of the config." },
            }
          : {}),
      },
    },
  };
}

function describe(
  route: DescribedRoute,
  operation: DescribedOperation,
  toJson: (schema: TSchema) => Json,
): Json {
  const hooks = route.hooks as { response?: Record<string, TSchema> };
  const media = operation.multipart ? "multipart/form-data" : "application/json";
  const body = operation.multipart ?? operation.body;
  const described =
    operation.errorShape === "openai" ? { schema: toJson(OpenAiError), answerOf: openAiAnswer } : undefined;
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
    ...(body
      ? {
          requestBody: {
            required: !operation.hasOptionalBody,
            content: { [media]: bodyOf(operation, body, toJson) },
          },
        }
      : {}),
    responses: {
      ...successResponses(operation, hooks.response ?? {}, toJson),
      ...errorResponses([...COMMON_ERRORS, ...operation.errors], RATE_HEADERS, described),
    },
  };
}

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "A new key for each piece of work, such as a random UUID. A repeated request with its key gets the first transcription; keys are kept for 24 hours at least.",
  // No example: the page would fill it in, and the second try would meet the first one's key.
  schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[\\x20-\\x7e]+$" },
};

function queryParameters(query: TObject | undefined, toJson: (schema: TSchema) => Json): Json[] {
  return Object.entries(query?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = toJson(property);
    // A member of an object is given as `name[member]`.
    const style = property.type === "object" ? { style: "deepObject", explode: true } : {};
    const required = query?.required?.includes(name) ?? false;
    return {
      name,
      in: "query",
      required,
      description: description ?? property.description,
      ...style,
      schema,
    };
  });
}

/** No example of a form: its file cannot be written down, and the page would send the words in its place. */
function bodyOf({ multipart }: Operation, body: TSchema, toJson: (schema: TSchema) => Json): Json {
  return multipart ? { schema: toJson(body) } : contentOf(body, toJson);
}

function contentOf(schema: TSchema, toJson: (schema: TSchema) => Json): Json {
  const [example] = (schema.examples as unknown[] | undefined) ?? [];
  return { schema: toJson(schema), ...(example === undefined ? {} : { example }) };
}

const OUT_OF_RANGE = {
  error: { code: "invalid_request", message: "The range begins behind the end.", detail: "range" },
};

/** A response without a body. */
const NOT_MODIFIED = "304";

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
    const headers = { ...headerRef("x-request-id"), ...RATE_HEADERS };
    return [status, { description, headers, ...(status === NOT_MODIFIED ? {} : { content }) }];
  });
  const refusals = Object.entries(operation.refusals ?? {}).map(([status, description]) => [
    status,
    {
      description,
      headers: { ...headerRef("x-request-id"), ...RATE_HEADERS },
      content: { "application/json": { schema: ERROR, example: OUT_OF_RANGE } },
    },
  ]);
  return Object.fromEntries([...entries, ...refusals]);
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

/** The operation that registers a receiver of events. */
const REGISTRATION = "createWebhookEndpoint";

/**
 * What a registered receiver gets. These are callbacks and not the document's `webhooks`: of those, generators of clients
 * for Go and Python make code that does not compile.
 */
function eventCallbacks(toJson: (schema: TSchema) => Json): Json {
  const ended = describeEvent(contentOf(WebhookEvent, toJson), {
    operationId: "receiveEvent",
    summary: "A transcription finished",
  });
  const low = describeEvent(contentOf(CreditLowEvent, toJson), {
    operationId: "receiveCreditLow",
    summary: "The credit of the organization is low",
  });
  const address = "{$request.body#/url}";
  return { transcription: { [address]: ended }, credit_low: { [address]: low } };
}

function describeEvent(content: Json, names: { operationId: string; summary: string }): Json {
  return {
    post: {
      ...names,
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
      requestBody: { required: true, content: { "application/json": content } },
      responses: {
        "2XX": { description: "Received." },
        "4XX": {
          description: "Not received; the delivery is repeated. After 410 the endpoint is disabled instead.",
        },
      },
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
    for (const [name, value] of Object.entries(rest)) {
      written[KEYWORDS[name] ?? name] = KEPT.has(name) ? value : write(value);
    }
    const flat = asMap(asEnum(written));
    if (!isComponent) return flat;
    components.set(title, { title, ...flat });
    return { $ref: `#/components/schemas/${title}` };
  }
  return (schema) => write(schema) as Json;
}

/** Members of a schema whose values are data, not schemas. */
const KEPT = new Set(["default", "const", "enum", "required"]);

/** What only the document says of a schema, under its name there. */
const KEYWORDS: Record<string, string> = {
  describedFormat: "format",
  describedPattern: "pattern",
};

/** An object with any names, in the form that generators of clients know. */
function asMap(schema: Json): Json {
  const { patternProperties, ...rest } = schema as { patternProperties?: Record<string, Json> };
  const [[pattern, any] = []] = Object.entries(patternProperties ?? {});
  if (pattern === undefined) return schema;
  const names = pattern === "^(.*)$" ? {} : { propertyNames: { pattern } };
  return { ...rest, additionalProperties: any, ...names };
}

/** A union of words is an enumeration to everybody else. */
function asEnum(schema: Json): Json {
  const branches = schema.anyOf as Json[] | undefined;
  if (!branches?.every((branch) => typeof branch.const === "string")) return schema;
  const { anyOf: _, ...rest } = schema;
  return { type: "string", enum: branches.map((branch) => branch.const), ...rest };
}
