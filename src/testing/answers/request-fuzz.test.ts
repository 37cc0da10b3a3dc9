import { expect, test } from "bun:test";
import { openTestApp } from "../kits/open-test-app.ts";
import { createRequestFuzz } from "./request-fuzz.ts";
import { type Document, type FuzzWorld, operationsOf } from "./request-fuzz-world.ts";

const ID = "01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
const WORLD: Omit<FuzzWorld, "operations"> = {
  keys: { right: `shr_${"a".repeat(24)}_${"b".repeat(49)}` },
  ...{ transcriptions: [`tr_${ID}`], uploads: [`up_${ID}`], endpoints: [`whe_${ID}`] },
  open: [{ id: `up_${ID}`, token: "upt_x", bytes: 44 }],
  ...{ model: "demo", recording: new Uint8Array(44), host: "127.0.0.1:1", unfinished: 0 },
};
/** So many requests meet each operation at least once. */
const REQUESTS = 10_000;

test("the fuzzed requests meet each operation of the document", async () => {
  const testApp = await openTestApp({ config: { openai: { enabled: true } } });
  const document = (await (await testApp.fetch("/openapi.json")).json()) as Document;
  await testApp.close();
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { operationId }]) =>
      operationId === undefined ? [] : [{ operationId, method: method.toUpperCase(), form: formOf(path) }],
    ),
  );
  const fuzz = createRequestFuzz({ ...WORLD, operations: operationsOf(document) }, 1);
  const missing = new Set(operations.map(({ operationId }) => operationId));
  for (let index = 0; index < REQUESTS && missing.size > 0; index++) {
    for (const asked of fuzz(index).asked) {
      const path = asked?.target.split("?")[0] ?? "";
      const met = operations.find(({ method, form }) => method === asked?.method && form.test(path));
      if (met) missing.delete(met.operationId);
    }
  }
  expect(operations.length).toBeGreaterThan(15);
  expect([...missing]).toEqual([]);
});

const formOf = (path: string) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
