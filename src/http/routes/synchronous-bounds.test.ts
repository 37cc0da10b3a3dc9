import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { placesOfOne } from "../../admission/decoder-places.ts";
import { takeOver } from "../../config/reload.ts";
import type { Config } from "../../config/schema.ts";
import { apiClient, audioForm } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { forever, until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { testConfig } from "../../testing/kits/test-config.ts";

/** Limits of what synchronous requests may use: time, places, decoders, disk space. */

let testApp: TestApp | undefined;
afterEach(async () => {
  await testApp?.close();
  testApp = undefined;
});

async function open(options: TestAppOptions = {}): Promise<TestApp> {
  testApp = await openTestApp(options);
  return testApp;
}

const AUDIO = scriptedAudio({ seconds: 2, text: "नमस्ते" });
/** Number of the 16 places that one organization gets. */
const PLACES_OF_ONE = 12;

type Answer = { status: number; code: string | undefined; id: string | undefined; retryAfter: string | null };

async function answerOf(response: Response): Promise<Answer> {
  const body = (await response.json()) as { id?: string; error?: { code: string } };
  const retryAfter = response.headers.get("retry-after");
  return { status: response.status, code: body.error?.code, id: body.id, retryAfter };
}

async function ask(app: TestApp, headers: Record<string, string> = {}, key = app.key): Promise<Answer> {
  const body = audioForm(AUDIO, { language: "hi" });
  return answerOf(await app.as(key)("/v1/audio/transcriptions", { method: "POST", headers, body }));
}

/** Makes the same form. The test decides when its bytes arrive. */
function askInParts(app: TestApp, headers: Record<string, string> = {}) {
  const parts = [
    '--b\r\nContent-Disposition: form-data; name="language"\r\n\r\nhi\r\n',
    `--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${new TextDecoder().decode(AUDIO)}`,
    "\r\n--b--\r\n",
  ];
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given;
    },
  });
  const send = (text: string) => controller?.enqueue(new TextEncoder().encode(text));
  const answer = app
    .as(app.key)("/v1/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b", ...headers },
      body,
    })
    .then(answerOf);
  return {
    answer,
    sendNext() {
      send(parts.shift() ?? "");
      if (parts.length === 0) controller?.close();
    },
    sendRest() {
      while (parts.length > 0) this.sendNext();
    },
  };
}

const filesOf = ({ directory }: TestApp, folder: string): string[] =>
  existsSync(join(directory, folder)) ? readdirSync(join(directory, folder)) : [];

function countRows({ app }: TestApp, table: "transcriptions" | "uploads"): number {
  return app.database.sqlite.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? -1;
}

function expectNothingStored(app: TestApp): void {
  expect([filesOf(app, "incoming"), filesOf(app, "uploads")]).toEqual([[], []]);
  expect([countRows(app, "transcriptions"), countRows(app, "uploads")]).toEqual([0, 0]);
}

test("limits that a reload of the config changes hold for the next request", async () => {
  const app = await open();
  const change = (limits: Partial<Config["limits"]>) =>
    takeOver(
      app.app.config,
      testConfig({ limits }),
      Object.keys(limits).map((name) => `limits.${name}`),
    );
  expect((await ask(app)).status).toBe(200);
  change({ synchronous_max_duration_seconds: 1 });
  expect(await ask(app)).toMatchObject({ status: 413, code: "audio_too_long" });
  change({ synchronous_max_duration_seconds: 60, synchronous_max_bytes: AUDIO.byteLength - 1 });
  expect(await ask(app)).toMatchObject({ status: 413, code: "audio_too_large" });
  change({ synchronous_max_bytes: AUDIO.byteLength });
  expect((await ask(app)).status).toBe(200);
});

describe("the deadline", () => {
  const options = { config: { limits: { synchronous_timeout_seconds: 1 } } };

  test("covers verification: the decoder is stopped, and nothing is stored", async () => {
    const app = await open(options);
    let stopped = 0;
    app.engine.interfere({ verify: (_path, signal) => forever(signal).finally(() => stopped++) });
    expect(await ask(app)).toMatchObject({ status: 504, code: "timeout" });
    expect(stopped).toBe(1);
    expectNothingStored(app);
  });

  test("covers the wait for a decoder", async () => {
    const app = await open(options);
    let running = 0;
    let most = 0;
    app.engine.interfere({
      verify(_path, signal) {
        most = Math.max(most, ++running);
        return forever(signal).finally(() => running--);
      },
    });
    const begunMs = performance.now();
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(app)));
    expect(performance.now() - begunMs).toBeLessThan(3_000);
    expect(answers.map(({ code }) => code)).toEqual(answers.map(() => "timeout"));
    expect(most).toBe(Math.min(8, placesOfOne()));
    expectNothingStored(app);
  });

  test("begins with the request, not with its acceptance", async () => {
    const app = await open(options);
    app.engine.hold();
    const begunMs = performance.now();
    const slow = askInParts(app);
    slow.sendNext();
    await Bun.sleep(700);
    slow.sendRest();
    expect(await slow.answer).toMatchObject({ code: "timeout" });
    expect(performance.now() - begunMs).toBeLessThan(1_500);
    const { data } = await apiClient(app.as(app.key)).usage();
    expect(data).toMatchObject([{ state: "cancelled", amount_paise: 0 }]);
  });

  test("of a request that joined another ends only its own wait, and not the work", async () => {
    const app = await open({ config: { limits: { synchronous_timeout_seconds: 2 } } });
    const release = app.engine.hold();
    const headers = { "idempotency-key": "k" };
    const early = askInParts(app, headers);
    early.sendNext();
    await Bun.sleep(1_000);
    const owner = ask(app, headers);
    await until("it is worked on", () => app.engine.chunks() === 1);
    early.sendRest();
    expect(await early.answer).toMatchObject({ status: 504, code: "timeout" });
    release();
    const done = await owner;
    expect(done.status).toBe(200);
    expect(await ask(app, headers)).toEqual(done);
    expect(countRows(app, "transcriptions")).toBe(1);
  });
});

