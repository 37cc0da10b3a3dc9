import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import type { TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { ERROR_CODES, ERROR_TABLE } from "../../domain/errors.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import * as schemas from "../wire/schemas.ts";
import { validate } from "../wire/validate.ts";

type Json = Record<string, unknown>;
type Media = { schema: Json; example?: unknown; examples?: Record<string, { value: unknown }> };
type DescribedOperation = {
  operationId: string;
  parameters?: { name: string; in: string; schema: Json }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { headers?: Json; content?: Record<string, Media> }>;
};
type Document = {
  openapi: string;
  servers: { url: string }[];
  paths: Record<string, Record<string, DescribedOperation>>;
  components: { schemas: Record<string, Json>; securitySchemes: Json };
};

let testApp: TestApp;
let document: Document;
beforeAll(async () => {
  testApp = await openTestApp();
  document = (await (await testApp.fetch("/openapi.json")).json()) as Document;
});
afterAll(() => testApp.close());

/** docs/interface.md section 4: every endpoint and the success statuses that it defines. */
const ENDPOINTS: [method: string, path: string, statuses: string[]][] = [
  ["post", "/v1/transcriptions", ["200", "202"]],
  ["get", "/v1/transcriptions", ["200"]],
  ["get", "/v1/transcriptions/{transcription_id}", ["200"]],
  ["delete", "/v1/transcriptions/{transcription_id}", ["200"]],
  ["get", "/v1/transcriptions/{transcription_id}/result", ["200"]],
  ["post", "/v1/transcriptions/{transcription_id}/cancel", ["200"]],
  ["post", "/v1/audio/transcriptions", ["200"]],
  ["post", "/v1/uploads", ["201"]],
  ["post", "/v1/uploads/{upload_id}/complete", ["200", "202"]],
  ["get", "/v1/uploads/{upload_id}", ["200"]],
  ["get", "/v1/models", ["200"]],
  ["get", "/v1/usage", ["200"]],
  ["post", "/v1/webhook_endpoints", ["201"]],
];

/** docs/decisions/extensions.md, "Further endpoints". */
const EXTENSIONS: typeof ENDPOINTS = [
  ["get", "/v1/webhook_endpoints", ["200"]],
  ["get", "/v1/webhook_endpoints/{webhook_endpoint_id}", ["200"]],
  ["delete", "/v1/webhook_endpoints/{webhook_endpoint_id}", ["200"]],
  ["post", "/v1/webhook_endpoints/{webhook_endpoint_id}/enable", ["200"]],
  ["post", "/v1/webhook_endpoints/{webhook_endpoint_id}/rotate_secret", ["200"]],
  ["get", "/v1/transcriptions/{transcription_id}/audio", ["200", "206"]],
  ["post", "/v1/transcriptions/{transcription_id}/audio_links", ["201"]],
  ["get", "/v1/transcriptions/{transcription_id}/waveform", ["200"]],
];

function operations(): [string, DescribedOperation][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, DescribedOperation] => [
      `${method} ${path}`,
      operation,
    ]),
  );
}

/** The components, each under its name in the document. */
const NAMED = new Map(
  Object.values(schemas).flatMap((schema): [string, TSchema][] => {
    const { title } = schema as unknown as { title?: unknown };
    return typeof title === "string" ? [[title, schema as unknown as TSchema]] : [];
  }),
);

