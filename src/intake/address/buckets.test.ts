import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Transcription, TranscriptionCreate } from "../../http/wire/schemas.ts";
import { createBucketService, type NewBucket } from "../../services/buckets.ts";
import { createSealedTexts } from "../../services/sealed-texts.ts";
import { fileAnswer, type HostAnswer, startFileHost } from "../../testing/kits/file-host.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { isSigned } from "../../testing/kits/s3-signature.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

const SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const recording = scriptedAudio({ seconds: 20, text: "नमस्ते" });
/** The objects of the bucket `calls`, by their paths. */
const objects = new Map<string, Uint8Array<ArrayBuffer>>();
let failures = 0;
/** What the server answers to one method. */
let refusal: { method: string; answer: () => Response } | undefined;
let files: Awaited<ReturnType<typeof startFileHost>>;
let testApp: TestApp;

/** A small server of S3: it refuses what is not signed with the secret. */
const s3: HostAnswer = (request) => {
  if (refusal?.method === request.method) return refusal.answer();
  if (!isSigned(request, SECRET)) return new Response("SignatureDoesNotMatch", { status: 403 });
  if (request.method === "PUT") {
    if (failures-- > 0) return new Response("SlowDown", { status: 503 });
    objects.set(request.path, new Uint8Array(request.body));
    return new Response();
  }
  const object = objects.get(request.path);
  return object ? fileAnswer(object)(request) : new Response("NoSuchKey", { status: 404 });
};

beforeAll(async () => {
  files = await startFileHost({}, s3);
  testApp = await openTestApp({ config: { intake: { url: true, ca_file: files.caFile } } });
});
afterAll(async () => {
  await testApp.close();
  await files.stop();
});
beforeEach(() => {
  objects.clear();
  failures = 0;
  refusal = undefined;
  buckets().add(bucket());
});

const buckets = () => {
  const { database } = testApp.app;
  return createBucketService({
    database,
    clock: testApp.clock,
    sealed: createSealedTexts(testApp.directory),
  });
};
const bucket = (more: Partial<NewBucket> = {}): NewBucket => ({
  ...{ organizationId: testApp.organization.id, name: "calls", endpoint: `https://${files.host}` },
  ...{ region: "ap-south-1", accessKey: "AKIA1", secretKey: SECRET, isPrivate: true },
  ...more,
});

/** A transcription, or an error. */
type Answered = Transcription & { error: { code: string; message: string; detail?: string } };

async function start(more: Partial<TranscriptionCreate>) {
  const body = JSON.stringify({ language: "hi", ...more });
  const headers = { "content-type": "application/json" };
  const response = await testApp.as(testApp.key)("/v1/transcriptions", { method: "POST", headers, body });
  return { status: response.status, body: (await response.json()) as Answered };
}

async function shown(id: string, isSo: (row: Transcription) => boolean): Promise<Transcription> {
  const show = async () =>
    (await (await testApp.as(testApp.key)(`/v1/transcriptions/${id}`)).json()) as Transcription;
  await until(`${id} is as expected`, async () => isSo(await show()));
  return show();
}

test.each(["a.wav", "नमस्ते/a b+c&d=e?f#g%20'(*)!.wav"])(
  "the object %s is fetched, and the result written",
  async (key) => {
    const path = `/calls/${encodeURIComponent(key)
      .replaceAll("%2F", "/")
      .replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)}`;
    objects.set(path, recording);
    failures = 1;
    const results_to = { url: "s3://calls/out/", formats: ["json", "srt", "json"] as ("json" | "srt")[] };
    const { status, body } = await start({ audio: { source_url: `s3://calls/${key}` }, results_to });
    expect(status).toBe(202);
    expect(body).toMatchObject({ source: { url: `s3://calls/${key}` }, results_to: { state: "waiting" } });
    const waiting = await shown(body.id, ({ results_to: copy }) => copy?.message !== undefined);
    expect(waiting.results_to?.message).toBe(
      `${files.host} answered 503 for s3://calls/out/${body.id}.json.`,
    );
    testApp.clock.advance(10_000);
    const done = await shown(body.id, ({ results_to: copy }) => copy?.state === "written");
    expect(done).toMatchObject({ state: "completed", results_to: { formats: ["json", "srt"] } });
    const text = (format: string) => new TextDecoder().decode(objects.get(`/calls/out/${body.id}.${format}`));
    const result = await testApp.as(testApp.key)(`/v1/transcriptions/${body.id}/result`);
    expect(JSON.parse(text("json"))).toEqual(await result.json());
    expect(text("srt")).toContain("00:00:0");
  },
);

