import { afterAll, beforeAll, expect, test } from "bun:test";
import { openTestApp, type TestApp } from "../kits/open-test-app.ts";
import { createDescriptionCheck, type Described } from "./described.ts";

let testApp: TestApp;
let faultOf: ReturnType<typeof createDescriptionCheck>;
beforeAll(async () => {
  testApp = await openTestApp();
  faultOf = createDescriptionCheck((await (await testApp.fetch("/openapi.json")).json()) as Described);
});
afterAll(() => testApp.close());

const LIST = { object: "list", data: [], next: null };
const answer = (more: object = {}) => ({
  method: "GET",
  path: "/v1/transcriptions",
  status: 200,
  headers: new Headers({ "content-type": "application/json; charset=utf-8", "x-request-id": "req_1" }),
  text: JSON.stringify(LIST),
  ...more,
});

test("a response matches its description, or the fault is named", () => {
  expect(faultOf(answer())).toBeUndefined();
  expect(faultOf(answer({ path: "/nothing" }))).toBeUndefined();
  expect(faultOf(answer({ status: 418 }))).toBe("418 is not described");
  expect(faultOf(answer({ method: "PATCH" }))).toBe("PATCH is answered");
  expect(faultOf(answer({ text: JSON.stringify({ ...LIST, more: 1 }) }))).toContain("additional properties");
  expect(faultOf(answer({ headers: new Headers({ "content-type": "application/json" }) }))).toBe(
    "200 lacks x-request-id",
  );
  const html = new Headers({ "content-type": "text/html", "x-request-id": "req_1" });
  expect(faultOf(answer({ headers: html }))).toBe("200 as text/html is not described");
  const id = "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
  const error = { error: { code: "no_such_code", message: "" } };
  const path = `/v1/transcriptions/${id}`;
  expect(faultOf(answer({ path, status: 404, text: JSON.stringify(error) }))).toContain("/error/code");
});

test("every response that a test of the program receives is checked", async () => {
  const { app } = testApp;
  const { handle } = app;
  app.handle = async () => new Response("{}", { status: 418 });
  await expect(testApp.as(testApp.key)("/v1/models")).rejects.toThrow("418 is not described");
  app.handle = handle;
  expect((await testApp.as(testApp.key)("/v1/models")).status).toBe(200);
});
