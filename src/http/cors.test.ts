import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";

const ORIGIN = "https://app.example";

/** Header fields that every page may read (Fetch standard, "CORS-safelisted response-header name"). */
const SAFELISTED = [
  ...["cache-control", "content-language", "content-length", "content-type"],
  ...["expires", "last-modified", "pragma"],
];
/** Header fields for browsers and proxies themselves. */
const NOT_FOR_PAGES = [
  ...["allow", "connection", "content-encoding", "content-security-policy", "referrer-policy", "vary"],
  ...["www-authenticate", "x-accel-buffering", "x-content-type-options"],
];
/** Header fields of requests. The doors of assistants send such. */
const OF_REQUESTS = ["authorization"];

/** A header field that is set by a method or by its name in brackets, or that is a name in an object. */
const HEADER_FIELD = /headers(?:\.(?:set|append)\(|\[)"([a-z-]+)"|"((?:[a-z]+-)+[a-z]+)": /g;

let testApp: TestApp;
let exposed: string[];
beforeAll(async () => {
  testApp = await openTestApp({
    config: { server: { cors_origins: [ORIGIN] }, openai: { enabled: true } },
  });
  const answer = await testApp.fetch("/v1/models", { headers: { origin: ORIGIN } });
  exposed = (answer.headers.get("access-control-expose-headers") ?? "").split(", ");
});
afterAll(() => testApp.close());

const isHidden = (name: string) =>
  ![...exposed, ...SAFELISTED, ...NOT_FOR_PAGES, ...OF_REQUESTS].includes(name);

test("pages of other origins may read each header field that the document describes", async () => {
  type Answer = { headers?: Record<string, unknown> };
  type Document = {
    paths: Record<string, Record<string, { responses?: Record<string, Answer> }>>;
    components: { responses?: Record<string, Answer> };
  };
  const document = (await (await testApp.fetch("/openapi.json")).json()) as Document;
  const answers = [
    ...Object.values(document.components.responses ?? {}),
    ...Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ responses }) => Object.values(responses ?? {})),
  ];
  const described = new Set(
    answers.flatMap(({ headers }) => Object.keys(headers ?? {}).map((name) => name.toLowerCase())),
  );
  expect(described.size).toBeGreaterThan(5);
  expect([...described].filter(isHidden)).toEqual([]);
});

test("pages of other origins may read each header field that the code of the interface sets", () => {
  // Answers of the console go to its own page alone, and this module writes what browsers themselves read.
  const files = readdirSync(import.meta.dir, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .filter((name) => !name.startsWith("console/") && name !== "cors.ts")
    .map((name) => join(import.meta.dir, name));
  const set = files.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(HEADER_FIELD)].map(([, first, second]) => first ?? second ?? ""),
  );
  expect(new Set(set).size).toBeGreaterThan(10);
  expect([...new Set(set)].filter(isHidden)).toEqual([]);
});