describe("GET /openapi.json", () => {
  test("is a correct OpenAPI 3.1 document", async () => {
    expect(document.openapi).toBe("3.1.0");
    const outcome = await new Validator().validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    );
    expect(outcome).toEqual({ valid: true });
    expect(document.servers).toEqual([{ url: testApp.baseUrl() }]);
  });

  test.each([...ENDPOINTS, ...EXTENSIONS])("describes %s %s", (method, path, statuses) => {
    const operation = document.paths[path]?.[method];
    expect(Object.keys(operation?.responses ?? {}).filter((status) => status.startsWith("2"))).toEqual(
      statuses,
    );
    const type = path.endsWith("/audio") ? "audio/wav" : "application/json";
    for (const status of statuses)
      expect(operation?.responses[status]?.content).toHaveProperty([type, "schema"]);
  });

  test("describes everything under /v1 that exists, and nothing else", () => {
    const described = operations()
      .map(([name]) => name)
      .filter((name) => name.includes(" /v1/"));
    expect(described.sort()).toEqual(
      [...ENDPOINTS, ...EXTENSIONS].map(([method, path]) => `${method} ${path}`).sort(),
    );
    const ids = operations().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("names every code under its status, and the codes of each route", () => {
    const found = new Set<string>();
    for (const [, { responses }] of operations()) {
      for (const [status, { content }] of Object.entries(responses)) {
        for (const [code, { value }] of Object.entries(content?.["application/json"]?.examples ?? {})) {
          found.add(code);
          expect(ERROR_TABLE[code as keyof typeof ERROR_TABLE].status).toBe(Number(status) as never);
          validate(schemas.ErrorObject, value);
        }
      }
    }
    expect([...found].sort()).toEqual([...ERROR_CODES].sort());
  });

  test("names every header", () => {
    for (const [name, { responses }] of operations()) {
      for (const [status, { headers }] of Object.entries(responses)) {
        expect([name, status, Object.keys(headers ?? {})]).toEqual([
          name,
          status,
          expect.arrayContaining(["x-request-id"]),
        ]);
        if (status === "429" || status === "503") {
          if (!name.endsWith("/readyz")) expect(headers).toHaveProperty("Retry-After");
        }
        if (status === "405") expect(headers).toHaveProperty("Allow");
      }
    }
    const withKey = operations().filter(([, { parameters }]) =>
      parameters?.some(({ name }) => name === "Idempotency-Key"),
    );
    expect(withKey.map(([name]) => name)).toEqual([
      "post /v1/transcriptions",
      "post /v1/audio/transcriptions",
    ]);
  });

  test("refers only to components that exist, and uses all of them", () => {
    const text = JSON.stringify(document);
    const referred = new Set([...text.matchAll(/#\/components\/schemas\/(\w+)/g)].map(([, name]) => name));
    expect([...referred].sort()).toEqual(Object.keys(document.components.schemas).sort());
    expect(Object.keys(document.components.schemas).sort()).toEqual([...NAMED.keys()].sort());
  });

  test("is accepted by client generators", () => {
    const faults: string[] = [];
    const walk = (value: unknown, path: string) => {
      if (typeof value !== "object" || value === null) return;
      if ("patternProperties" in value) faults.push(`${path}: patternProperties`);
      for (const [name, field] of Object.entries((value as { properties?: Json }).properties ?? {})) {
        if ("default" in (field as Json)) faults.push(`${path}.${name}: a default that makes it required`);
        if (/_at$/.test(name) && !JSON.stringify(field).includes("date-time")) faults.push(`${path}.${name}`);
      }
      for (const [name, inner] of Object.entries(value)) walk(inner, `${path}.${name}`);
    };
    walk(document.components.schemas, "");
    expect(faults).toEqual([]);
    const bodies = operations().flatMap(([, { requestBody }]) => Object.values(requestBody?.content ?? {}));
    for (const { schema } of bodies) expect(Object.keys(schema).length).toBeGreaterThan(0);
    expect(document.components.schemas.AudioForm).toHaveProperty("properties.file.format", "binary");
    expect(document.components.schemas.Mode).toHaveProperty("default", "native");
  });

  test("has nothing of which generators for Go and Python make code that does not compile", () => {
    const components = Object.entries(document.components.schemas);
    // A generator makes the words of each enumeration names of one package.
    const words = components.flatMap(([, { enum: list }]) =>
      ((list ?? []) as string[]).filter((word) => /^(true|false)$/.test(word)),
    );
    expect(words).toEqual([...new Set(words)]);
    // A default of a union is written as one of a type that it does not have.
    expect(components.filter(([, schema]) => "anyOf" in schema && "default" in schema)).toEqual([]);
    // Parameters of webhooks lose their types, and schemas that only webhooks need are left out.
    expect(document).not.toHaveProperty("webhooks");
    const needed = new Set<string>();
    const follow = (value: unknown) => {
      for (const [, name = ""] of JSON.stringify(value).matchAll(/#\/components\/schemas\/(\w+)/g)) {
        if (needed.has(name)) continue;
        needed.add(name);
        follow(document.components.schemas[name]);
      }
    };
    follow(document.paths);
    expect([...needed].sort()).toEqual(components.map(([name]) => name).sort());
  });

  test("gives parameters no example values, because the page for trying requests would send them", () => {
    for (const [name, { parameters }] of operations()) {
      for (const parameter of parameters ?? []) {
        const filledIn = "example" in parameter || "examples" in parameter.schema;
        expect([name, parameter.name, filledIn]).toEqual([name, parameter.name, false]);
      }
    }
  });

  test("says what pages and webhook addresses look like, and refuses nothing there that the server takes", async () => {
    const patterns = operations().flatMap(([, { parameters = [] }]) =>
      parameters.flatMap(({ name, schema }) => (name === "after" ? [String(schema.pattern)] : [])),
    );
    expect(patterns.length).toBeGreaterThan(2);
    for (const pattern of new Set(patterns)) {
      expect(testApp.project.id).toMatch(new RegExp(pattern));
      for (const other of ["", "x", "tr_", `${testApp.project.id}0`])
        expect(other).not.toMatch(new RegExp(pattern));
    }
    const create = document.components.schemas.WebhookEndpointCreate as { properties: Record<string, Json> };
    const address = new RegExp(String(create.properties.url?.pattern));
    const register = async (text: string) =>
      testApp.as(testApp.key)("/v1/webhook_endpoints", {
        method: "POST",
        body: JSON.stringify({ url: text }),
        headers: { "content-type": "application/json" },
      });
    for (const text of [
      "https://bücher.example/a@b?c=d@e",
      "HTTPS://HOOKS.example",
      "https://[2606:4700::1111]:8443/",
    ]) {
      expect([text, address.test(text), (await register(text)).status]).toEqual([text, true, 201]);
    }
    for (const text of [
      "",
      "hooks.example",
      "ftp://a.example",
      "https:a.example",
      "https://u@a.example/",
      "https://a.example/#x",
    ]) {
      expect([text, address.test(text), (await register(text)).status]).toEqual([text, false, 422]);
    }
  });

  test("allows no unknown fields in any object", () => {
    const open: string[] = [];
    const walk = (value: unknown, path: string) => {
      if (typeof value !== "object" || value === null) return;
      const { type, properties, additionalProperties } = value as Json;
      if (type === "object" && properties && additionalProperties !== false) open.push(path);
      for (const [name, inner] of Object.entries(value)) walk(inner, `${path}.${name}`);
    };
    walk(document.components.schemas, "");
    expect(open).toEqual([]);
  });
});

describe("examples", () => {
  test.each([...NAMED.keys()])("of %s fit its schema", (name) => {
    const schema = NAMED.get(name);
    if (!schema) throw new Error("unreachable");
    const { examples } = schema as unknown as { examples: unknown[] };
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) expect([...Value.Errors(schema, example)]).toEqual([]);
  });

  test("are present for every request and response", () => {
    for (const [name, { requestBody, responses }] of operations()) {
      if (!name.includes(" /v1/")) continue;
      for (const [type, media] of Object.entries(requestBody?.content ?? {})) {
        // A page for trying requests would send the example in place of a file.
        expect([name, "example" in media]).toEqual([name, type === "application/json"]);
      }
      for (const { content } of Object.values(responses)) {
        const media = content?.["application/json"];
        // The sound, or an empty answer.
        if (!media && name.endsWith("/audio")) continue;
        expect([name, Boolean(media?.example ?? media?.examples)]).toEqual([name, true]);
      }
    }
  });
});
