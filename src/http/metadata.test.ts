import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Metadata } from "../domain/metadata.ts";
import { events, transcriptionMetadata } from "../store/schema.ts";
import { type ApiError, apiClient, audioForm } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { BENCH_WEBHOOKS, type Receiver, startReceiver } from "../testing/kits/webhook-kit.ts";
import type {
  Transcription,
  TranscriptionList,
  TranscriptionResult,
  WebhookEndpoint,
} from "./wire/schemas.ts";

/** The field `metadata` over HTTP, with and without the setting that switches it on. */

const AUDIO = scriptedAudio({ seconds: 1, text: "नमस्ते" });
const SYNCHRONOUS = "/v1/audio/transcriptions";
const OPENAI = "/openai/v1/audio/transcriptions";
const LIST = "/v1/transcriptions";

let on: TestApp;
let off: TestApp;
let receiver: Receiver;
beforeAll(async () => {
  const capabilities = { metadata: true };
  on = await openTestApp({ config: { capabilities, openai: { enabled: true }, webhooks: BENCH_WEBHOOKS } });
  off = await openTestApp({ config: { openai: { enabled: true } } });
  receiver = startReceiver();
});
afterAll(async () => {
  await on.close();
  await off.close();
  await receiver.stop();
});

const client = () => apiClient(on.as(on.key));

async function started(metadata: Metadata | undefined, options: object = {}): Promise<Transcription> {
  const { id } = await client().upload(AUDIO);
  const request = { audio: { upload_id: id }, language: "hi", ...(metadata ? { metadata } : {}), ...options };
  return (await client().start(request)).body;
}
const ended = async (metadata: Metadata | undefined, options: object = {}) =>
  client().finished((await started(metadata, options)).id);

const list = async (query: string) =>
  (await (await on.as(on.key)(`${LIST}?${query}`)).json()) as TranscriptionList;
const idsOf = ({ data }: TranscriptionList) => data.map(({ id }) => id);

test("what is noted is in the object, the list, the result and the event, and goes with the transcript", async () => {
  const { body: endpoint } = await client().call<WebhookEndpoint>("POST", "/v1/webhook_endpoints", {
    url: receiver.url,
  });
  const metadata = { agent: "12", "Caller-id_2": '९८२०😀 "x"' };
  const one = await ended(metadata, { webhook_endpoint_id: endpoint.id });
  expect(one.metadata).toEqual(metadata);
  const get = async (path: string) => (await on.as(on.key)(path)).json();
  expect(((await get(`${LIST}/${one.id}/result`)) as TranscriptionResult).metadata).toEqual(metadata);
  expect((await list("limit=100")).data.find(({ id }) => id === one.id)?.metadata).toEqual(metadata);
  while (!receiver.received.some(({ body }) => body.includes(one.id))) await Bun.sleep(5);
  const sent = receiver.received.find(({ body }) => body.includes(one.id));
  expect(JSON.parse(sent?.body ?? "")).toEqual({
    type: "transcription.completed",
    data: { id: one.id, state: "completed", metadata },
  });

  const { body: deleted } = await client().call<Transcription>("DELETE", `${LIST}/${one.id}`);
  expect(deleted).not.toHaveProperty("metadata");
  expect(idsOf(await list("metadata[agent]=12"))).toEqual([]);
  expect(on.app.database.store.select().from(transcriptionMetadata).all()).toEqual([]);
  const [event] = on.app.database.store.select().from(events).all();
  expect(JSON.parse(event?.body ?? "")).toEqual({
    type: "transcription.completed",
    data: { id: one.id, state: "completed" },
  });
});