test("a bucket with another secret, of another organization, or removed, gives nothing", async () => {
  objects.set("/calls/a.wav", recording);
  buckets().add(bucket({ secretKey: "another" }));
  const wrong = await start({ audio: { source_url: "s3://calls/a.wav" } });
  const failed = await shown(wrong.body.id, ({ state }) => state === "failed");
  expect(failed.error?.message).toContain(`${files.host} answered 403`);
  buckets().remove(testApp.organization.id, "calls");
  const other = testApp.accounts.createOrganization({ name: "Other" });
  buckets().add(bucket({ organizationId: other.id }));
  const { status, body } = await start({ audio: { source_url: "s3://calls/a.wav" } });
  expect([status, body.error.detail]).toEqual([422, "audio.source_url"]);
});

test("an endpoint of this machine is called only where an admin has said that it is private", async () => {
  buckets().add(bucket({ isPrivate: false }));
  const { body } = await start({ audio: { source_url: "s3://calls/a.wav" } });
  const failed = await shown(body.id, ({ state }) => state === "failed");
  expect(failed.error?.message).toContain("127.0.0.1 is a loopback address");
  expect(() => buckets().add(bucket({ isPrivate: false, endpoint: "http://s3.example" }))).toThrow(
    "--private",
  );
});

test.each([
  ["https://files.example/out/", "s3://bucket/"],
  ["s3://calls/out", "s3://bucket/folder/"],
  ["s3://other/out/", "no bucket other"],
])("results to %s are refused", async (url, message) => {
  const { status, body } = await start({ audio: { source_url: "s3://calls/a.wav" }, results_to: { url } });
  expect([status, body.error.detail]).toEqual([422, "results_to.url"]);
  expect(body.error.message).toContain(message);
});

test("the secret is not in the database, and opens under the same key and name alone", () => {
  const { database } = testApp.app;
  const row = database.sqlite
    .query("SELECT * FROM buckets WHERE organization_id = ?")
    .get(testApp.organization.id) as { sealed_secret: string };
  expect(JSON.stringify(row)).not.toContain(SECRET);
  const sealed = createSealedTexts(testApp.directory);
  const about = `bucket calls of ${testApp.organization.id}`;
  expect(sealed.open(row.sealed_secret, about)).toBe(SECRET);
  expect(sealed.open(row.sealed_secret, "bucket others")).toBeUndefined();
  expect(sealed.open(`${row.sealed_secret.slice(0, -2)}AA`, about)).toBeUndefined();
  expect(buckets().list()[0]).not.toHaveProperty("sealedSecret");
});

describe("a bucket that refuses because of this machine's clock says so, and is asked again", () => {
  const refuse = (code: string, message: string, clockMs = Date.now()) =>
    new Response(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`, {
      status: 403,
      headers: { "content-type": "application/xml", date: new Date(clockMs).toUTCString() },
    });
  const HOUR_MS = 3_600_000;
  const DIFFERS = "The difference between the request time and the current time is too large.";
  const REFUSALS: [name: string, answer: () => Response, words: string][] = [
    ["its code", () => refuse("RequestTimeTooSkewed", DIFFERS), "differs from it"],
    ["its time", () => refuse("AccessDenied", "Access Denied", Date.now() + HOUR_MS), "is 60 minutes behind"],
    ["both", () => refuse("RequestTimeTooSkewed", DIFFERS, Date.now() - HOUR_MS), "is 60 minutes ahead"],
    ["an address that has expired", () => refuse("AccessDenied", "Request has expired"), "differs from it"],
    [
      "an address before its time",
      () => refuse("AccessDenied", "Request is not valid yet"),
      "differs from it",
    ],
  ];
  test.each(REFUSALS)("by %s", async (_name, answer, words) => {
    objects.set("/calls/a.wav", recording);
    const asked = { audio: { source_url: "s3://calls/a.wav" }, results_to: { url: "s3://calls/out/" } };
    for (const [method, field, end] of [
      ["GET", "source", "fetched"],
      ["PUT", "results_to", "written"],
    ] as const) {
      refusal = { method, answer };
      const { body } = await start(asked);
      const waiting = await shown(body.id, (row) => row[field]?.message !== undefined);
      const message = waiting[field]?.message ?? "";
      expect(message).toStartWith(`${files.host} answered 403`);
      expect(message).toContain(`: by its clock, this machine's clock ${words}`);
      refusal = undefined;
      testApp.clock.advance(60_000);
      await shown(body.id, (row) => row[field]?.state === end);
    }
  });

  test("one that refuses the key alone fails at once, with its own words", async () => {
    refusal = { method: "GET", answer: () => refuse("AccessDenied", "Access Denied") };
    const { body } = await start({ audio: { source_url: "s3://calls/a.wav" } });
    const failed = await shown(body.id, ({ state }) => state === "failed");
    expect(failed.error?.message).toContain("other credentials");
  });
});
