import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Transcription, TranscriptionCreate } from "../../http/wire/schemas.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { audioFilePath } from "../../store/audio-files.ts";
import { fileAnswer, type HostAnswer, startFileHost } from "../../testing/kits/file-host.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** A recording with enough bytes to be cut. */
const recording = scriptedAudio({ seconds: 20, text: "नमस्ते ".repeat(2000) });
const answers: Record<string, HostAnswer> = {};
let files: Awaited<ReturnType<typeof startFileHost>>;
let testApp: TestApp;

beforeAll(async () => {
  files = await startFileHost(answers);
  testApp = await openTestApp({ config: { intake: intake() } });
});
afterAll(async () => {
  await testApp.close();
  await files.stop();
});
beforeEach(() => {
  for (const path of Object.keys(answers)) delete answers[path];
  files.requests.length = 0;
  // Identifiers sort by time: an upload of an earlier test would be the newest one otherwise.
  testApp.clock.advance(1);
});

function intake() {
  return { url: true, hosts: [files.host], allowed_networks: ["127.0.0.0/8"], ca_file: files.caFile };
}

/** A transcription, or an error. */
type Answered = Transcription & { error: { code: string; message: string; detail?: string } };

async function start(sourceUrl: string, more: Partial<TranscriptionCreate> = {}, key = testApp.key) {
  const body = JSON.stringify({ audio: { source_url: sourceUrl }, language: "hi", ...more });
  const headers = { "content-type": "application/json" };
  const response = await testApp.as(key)("/v1/transcriptions", { method: "POST", headers, body });
  return { status: response.status, body: (await response.json()) as Answered };
}

const show = async (id: string) =>
  (await (await testApp.as(testApp.key)(`/v1/transcriptions/${id}`)).json()) as Transcription;

/** Waits until a transcription has ended. Between attempts, time passes at once. */
async function ended(id: string): Promise<Transcription> {
  await until(`${id} ends`, async () => {
    const { finished_at } = await show(id);
    const waitMs = msToNextAttempt(id);
    // Not while an attempt runs: the upload would expire under it.
    if (waitMs > 0) testApp.clock.advance(waitMs);
    return finished_at !== null;
  });
  return show(id);
}

function msToNextAttempt(id: string): number {
  const [fetch] = rows("SELECT next_attempt_at AS at FROM fetches WHERE transcription_id = ?", id) as {
    at: number | null;
  }[];
  return (fetch?.at ?? 0) - testApp.clock.now();
}

const cancel = (id: string) => testApp.as(testApp.key)(`/v1/transcriptions/${id}/cancel`, { method: "POST" });
const credit = () => testApp.app.services.credit.show(testApp.organization.id);
const rows = (sql: string, ...values: string[]) => testApp.app.database.sqlite.query(sql).all(...values);
const noLeaks = () => expect(testApp.app.services.credit.audit().problems).toEqual([]);

/** The head of an answer with the whole recording. */
const whole = { etag: '"v1"', "content-type": "audio/wav", "content-length": String(recording.length) };
/** Sends the first bytes of the recording, and breaks the connection off once they are stored, or sends nothing more. */
const part = (
  bytes: number,
  then: "cut" | "hold",
  onEnd?: () => void,
  headers: Record<string, string> = whole,
): HostAnswer => {
  const sent = { headers, bytes: recording.slice(0, bytes), then };
  return () => ({ ...sent, hasArrived: () => storedBytes() === bytes, ...(onEnd ? { onEnd } : {}) });
};
/** The bytes that are stored of the newest upload. */
function storedBytes(): number | undefined {
  const [newest] = rows("SELECT id FROM uploads ORDER BY id DESC LIMIT 1") as { id: string }[];
  return newest && statSync(audioFilePath(testApp.directory, newest.id), { throwIfNoEntry: false })?.size;
}