test("lists find what has all of some metadata, page by page", async () => {
  const ids: string[] = [];
  for (const [agent, queue] of ["aa", "ab", "ba", "aa", "bb"].map(([agent = "", queue = ""]) => [
    agent,
    queue,
  ])) {
    ids.unshift((await ended({ agent: agent ?? "", queue: queue ?? "" })).id);
  }
  const [bb, second, ba, ab, first] = ids;
  expect(idsOf(await list("metadata[agent]=a"))).toEqual([second, ab, first] as string[]);
  expect(idsOf(await list("metadata%5Bagent%5D=a&metadata[queue]=a"))).toEqual([second, first] as string[]);
  expect(idsOf(await list("metadata[agent]=b&state=completed"))).toEqual([bb, ba] as string[]);
  expect(idsOf(await list("metadata[agent]=b&state=failed"))).toEqual([]);
  expect(idsOf(await list("metadata[agent]=nobody"))).toEqual([]);
  const page = await list("metadata[agent]=a&limit=2");
  expect([idsOf(page), page.next]).toEqual([[second, ab], ab] as [string[], string]);
  const rest = await list(`metadata[agent]=a&limit=2&after=${page.next}`);
  expect([idsOf(rest), rest.next]).toEqual([[first], null] as [string[], null]);
  const { id: projectId } = on.accounts.createProject({ organizationId: on.organization.id, name: "other" });
  const other = await on.as(on.makeKey(projectId))(`${LIST}?metadata[agent]=a`);
  expect(((await other.json()) as TranscriptionList).data).toEqual([]);
});

const FORMS: [title: string, path: string, fields: Record<string, string>, metadata: Metadata][] = [
  ["JSON", SYNCHRONOUS, { metadata: '{"agent":"12","queue":"sales"}' }, { agent: "12", queue: "sales" }],
  [
    "members",
    SYNCHRONOUS,
    { "metadata[agent]": "12", "metadata[queue]": "बिक्री" },
    { agent: "12", queue: "बिक्री" },
  ],
  ["both", SYNCHRONOUS, { metadata: '{"agent":"12"}', "metadata[queue]": "a" }, { agent: "12", queue: "a" }],
  ["OpenAI's JSON", OPENAI, { metadata: '{"agent":"12"}' }, { agent: "12" }],
  ["OpenAI's members, as its clients send them", OPENAI, { "metadata[agent]": "12" }, { agent: "12" }],
  [
    "the longest that there is",
    OPENAI,
    Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`metadata[k${at}]`, "क".repeat(500)])),
    Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`k${at}`, "क".repeat(500)])),
  ],
];
test.each(FORMS)("a form with %s", async (_, path, fields, metadata) => {
  const body = audioForm(AUDIO, { language: "hi", ...fields });
  const response = await on.as(on.key)(path, { method: "POST", body });
  expect(response.status).toBe(200);
  const newest = (await list("limit=1")).data[0];
  expect(newest?.metadata).toEqual(metadata);
});

const TOO_MANY = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, ""]));
const REFUSED: [title: string, metadata: unknown, detail: string][] = [
  ["too many names", TOO_MANY, "metadata"],
  ["a name with a space", { "a b": "1" }, "metadata.a?b"],
  ["a name of 41 characters", { ["a".repeat(41)]: "1" }, `metadata.${"a".repeat(41)}`],
  ["an empty name", { "": "1" }, "metadata."],
  ["a value that is a number", { agent: 12 }, "metadata.agent"],
  ["an object in it", { agent: { id: 1 } }, "metadata.agent"],
  ["a value of 501 characters", { agent: "x".repeat(501) }, "metadata.agent"],
  ["a control character", { agent: "a\nb" }, "metadata.agent"],
  ["half of a character", { agent: "\ud83d" }, "metadata.agent"],
  ["a list", ["a"], "metadata"],
  ["a text", "agent", "metadata"],
  ["null", null, "metadata"],
];
test.each(REFUSED)("refused: %s", async (_, metadata, detail) => {
  const { id } = await client().upload(AUDIO);
  const before = idsOf(await list("limit=100"));
  const request = { audio: { upload_id: id }, language: "hi", metadata } as never;
  const refusal = await client()
    .start(request)
    .catch((error: ApiError) => error);
  expect(refusal).toMatchObject({ status: 422, code: "invalid_request", detail });
  expect(idsOf(await list("limit=100"))).toEqual(before);
});