describe("places", () => {
  test("are held by requests that wait with one key, so that their files do not accumulate", async () => {
    const app = await open();
    const release = app.engine.hold();
    const headers = { "idempotency-key": "k" };
    const owner = ask(app, headers);
    await until("it is worked on", () => app.engine.chunks() === 1);
    const answered: Answer[] = [];
    const joined = Array.from({ length: 30 }, () =>
      ask(app, headers).then((answer) => void answered.push(answer)),
    );
    await until("the others were refused", () => answered.length === 30 - PLACES_OF_ONE);
    expect(new Set(answered.map(({ status }) => status))).toEqual(new Set([503]));
    expect(answered.every(({ retryAfter }) => Number(retryAfter) > 0)).toBe(true);
    // The file of the first request belongs to a transcription.
    expect(filesOf(app, "incoming").length).toBe(PLACES_OF_ONE);
    release();
    await Promise.all(joined);
    const { id } = await owner;
    expect(answered.filter((answer) => answer.id === id).length).toBe(PLACES_OF_ONE);
    expect(filesOf(app, "incoming")).toEqual([]);
    expect(countRows(app, "transcriptions")).toBe(1);
  });

  test("are held until a file is verified, and another organization still gets one", async () => {
    const app = await open();
    const verifying = Promise.withResolvers<void>();
    app.engine.interfere({ verify: () => verifying.promise });
    const refused: Answer[] = [];
    const asked = Array.from({ length: 20 }, () =>
      ask(app).then((answer) => {
        if (answer.status === 503) refused.push(answer);
      }),
    );
    await until("the others were refused", () => refused.length === 20 - PLACES_OF_ONE);
    const other = otherOrganization(app, 1_000);
    const othersAnswer = ask(app, {}, other);
    await until("its file has come", () => filesOf(app, "incoming").length === PLACES_OF_ONE + 1);
    verifying.resolve();
    expect((await othersAnswer).code).not.toBe("timeout");
    await Promise.all(asked);
  });

  test("for recognition are never held by an organization that cannot pay", async () => {
    const app = await open();
    const poor = otherOrganization(app, 0);
    let isOver = false;
    const poorAnswers = new Set<number>();
    const loops = Array.from({ length: 8 }, async () => {
      while (!isOver) poorAnswers.add((await ask(app, {}, poor)).status);
    });
    const answers: number[] = [];
    for (let count = 0; count < 10; count++) answers.push((await ask(app)).status);
    isOver = true;
    await Promise.all(loops);
    expect(answers).toEqual(answers.map(() => 200));
    // 503 while the other organization's request has the place.
    expect([...poorAnswers].sort()).toEqual(poorAnswers.has(503) ? [402, 503] : [402]);
  });
});

/** Makes a key of another organization. */
function otherOrganization({ app, accounts, makeKey }: TestApp, creditPaise: number): string {
  const { id } = accounts.createOrganization({ name: "Other" });
  if (creditPaise > 0) app.services.credit.grant({ organizationId: id, amountPaise: creditPaise });
  return makeKey(accounts.createProject({ organizationId: id, name: "main" }).id);
}

describe("a body", () => {
  test("that arrives too slowly is refused, and gives its place back", async () => {
    const app = await open({
      config: { limits: { slow_receive_seconds: 1, synchronous_max_receiving: 1 } },
    });
    const slow = askInParts(app);
    slow.sendNext();
    await Bun.sleep(50);
    expect(await ask(app)).toMatchObject({ status: 503, code: "capacity_unavailable" });
    expect(await slow.answer).toMatchObject({ status: 504, code: "timeout" });
    expect((await ask(app)).status).toBe(200);
    expect(filesOf(app, "incoming")).toEqual([]);
  });

  test("is not received when the disk has no space besides the reserve", async () => {
    const app = await open({ config: { storage: { reserve_bytes: Number.MAX_SAFE_INTEGER } } });
    const begunMs = performance.now();
    const endless = askInParts(app);
    expect(await endless.answer).toMatchObject({
      status: 503,
      code: "capacity_unavailable",
      retryAfter: "60",
    });
    // This is long before the deadline: the server only waits for the rest while the refused client still sends it.
    expect(performance.now() - begunMs).toBeLessThan(5_000);
    expectNothingStored(app);
  });
});
