import { afterAll, beforeAll, expect, test } from "bun:test";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** Results in all their formats. */

let testApp: TestApp;
let path: string;
let id: string;
beforeAll(async () => {
  testApp = await openTestApp();
  const client = apiClient(testApp.as(testApp.key));
  ({ id } = await client.transcribe(scriptedAudio({ seconds: 2, text: "नमस्ते" }), { language: "hi" }));
  path = `/v1/transcriptions/${id}/result`;
});
afterAll(() => testApp.close());

const SRT = "1\n00:00:00,000 --> 00:00:02,000\nनमस्ते\n";
const VTT = "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nनमस्ते\n";

test.each([
  ["?format=srt", "", "application/x-subrip", SRT, null],
  ["?format=vtt", "application/json", "text/vtt", VTT, null],
  ["?format=text", "text/vtt", "text/plain", "नमस्ते\n", null],
  ["?format=srt&download=1", "", "application/x-subrip", SRT, "srt"],
  ["?download=1", "text/vtt", "text/vtt", VTT, "vtt"],
  ["?download=true&format=text", "", "text/plain", "नमस्ते\n", "txt"],
  ["", "text/srt", "text/srt", SRT, null],
  ["", "application/srt", "application/srt", SRT, null],
  ["", "application/x-subrip", "application/x-subrip", SRT, null],
])("a result with %s and Accept: %s is %s", async (query, accept, type, body, suffix) => {
  const headers = accept === "" ? {} : { accept };
  const response = await testApp.as(testApp.key)(path + query, { headers });
  expect([response.headers.get("content-type"), await response.text()]).toEqual([
    `${type}; charset=utf-8`,
    body,
  ]);
  const disposition = suffix === null ? null : `attachment; filename="${id}.${suffix}"`;
  expect(response.headers.get("content-disposition")).toBe(disposition);
});

test("a result is JSON where the link asks for it", async () => {
  const response = await testApp.as(testApp.key)(`${path}?format=json&download=1`, {
    headers: { accept: "text/vtt" },
  });
  expect(await response.json()).toMatchObject({ id, text: "नमस्ते" });
  expect(response.headers.get("content-disposition")).toBe(`attachment; filename="${id}.json"`);
});

test.each([
  ["?format=pdf", "invalid_request", "format"],
  ["?download=yes", "invalid_request", "download"],
  ["?fmt=srt", "unknown_parameter", "fmt"],
] as const)("a result with %s is refused", async (query, code, detail) => {
  await expectRefusal(await testApp.as(testApp.key)(path + query), { code, detail });
});

test("GET / sends browsers to the documentation, and others what an unknown path gets", async () => {
  const browser = await testApp.app.handle(
    new Request("http://shruti.test/", { headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } }),
  );
  expect([browser.status, browser.headers.get("location")]).toEqual([302, "console"]);
  await expectRefusal(await testApp.fetch("/"), { code: "unauthorized" });
  await expectRefusal(await testApp.as(testApp.key)("/"), { code: "not_found" });
});