const REFUSED_PATHS: [
  title: string,
  isOn: boolean,
  path: string,
  fields: Record<string, string> | undefined,
  code: string,
  detail: string,
][] = [
  ["a form whose JSON is broken", true, SYNCHRONOUS, { metadata: "{" }, "invalid_request", "metadata"],
  [
    "a form whose JSON has a name twice",
    true,
    SYNCHRONOUS,
    { metadata: '{"a":"1","a":"2"}' },
    "invalid_request",
    "metadata.a",
  ],
  [
    "a form with a name twice in two ways",
    true,
    SYNCHRONOUS,
    { metadata: '{"a":"1"}', "metadata[a]": "2" },
    "invalid_request",
    "metadata.a",
  ],
  ["a form with a bad member", true, OPENAI, { "metadata[a b]": "2" }, "invalid_request", "metadata.a?b"],
  [
    "a query with a bad name",
    true,
    `${LIST}?metadata[a%20b]=1`,
    undefined,
    "invalid_request",
    "metadata.a?b",
  ],
  [
    "a query with a name twice",
    true,
    `${LIST}?metadata[a]=1&metadata[a]=2`,
    undefined,
    "invalid_request",
    "metadata[a]",
  ],
  ["a query without a name", true, `${LIST}?metadata=1`, undefined, "invalid_request", "metadata"],
  ["a query with both", true, `${LIST}?metadata=1&metadata[a]=1`, undefined, "invalid_request", "metadata"],
  ["another object", true, `${LIST}?state[a]=1`, undefined, "unknown_parameter", "state[a]"],
  [
    "a member of another request",
    true,
    `/v1/models?metadata[a]=1`,
    undefined,
    "unknown_parameter",
    "metadata[a]",
  ],
  ["a form, switched off", false, SYNCHRONOUS, { metadata: "{}" }, "unknown_parameter", "metadata"],
  ["a member, switched off", false, SYNCHRONOUS, { "metadata[a]": "1" }, "unknown_parameter", "metadata[a]"],
  ["OpenAI's form, switched off", false, OPENAI, { metadata: "{}" }, "unknown_parameter", "metadata"],
  [
    "OpenAI's member, switched off",
    false,
    OPENAI,
    { "metadata[a]": "1" },
    "unknown_parameter",
    "metadata[a]",
  ],
  ["a query, switched off", false, `${LIST}?metadata[a]=1`, undefined, "unknown_parameter", "metadata[a]"],
];
test.each(REFUSED_PATHS)("refused: %s", async (_, isOn, path, fields, code, detail) => {
  const app = isOn ? on : off;
  const init = fields && { method: "POST", body: audioForm(AUDIO, { language: "hi", ...fields }) };
  const response = await app.as(app.key)(path, init);
  expect(response.status).toBe(path === OPENAI ? 400 : 422);
  const { error } = (await response.json()) as { error: { code: string; detail?: string; param?: string } };
  expect([error.code, error.detail ?? error.param]).toEqual([code, detail]);
});

test("switched off, a request with it is refused", async () => {
  const client = apiClient(off.as(off.key));
  const { id } = await client.upload(AUDIO);
  const request = { audio: { upload_id: id }, language: "hi", metadata: { agent: "1" } };
  const refusal = await client.start(request).catch((error: ApiError) => error);
  expect(refusal).toMatchObject({ status: 422, code: "unknown_parameter", detail: "metadata" });
});

test("the same key with other metadata is a conflict; the order of names does not matter", async () => {
  const send = (metadata: string | undefined) =>
    on.as(on.key)(SYNCHRONOUS, {
      method: "POST",
      headers: { "idempotency-key": "noted" },
      body: audioForm(AUDIO, { language: "hi", ...(metadata ? { metadata } : {}) }),
    });
  expect((await send('{"a":"1","b":"2"}')).status).toBe(200);
  expect((await send('{"b":"2","a":"1"}')).status).toBe(200);
  expect((await send('{"a":"1","b":"3"}')).status).toBe(409);
  expect((await send(undefined)).status).toBe(409);
});

test("empty metadata is none", async () => {
  expect(await started({})).not.toHaveProperty("metadata");
});

test("models say whether it is switched on", async () => {
  const listed = async (app: TestApp) => (await app.as(app.key)("/v1/models")).json();
  expect(await listed(on)).toMatchObject({ object: "list", metadata: true });
  expect(await listed(off)).not.toHaveProperty("metadata");
});
