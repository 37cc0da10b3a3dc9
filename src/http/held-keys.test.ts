import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Log } from "../lib/log.ts";
import { silentLog } from "../lib/log.ts";
import { transaction } from "../store/database.ts";
import { putHeldKeys } from "../store/held-keys.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";

/** Keys that a restore holds back: refused everywhere until they are confirmed, while the server runs. */

const warnings: object[] = [];
let testApp: TestApp;
beforeAll(async () => {
  const log: Log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) } as Log;
  testApp = await openTestApp({ log });
});
afterAll(() => testApp.close());

function hold(): void {
  const { app, clock } = testApp;
  transaction(app.database.store, (tx) =>
    putHeldKeys(tx, { untilMs: clock.now(), knownUntilMs: clock.now(), confirmed: new Set() }, clock.now()),
  );
  app.services.apiKeys.forgetCached();
}

type Allocated = { upload: { url: string; headers: Record<string, string> } };

test("a held key and the tokens of its uploads are refused with the reason, and accepted once it is confirmed", async () => {
  const { app, as, key, project, makeKey, clock } = testApp;
  const send = as(key);
  const allocate = { method: "POST", headers: { "content-type": "application/json" }, body: '{"bytes":4}' };
  const { upload } = (await (await send("/v1/uploads", allocate)).json()) as Allocated;
  const put = () =>
    testApp.fetch(new URL(upload.url).pathname, { method: "PUT", headers: upload.headers, body: "RIFF" });
  hold();
  clock.advance(1);
  const later = makeKey(project.id);
  for (const refused of [await send("/v1/models"), await send("/v1/models"), await put()]) {
    const { error } = (await refused.json()) as { error: { code: string; message: string } };
    expect({ status: refused.status, ...error }).toMatchObject({
      ...{ status: 401, code: "unauthorized", message: expect.stringContaining("held back") },
    });
  }
  // A wrong key does not learn that it would be held.
  const wrong = (await (await as(`${key}x`)("/v1/models")).json()) as { error: { message: string } };
  expect(wrong.error.message).not.toContain("held back");
  expect((await as(later)("/v1/models")).status).toBe(200);
  const [held] = app.services.apiKeys.listKeys();
  expect(held).toMatchObject({ held: true });
  expect(warnings.filter((fields) => "key_id" in fields)).toEqual([{ key_id: held?.id }]);
  expect(() => app.services.apiKeys.confirmKeys([held?.id ?? "", "key_none"])).toThrow("There is no key");
  expect((await send("/v1/models")).status).toBe(401);
  expect(app.services.apiKeys.confirmKeys([held?.id ?? ""])).toMatchObject([{ held: false }]);
  expect(app.services.apiKeys.confirmKeys([held?.id ?? ""])).toEqual([]);
  expect((await send("/v1/models")).status).toBe(200);
  expect((await put()).status).toBeLessThan(300);
});

test("what cannot be read in the list of held keys holds all of them", async () => {
  const { app, as, key } = testApp;
  app.database.sqlite.run(
    "INSERT OR REPLACE INTO settings (name, value, updated_at) VALUES ('keys.held', '{\"until_ms\":\"now\"}', 1)",
  );
  app.services.apiKeys.forgetCached();
  expect((await as(key)("/v1/models")).status).toBe(401);
  app.services.apiKeys.confirmKeys();
  expect((await as(key)("/v1/models")).status).toBe(200);
});
