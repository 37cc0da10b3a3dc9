import { expect, test } from "bun:test";
import type { TSchema } from "@sinclair/typebox";
import { adminRoutes } from "../../http/console/admin-routes.ts";
import type { HttpDeps } from "../../http/deps.ts";
import * as wire from "../../http/wire/console.ts";
import { systemClock } from "../../lib/clock.ts";
import { ANSWERS } from "../console/console-admin.ts";
import { testConfig } from "../kits/test-config.ts";
import { codesIn, readDocument, sectionsOf, tableOf } from "./documents.ts";

/** Compares what exists of the console's admin part beside its routes with these: its document, and the answers of its pictures. */

const PREFIX = "/console/api/";

/** The routes only keep what they are made of until a request comes. */
const routes = adminRoutes({
  admin: {},
  clock: systemClock,
  config: testConfig(),
} as unknown as HttpDeps).routes.map((route) => ({
  method: route.method,
  path: route.path.slice(PREFIX.length).replaceAll(/:(\w+)/g, "{$1}"),
  answer: nameOf((route.hooks as { response?: { 200?: TSchema } }).response?.[200]),
}));

/** Returns the name of a shape in http/wire/console.ts, or undefined for an answer that is not JSON. */
function nameOf(shape: TSchema | undefined): string | undefined {
  return shape && Object.entries(wire).find(([, each]) => (each as unknown) === shape)?.[0];
}

test("docs/console.md section 4 has each admin endpoint with the shape of its answer", () => {
  const section = sectionsOf(readDocument("docs/console.md")).find(
    ({ title }) => title === "Admin endpoints",
  );
  if (!section) throw new Error("docs/console.md has no section Admin endpoints");
  const documented = tableOf(section, "Endpoint", "Request", "Answer").rows.map(
    ([endpoint = "", , answer = ""]) => {
      const [shape = ""] = /^\w+/.exec(answer) ?? [];
      // A parameter may have a name that says more than the code's.
      return `${codesIn(endpoint)[0]?.replaceAll(/\{\w+\}/g, "{id}")}: ${shape}`;
    },
  );
  const described = routes.map(({ method, path, answer = "CSV" }) => `${method} /${path}: ${answer}`);
  expect(described.length).toBeGreaterThan(20);
  expect(documented.sort()).toEqual(described.sort());
});

/** What no view of the pictures reads. */
const NOT_READ = ["organizations/{id}/usage.csv", "transcriptions/{id}"];

test("the pictures of the console have an answer for each address that its views may read", () => {
  const isAnswered = (path: string) => {
    const form = new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
    return Object.keys(ANSWERS).some((answered) => form.test(answered));
  };
  const unanswered = routes.filter(({ method, path }) => method === "GET" && !isAnswered(path));
  expect(unanswered.map(({ path }) => path).sort()).toEqual(NOT_READ);
});