describe("a recording at an address", () => {
  test("is fetched, verified, reserved for and transcribed; its query is nowhere", async () => {
    answers["/call.wav"] = fileAnswer(recording);
    const before = credit();
    const { status, body } = await start(
      `${files.url("/call.wav").replace("//", "//me:pass@")}?token=s3cr3t`,
    );
    expect(status).toBe(202);
    expect(body).toMatchObject({
      state: "queued",
      source: { url: files.url("/call.wav"), state: "fetching" },
    });
    expect(body).not.toContainAnyKeys(["duration_seconds", "queue_position"]);
    const done = await ended(body.id);
    expect(done).toMatchObject({ state: "completed", duration_seconds: 20, source: { state: "fetched" } });
    const [request] = files.requests;
    expect(request?.query).toBe("token=s3cr3t");
    expect(request?.headers.get("authorization")).toBe(`Basic ${btoa("me:pass")}`);
    expect(before.balancePaise - credit().balancePaise).toBe(17);
    expect(credit().reservedPaise).toBe(0);
    expect(
      rows("SELECT sealed_address, next_attempt_at FROM fetches WHERE transcription_id = ?", body.id),
    ).toEqual([{ sealed_address: null, next_attempt_at: null }]);
    noLeaks();
  });

  test("is asked for once for a repeated idempotency key, and charged once", async () => {
    answers["/once.wav"] = fileAnswer(recording);
    const request = () =>
      testApp.as(testApp.key)("/v1/transcriptions", {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "once" },
        body: JSON.stringify({ audio: { source_url: files.url("/once.wav?a=1") }, language: "hi" }),
      });
    const first = (await (await request()).json()) as Transcription;
    await ended(first.id);
    const again = await request();
    expect([again.status, ((await again.json()) as Transcription).id]).toEqual([200, first.id]);
    expect(files.requests).toHaveLength(1);
    noLeaks();
  });

  test("continues after a cut where the file is the same", async () => {
    answers["/cut.wav"] = (request) => {
      return (files.requests.length === 1 ? part(20_000, "cut") : fileAnswer(recording))(request);
    };
    const { body } = await start(files.url("/cut.wav"));
    expect(await ended(body.id)).toMatchObject({
      state: "completed",
      source: { total_bytes: recording.length },
    });
    const [, second] = files.requests;
    expect(second?.headers.get("range")).toBe("bytes=20000-");
    expect(second?.headers.get("if-range")).toBe('"v1"');
  });

  test("starts over after a cut where the file is another one", async () => {
    answers["/changed.wav"] = (request) => {
      return (files.requests.length === 1 ? part(20_000, "cut") : fileAnswer(recording, '"v2"'))(request);
    };
    const { body } = await start(files.url("/changed.wav"));
    expect((await ended(body.id)).state).toBe("completed");
    expect(files.requests).toHaveLength(2);
  });

  test.each<[string, Record<string, string>, number]>([
    ["another version", { etag: '"v2"' }, 0],
    ["another size", { etag: '"v1"' }, 1],
  ])(
    "is not continued with a part of %s, which a server sends that ignores If-Range",
    async (_, own, more) => {
      answers["/ignores.wav"] = (request) => {
        if (files.requests.length === 1) return part(20_000, "cut")(request);
        const from = Number(/^bytes=(\d+)-$/.exec(request.headers.get("range") ?? "")?.[1]);
        if (Number.isNaN(from)) return fileAnswer(recording, '"v2"')(request);
        const rest = new Uint8Array(recording.length + more - from);
        const size = recording.length + more;
        const range = { "content-range": `bytes ${from}-${size - 1}/${size}`, "content-type": "audio/wav" };
        return new Response(rest, { status: 206, headers: { ...own, ...range } });
      };
      const { body } = await start(files.url("/ignores.wav"));
      expect((await ended(body.id)).state).toBe("completed");
      expect(files.requests.map(({ headers }) => headers.get("range"))).toEqual([null, "bytes=20000-", null]);
      noLeaks();
    },
  );

  test("may come without a length", async () => {
    answers["/chunked"] = () =>
      new Response(recording, { headers: { "content-type": "application/octet-stream" } });
    const { body } = await start(files.url("/chunked"));
    expect((await ended(body.id)).state).toBe("completed");
    expect(rows("SELECT bytes, space_bytes FROM uploads ORDER BY id DESC LIMIT 1")).toEqual([
      { bytes: recording.length, space_bytes: recording.length },
    ]);
  });

  test("is found behind redirects", async () => {
    answers["/start"] = () => Response.redirect(files.url("/middle?x=1"), 302);
    answers["/middle"] = () => new Response(null, { status: 307, headers: { location: "/end.wav" } });
    answers["/end.wav"] = fileAnswer(recording);
    const { body } = await start(files.url("/start").replace("//", "//me:pass@"));
    expect((await ended(body.id)).state).toBe("completed");
    expect(files.requests.map(({ headers }) => headers.get("authorization") !== null)).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe("a fetch that cannot succeed fails with a sentence", () => {
  const redirectTo =
    (location: string): HostAnswer =>
    () =>
      new Response(null, { status: 302, headers: { location } });
  test.each<[string, HostAnswer, RegExp]>([
    ["no such file", () => new Response("", { status: 404 }), /answered 404: there is no such file/],
    ["refused", () => new Response("", { status: 403 }), /answered 403.*expired/],
    [
      "a page",
      () => new Response("<p>", { headers: { "content-type": "text/html" } }),
      /media type text\/html/,
    ],
    ["an empty file", () => new Response(new Uint8Array()), /empty file/],
    ["another host", redirectTo("https://evil.example/x.wav"), /host evil\.example is not on the list/],
    ["plain HTTP", redirectTo("http://127.0.0.1/x.wav"), /must begin with https/],
    ["a metadata service", redirectTo("https://169.254.169.254/latest"), /link-local/],
    ["a user", redirectTo("https://me:pass@evil.example/x"), /must not carry a user name/],
    ["a file of no use", fileAnswer(new TextEncoder().encode("nothing to hear")), /./],
  ])("%s", async (name, answer, message) => {
    answers["/bad"] = answer;
    const { status, body } = await start(files.url("/bad?key=s3cr3t"));
    expect(status).toBe(202);
    const failed = await ended(body.id);
    expect(failed).toMatchObject({ state: "failed", source: { state: "failed" } });
    const code = name === "a file of no use" ? "audio_decode_failed" : "upload_rejected";
    expect(failed.error?.code).toBe(code);
    expect(failed.error?.message).toMatch(message);
    expect(JSON.stringify(failed)).not.toContain("s3cr3t");
    expect(credit().reservedPaise).toBe(0);
    noLeaks();
  });

  test("redirects without end", async () => {
    answers["/loop"] = redirectTo("/loop");
    const { body } = await start(files.url("/loop"));
    expect((await ended(body.id)).error?.message).toContain("redirects more than 5 times");
    expect(files.requests).toHaveLength(6);
  });

  test("a server that is always busy, after eight attempts", async () => {
    answers["/busy"] = () => new Response("", { status: 503, headers: { "retry-after": "1" } });
    const { body } = await start(files.url("/busy"));
    expect((await ended(body.id)).error?.message).toContain("answered 503");
    expect(files.requests).toHaveLength(8);
  });

  test("a file that is cut off at the same byte each time, after eight attempts that bring nothing new", async () => {
    const { etag: _, ...unnamed } = whole;
    answers["/same-cut"] = part(20_000, "cut", undefined, unnamed);
    const { body } = await start(files.url("/same-cut"));
    expect((await ended(body.id)).error?.message).toContain("has ended the connection");
    expect(files.requests).toHaveLength(8);
  }, 30_000);

  test("a file that is cut off at a later byte each time, and never can be continued, after eight attempts", async () => {
    const { etag: _, ...unnamed } = whole;
    answers["/later-cut"] = (request) =>
      part(1000 * files.requests.length, "cut", undefined, unnamed)(request);
    const { body } = await start(files.url("/later-cut"));
    expect((await ended(body.id)).error?.message).toContain("has ended the connection");
    expect(files.requests).toHaveLength(8);
  }, 30_000);

  test("a file with more bytes than an upload may have", async () => {
    const limits = testApp.config.limits;
    const before = limits.max_upload_bytes;
    Object.assign(limits, { max_upload_bytes: 1000 });
    try {
      answers["/large"] = fileAnswer(recording);
      const { body } = await start(files.url("/large"));
      expect((await ended(body.id)).error?.message).toContain("limits.max_upload_bytes");
    } finally {
      Object.assign(limits, { max_upload_bytes: before });
    }
  });
});

describe("an address is refused", () => {
  test.each([
    ["http://files.example/x.wav", /must begin with https/],
    ["ftp://files.example/x.wav", /must begin with https/],
    ["https://files.example/x.wav", /host files\.example is not on the list/],
    ["https://127.0.0.1/x.wav", /host 127\.0\.0\.1 is not on the list/],
    ["https://10.0.0.1/x.wav", /private address/],
    ["https://[::1]/x.wav", /loopback/],
    ["https://files.example/x.wav#a", /fragment/],
    ["https://me:50%@files.example/x.wav", /begins no code of a character/],
    ["s3://no-such-bucket/x.wav", /no bucket no-such-bucket/],
    ["s3://calls/../x.wav", /cannot carry/],
    ["s3://calls/", /must name an object/],
    ["s3:/calls", /s3:\/\/bucket\/key/],
  ])("%s", async (address, message) => {
    const { status, body } = await start(address);
    expect([status, body.error.code, body.error.detail]).toEqual([
      422,
      "invalid_request",
      "audio.source_url",
    ]);
    expect(body.error.message).toMatch(message);
  });

  test("beside an upload, and without either", async () => {
    const both = { audio: { source_url: files.url("/x"), upload_id: "up_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C" } };
    expect((await start("", both)).body.error.detail).toBe("audio.source_url");
    expect((await start("", { audio: {} })).body.error.detail).toBe("audio.upload_id");
  });
});

test("without credit nothing is fetched, and without enough of it the work fails", async () => {
  const { services } = testApp.app;
  const poor = testApp.accounts.createOrganization({ name: "Poor" });
  const key = testApp.makeKey(testApp.accounts.createProject({ organizationId: poor.id, name: "p" }).id);
  answers["/poor.wav"] = fileAnswer(recording);
  expect((await start(files.url("/poor.wav"), {}, key)).body.error.code).toBe("insufficient_credits");
  expect(files.requests).toHaveLength(0);
  services.credit.grant({ organizationId: poor.id, amountPaise: 1 });
  const { body } = await start(files.url("/poor.wav"), {}, key);
  await until("it ends", () => services.transcriptions.find(body.id)?.finishedAt !== null);
  expect(services.transcriptions.find(body.id)).toMatchObject({
    state: "failed",
    errorCode: "insufficient_credits",
  });
  noLeaks();
});

test("metrics count attempts, bytes and failures by reason, and what runs and waits", async () => {
  const numbers = async (): Promise<Record<string, number>> => {
    const text = await (await testApp.fetch("/metrics")).text();
    const lines = [...text.matchAll(/^(shruti_fetch\w+(?:\{[^}]*\})?) (\d+)$/gm)];
    return Object.fromEntries(lines.map(([, name, value]) => [name, Number(value)]));
  };
  // They are kept for a moment.
  const reach = async (wanted: Record<string, number>) => {
    let now = await numbers();
    const isThere = () => Object.entries(wanted).every(([name, value]) => now[name] === value);
    await until(`${JSON.stringify(wanted)} instead of ${JSON.stringify(now)}`, async () => {
      now = await numbers();
      return isThere();
    });
  };
  await reach({ shruti_fetches_running: 0, shruti_fetches_waiting: 0 });
  const before = await numbers();
  const more = (name: string, count: number) => ({ [name]: (before[name] ?? Number.NaN) + count });
  const failed = (reason: string) => `shruti_fetches_failed_total{reason="${reason}"}`;
  answers["/good.wav"] = fileAnswer(recording);
  answers["/gone.wav"] = () => new Response("", { status: 404 });
  answers["/empty.wav"] = () => new Response(new Uint8Array());
  answers["/away.wav"] = () =>
    new Response(null, { status: 302, headers: { location: "https://evil.example/x.wav" } });
  for (const path of ["/good.wav", "/gone.wav", "/empty.wav", "/away.wav"])
    await ended((await start(files.url(path))).body.id);
  await reach({
    ...more("shruti_fetch_attempts_total", 4),
    ...more("shruti_fetch_bytes_total", recording.length),
    ...Object.assign({}, ...["answer", "file", "address"].map((reason) => more(failed(reason), 1))),
    ...more(failed("connection"), 0),
    ...more(failed("limit"), 0),
  });
  answers["/slow.wav"] = part(20_000, "hold");
  answers["/busy.wav"] = () => new Response("", { status: 503 });
  const ids = [];
  for (const path of ["/slow.wav", "/busy.wav"]) ids.push((await start(files.url(path))).body.id);
  await reach({ shruti_fetches_running: 1, shruti_fetches_waiting: 1 });
  for (const id of ids) await cancel(id);
  // Also the one whose next attempt is not due yet.
  await reach({ shruti_fetches_running: 0, shruti_fetches_waiting: 0 });
});

test("cancelled and deleted while it is fetched: the connection ends, and no byte is left", async () => {
  const gone = Promise.withResolvers<void>();
  answers["/slow.wav"] = part(20_000, "hold", gone.resolve);
  const { body } = await start(files.url("/slow.wav"));
  await until("it is asked for", () => files.requests.length === 1);
  await cancel(body.id);
  await gone.promise;
  const [upload] = rows("SELECT upload_id AS id FROM transcriptions WHERE id = ?", body.id) as {
    id: string;
  }[];
  const state = () => rows("SELECT state, error_message FROM uploads WHERE id = ?", upload?.id ?? "")[0];
  await until("the upload is rejected", () => (state() as { state: string }).state === "rejected");
  expect(state()).toMatchObject({ error_message: "The transcription was cancelled." });
  await until("its bytes are gone", () => !existsSync(audioFilePath(testApp.directory, upload?.id ?? "")));
  await testApp.as(testApp.key)(`/v1/transcriptions/${body.id}`, { method: "DELETE" });
  expect(rows("SELECT * FROM fetches WHERE transcription_id = ?", body.id)).toEqual([]);
  noLeaks();
});

test("one organization's slow fetches do not keep another's waiting", async () => {
  answers["/held.wav"] = part(1, "hold");
  const waiting = await Promise.all(Array.from({ length: 12 }, () => start(files.url("/held.wav"))));
  await until("some are asked for", () => files.requests.length >= 6);
  answers["/mine.wav"] = fileAnswer(recording);
  const { body } = await start(files.url("/mine.wav"), {}, keyOfAnother(testApp, "Other"));
  const find = () => testApp.app.services.transcriptions.find(body.id);
  await until("the other's ends", () => find()?.state === "completed");
  expect(files.requests.length).toBe(7);
  for (const { body } of waiting) await cancel(body.id);
});

/** Starts a fetch with a key of another test app. */
async function accepted(app: TestApp, path: string, key: string): Promise<string> {
  const body = JSON.stringify({ audio: { source_url: files.url(path) }, language: "hi" });
  const init = { method: "POST", headers: { "content-type": "application/json" }, body };
  const response = await app.as(key)("/v1/transcriptions", init);
  if (response.status !== 202) throw new Error(await response.text());
  return ((await response.json()) as Transcription).id;
}

/** Makes a key of a new organization with some credit. */
function keyOfAnother({ accounts, app, makeKey }: TestApp, name: string): string {
  const { id } = accounts.createOrganization({ name });
  app.services.credit.grant({ organizationId: id, amountPaise: 1000 });
  return makeKey(accounts.createProject({ organizationId: id, name: "p" }).id);
}

test("a thousand fetches of one organization wait, and one of another begins before any other of them", async () => {
  const own = await openTestApp({
    config: { intake: intake(), limits: { max_queued: 0, max_open_uploads: 0 } },
  });
  try {
    answers["/held.wav"] = part(1, "hold");
    answers["/mine.wav"] = fileAnswer(recording);
    const other = keyOfAnother(own, "Other");
    // Nothing here is about what survives a power cut, and thousands of commits would wait for the disk.
    own.app.database.sqlite.run("PRAGMA synchronous = OFF");
    const held: string[] = [];
    while (held.length < 1000)
      held.push(
        ...(await Promise.all(Array.from({ length: 50 }, () => accepted(own, "/held.wav", own.key)))),
      );
    const { max_fetches } = own.config.intake;
    await until("its places are taken", () => files.requests.length === max_fetches - max_fetches / 4);
    const mine = await accepted(own, "/mine.wav", other);
    await until("the other's ends", () => own.app.services.transcriptions.find(mine)?.state === "completed");
    expect(files.requests.filter(({ path }) => path === "/held.wav")).toHaveLength(
      max_fetches - max_fetches / 4,
    );
    for (const each of held) await own.as(own.key)(`/v1/transcriptions/${each}/cancel`, { method: "POST" });
    const count = (sql: string) => own.app.database.sqlite.query(sql).all().length;
    await until("none waits", () => count("SELECT 1 FROM fetches WHERE next_attempt_at IS NOT NULL") === 0);
    expect(count("SELECT 1 FROM uploads WHERE state = 'allocated'")).toBe(0);
    expect(files.requests).toHaveLength(max_fetches - max_fetches / 4 + 1);
  } finally {
    await own.close();
  }
}, 120_000);

test("each organization's turn comes, however much the others have", async () => {
  const own = await openTestApp({ config: { intake: { ...intake(), max_fetches: 1 } } });
  try {
    const released = Promise.withResolvers<void>();
    const names = ["one", "two", "three"];
    for (const name of names) {
      answers[`/${name}.wav`] = async (request) => {
        await released.promise;
        return fileAnswer(recording)(request);
      };
    }
    const keys = names.map((name) => keyOfAnother(own, name));
    const ids: string[] = [];
    const request = async (at: number) => {
      ids.push(await accepted(own, `/${names[at]}.wav`, keys[at] ?? ""));
    };
    for (let count = 0; count < 4; count += 1) await request(0);
    await until("one is fetched", () => files.requests.length === 1);
    for (const at of [1, 2, 1, 2]) await request(at);
    released.resolve();
    await until("all end", () =>
      ids.every((id) => own.app.services.transcriptions.find(id)?.state === "completed"),
    );
    const order = files.requests.map(({ path }) => path);
    expect(order.slice(0, 3)).toEqual(["/one.wav", "/two.wav", "/three.wav"]);
    expect(order.slice(3, 6).sort()).toEqual(["/one.wav", "/three.wav", "/two.wav"]);
  } finally {
    await own.close();
  }
});

describe("cancelled while its next attempt is not due yet", () => {
  /** Starts a fetch whose first attempt is cut off. Time stands still, so there is no second one. */
  async function startWaiting(path: string): Promise<{ id: string; uploadId: string }> {
    answers[path] = part(20_000, "cut");
    const { body } = await start(files.url(path));
    await until("it waits", () => msToNextAttempt(body.id) > 0);
    const [row] = rows("SELECT upload_id AS id FROM transcriptions WHERE id = ?", body.id) as {
      id: string;
    }[];
    const uploadId = row?.id ?? "";
    expect(statSync(audioFilePath(testApp.directory, uploadId)).size).toBe(20_000);
    return { id: body.id, uploadId };
  }
  const stateOf = (uploadId: string) => rows("SELECT state FROM uploads WHERE id = ?", uploadId);

  test("it waits no more, and its bytes and its address are gone at once", async () => {
    const { id, uploadId } = await startWaiting("/waits.wav");
    await cancel(id);
    await until("its bytes are gone", () => !existsSync(audioFilePath(testApp.directory, uploadId)));
    expect(stateOf(uploadId)).toEqual([{ state: "rejected" }]);
    const ended = "SELECT sealed_address, next_attempt_at FROM fetches WHERE transcription_id = ?";
    await until("it has ended", () =>
      Bun.deepEquals(rows(ended, id), [{ sealed_address: null, next_attempt_at: null }]),
    );
    expect(files.requests).toHaveLength(1);
    noLeaks();
  });

  test("and deleted in the same moment: nothing is left", async () => {
    const { id, uploadId } = await startWaiting("/waits-too.wav");
    await cancel(id);
    const deleted = await testApp.as(testApp.key)(`/v1/transcriptions/${id}`, { method: "DELETE" });
    expect(deleted.status).toBe(200);
    expect(existsSync(audioFilePath(testApp.directory, uploadId))).toBe(false);
    expect(stateOf(uploadId)).toEqual([{ state: "rejected" }]);
    expect(rows("SELECT 1 FROM fetches WHERE transcription_id = ?", id)).toEqual([]);
    noLeaks();
  });
});

describe("while the disk has no space", () => {
  const setReserve = (bytes: number) => Object.assign(testApp.config.storage, { reserve_bytes: bytes });
  afterEach(() => setReserve(0));
  const message = async (id: string) => (await show(id)).source?.message ?? "";

  test("no server is asked; the source says why, and the fetch continues once there is some", async () => {
    answers["/roomy.wav"] = part(20_000, "cut");
    const { body } = await start(files.url("/roomy.wav"));
    await until("it waits", () => msToNextAttempt(body.id) > 0);
    setReserve(Number.MAX_SAFE_INTEGER);
    testApp.clock.advance(msToNextAttempt(body.id));
    await until("it says why", async () => (await message(body.id)).includes("The disk has no space"));
    expect(files.requests).toHaveLength(1);
    setReserve(0);
    answers["/roomy.wav"] = fileAnswer(recording);
    expect((await ended(body.id)).state).toBe("completed");
    expect(files.requests.at(-1)?.headers.get("range")).toBe("bytes=20000-");
    noLeaks();
  });

  test("a file for which it has none is refused before its first byte", async () => {
    const GB = 1e9;
    const gone = Promise.withResolvers<void>();
    const large = part(20_000, "hold", gone.resolve, { ...whole, "content-length": String(GB) });
    answers["/too-large.wav"] = (request) => {
      setReserve(freeBytesOf(testApp.directory) - GB / 2);
      return large(request);
    };
    const { body } = await start(files.url("/too-large.wav"));
    await gone.promise;
    await until("it says why", async () => (await message(body.id)).includes("The disk has no space"));
    expect(storedBytes()).toBeUndefined();
    setReserve(0);
    answers["/too-large.wav"] = fileAnswer(recording);
    expect((await ended(body.id)).state).toBe("completed");
    noLeaks();
  });
});

test("continues after a stop of the server", async () => {
  answers["/long.wav"] = (request) =>
    (request.headers.has("range") ? fileAnswer(recording) : part(30_000, "hold"))(request);
  const directory = mkdtempSync(join(tmpdir(), "shruti-fetch-"));
  const first = await openTestApp({ config: { intake: intake() }, directory });
  const body = JSON.stringify({ audio: { source_url: files.url("/long.wav") }, language: "hi" });
  const headers = { "content-type": "application/json" };
  const started = await first.as(first.key)("/v1/transcriptions", { method: "POST", headers, body });
  const { id } = (await started.json()) as Transcription;
  await until("bytes arrive", () => files.requests.length === 1);
  await Bun.sleep(300);
  await first.close();
  const second = await openTestApp({
    config: { intake: intake() },
    directory: first.directory,
    engine: first.engine,
  });
  try {
    const find = () => second.app.services.transcriptions.find(id);
    await until("it ends", () => find()?.finishedAt !== null);
    expect(find()).toMatchObject({ state: "completed", durationMs: 20_000 });
    expect(files.requests.at(-1)?.headers.get("range")).toBe("bytes=30000-");
  } finally {
    await second.close();
    rmSync(directory, { recursive: true });
  }
});
