import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { insertOutline } from "../../store/outlines.ts";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type { AudioLink, Waveform } from "../wire/schemas.ts";

let testApp: TestApp;
let client: ReturnType<typeof apiClient>;
let id: string;
const SECONDS = 40;
const TOTAL = 44 + SECONDS * 32_000;

/** Position of each sample of a scripted recording: the sample itself (scripted-engine.ts). */
function expectSound(bytes: ArrayBuffer, firstSample: number): void {
  const samples = new Int16Array(bytes);
  expect(samples.every((value, index) => value === (firstSample + index) % 30_000)).toBe(true);
}

async function transcribed(seconds: number, fields: Record<string, string> = {}, channels = 1) {
  const audio = scriptedAudio({ seconds, channels, text: "नमस्ते" });
  return (await client.transcribe(audio, { language: "hi", ...fields })).id;
}

beforeAll(async () => {
  testApp = await openTestApp({ listens: true });
  client = apiClient(testApp.as(testApp.key));
  id = await transcribed(SECONDS);
});
afterAll(() => testApp.close());

const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
  testApp.as(testApp.key)(path, { headers, method });
const audioPath = (of = id) => `/v1/transcriptions/${of}/audio`;

describe("GET /v1/transcriptions/{id}/audio", () => {
  test("is the whole recording as WAV", async () => {
    const response = await get(audioPath());
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("audio/wav");
    expect(response.headers.get("accept-ranges")).toBe("bytes");
    const bytes = await response.arrayBuffer();
    expect(bytes.byteLength).toBe(TOTAL);
    const view = new DataView(bytes);
    const text = (at: number) => String.fromCharCode(...new Uint8Array(bytes, at, 4));
    expect([text(0), text(8), text(12), text(36)]).toEqual(["RIFF", "WAVE", "fmt ", "data"]);
    expect([view.getUint32(4, true), view.getUint32(40, true)]).toEqual([TOTAL - 8, TOTAL - 44]);
    expect([view.getUint16(22, true), view.getUint32(24, true)]).toEqual([1, 16_000]);
    expectSound(bytes.slice(44), 0);
  });

  test("HEAD says its length before anything is decoded", async () => {
    let decoded = 0;
    testApp.engine.interfere({ play: async () => void decoded++ });
    const response = await get(audioPath(), { range: "bytes=0-9" }, "HEAD");
    testApp.engine.interfere({});
    expect([response.status, response.headers.get("content-length")]).toEqual([200, String(TOTAL)]);
    expect(response.headers.get("etag")).toMatch(/^"tr_.*"$/);
    expect(decoded).toBe(0);
  });

  test.each([
    ["bytes=0-", 0, 1_048_575],
    ["bytes=0-43", 0, 43],
    ["bytes=40-47", 40, 47],
    ["bytes=45-45", 45, 45],
    ["bytes=1000001-1000010", 1_000_001, 1_000_010],
    [`bytes=${TOTAL - 3}-`, TOTAL - 3, TOTAL - 1],
    ["bytes=-5", TOTAL - 5, TOTAL - 1],
    ["bytes=-99999999", 0, 1_048_575],
    ["bytes=100-99999999", 100, 1_048_675],
  ])("Range: %s", async (range, from, to) => {
    const whole = new Uint8Array(await (await get(audioPath())).arrayBuffer());
    const response = await get(audioPath(), { range });
    expect(response.status).toBe(206);
    expect(response.headers.get("content-range")).toBe(`bytes ${from}-${to}/${TOTAL}`);
    expect(response.headers.get("content-length")).toBe(String(to - from + 1));
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(Buffer.from(bytes).equals(whole.subarray(from, to + 1))).toBe(true);
  });

  test("a range behind the end is 416 with the length", async () => {
    const response = await get(audioPath(), { range: `bytes=${TOTAL}-` });
    expect(response.status).toBe(416);
    expect(response.headers.get("content-range")).toBe(`bytes */${TOTAL}`);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request", detail: "range" } });
  });

  test.each(["bytes=0-1,4-5", "samples=0-1", "bytes=5-1"])("Range: %s is ignored", async (range) => {
    const response = await get(audioPath(), { range });
    expect(response.status).toBe(200);
    expect((await response.arrayBuffer()).byteLength).toBe(TOTAL);
  });

  test("tags decide about ranges and about sending nothing", async () => {
    const tag = (await get(audioPath(), {}, "HEAD")).headers.get("etag") ?? "";
    const statusOf = async (headers: Record<string, string>) => {
      const response = await get(audioPath(), headers);
      await response.arrayBuffer();
      return response.status;
    };
    expect(await statusOf({ range: "bytes=0-9", "if-range": tag })).toBe(206);
    expect(await statusOf({ range: "bytes=0-9", "if-range": '"other"' })).toBe(200);
    expect(await statusOf({ range: "bytes=0-9", "if-range": "Sun, 22 Nov 2026 09:36:26 GMT" })).toBe(200);
    expect(await statusOf({ "if-none-match": tag })).toBe(304);
    expect(await statusOf({ "if-none-match": '"other"' })).toBe(200);
  });

  test("channel mode separate gives both channels", async () => {
    const both = await transcribed(2, { channel_mode: "separate" }, 2);
    const bytes = await (await get(audioPath(both))).arrayBuffer();
    expect(bytes.byteLength).toBe(44 + 2 * 64_000);
    expect(new DataView(bytes).getUint16(22, true)).toBe(2);
    expect([...new Int16Array(bytes.slice(44, 60))]).toEqual([0, 0, 1, -1, 2, -2, 3, -3]);
  });

  test("belongs to its project, and to keys that may read", async () => {
    const other = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "other" });
    const foreign = testApp.makeKey(other.id);
    await expectRefusal(await testApp.as(foreign)(audioPath()), { code: "forbidden" });
    const writer = testApp.makeKey(testApp.project.id, ["uploads:write"]);
    await expectRefusal(await testApp.as(writer)(audioPath()), {
      code: "forbidden",
      detail: "transcriptions:read",
    });
    await expectRefusal(await get(`/v1/transcriptions/tr_${"0".repeat(26)}/audio`), { code: "not_found" });
    await expectRefusal(await testApp.fetch(audioPath()), { code: "unauthorized" });
    await expectRefusal(await get(`${audioPath()}?from=1`), { code: "unknown_parameter", detail: "from" });
  });

  test("a client that goes away ends its decoder", async () => {
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    testApp.engine.interfere({
      play: (_job, signal) => {
        begun.resolve();
        return new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            ended.resolve();
            reject(signal.reason);
          });
        });
      },
    });
    const leave = new AbortController();
    const headers = { authorization: `Bearer ${testApp.key}`, range: "bytes=0-" };
    const asked = fetch(testApp.baseUrl() + audioPath(), { headers, signal: leave.signal });
    await begun.promise;
    leave.abort();
    await expect(asked).rejects.toThrow();
    await ended.promise;
    testApp.engine.interfere({});
  });
});

describe("audio links", () => {
  const makeLink = async (of = id): Promise<AudioLink> => {
    const response = await get(`${audioPath(of)}_links`, {}, "POST");
    expect(response.status).toBe(201);
    return (await response.json()) as AudioLink;
  };

  test("open the audio without the key, and nothing else", async () => {
    const { url, expires_at } = await makeLink();
    expect(Date.parse(expires_at)).toBe(testApp.clock.now() + 4 * 3_600_000);
    const { pathname, search } = new URL(url);
    const played = await testApp.fetch(pathname + search, { headers: { range: "bytes=0-99" } });
    expect(played.status).toBe(206);
    await expectRefusal(await testApp.fetch(`/v1/transcriptions/${id}/result${search}`), {
      code: "unauthorized",
    });
    await expectRefusal(await testApp.fetch(`/v1/transcriptions/${id}/waveform${search}`), {
      code: "unauthorized",
    });
    const another = await transcribed(1);
    await expectRefusal(await testApp.fetch(audioPath(another) + search), { code: "unauthorized" });
    for (const wrong of [`${search}x`, search.replace(/_[0-9a-z]+_/, "_zzzzzzzzz_"), "?link=alt_"]) {
      await expectRefusal(await testApp.fetch(pathname + wrong), { code: "unauthorized" });
    }
  });

  test("end with their time and with their key", async () => {
    const key = testApp.app.services.apiKeys.createKey({ projectId: testApp.project.id, name: "player" });
    const response = await testApp.as(key.key)(`${audioPath()}_links`, { method: "POST" });
    const ownLink = new URL(((await response.json()) as AudioLink).url).search;
    const link = new URL((await makeLink()).url).search;
    const ask = (search: string) => testApp.fetch(audioPath() + search, { headers: { range: "bytes=0-1" } });
    expect((await ask(ownLink)).status).toBe(206);
    testApp.app.services.apiKeys.revokeKey(key.id);
    await expectRefusal(await ask(ownLink), { code: "unauthorized" });
    expect((await ask(link)).status).toBe(206);
    testApp.clock.advance(4 * 3_600_000);
    await expectRefusal(await ask(link), { code: "unauthorized" });
  });
});

describe("GET /v1/transcriptions/{id}/waveform", () => {
  const waveform = async (of = id) =>
    (await (await get(`/v1/transcriptions/${of}/waveform`)).json()) as Waveform;

  test("has the peaks of the preparation, and where speech was found", async () => {
    const found = await waveform();
    expect(found).toMatchObject({ id, duration_seconds: SECONDS, seconds_per_peak: 0.02 });
    expect(found.lanes).toHaveLength(1);
    expect(found.lanes[0]).not.toHaveProperty("channel");
    expect([...Buffer.from(found.lanes[0]?.peaks ?? "", "base64")]).toEqual(Array(SECONDS * 50).fill(100));
    expect(found.lanes[0]?.speech).toEqual([[0, SECONDS]]);
  });

  test("has a lane for each channel", async () => {
    const both = await waveform(await transcribed(2, { channel_mode: "separate" }, 2));
    expect(
      both.lanes.map(({ channel, peaks, speech }) => [channel, Buffer.from(peaks, "base64")[0], speech]),
    ).toEqual([0, 1].map((channel) => [channel, 100 + channel, [[0, 2]]]));
  });

  test("is made once for all who ask, where an older version prepared the recording", async () => {
    const old = await transcribed(3);
    testApp.app.database.sqlite.run("DELETE FROM outlines WHERE transcription_id = ?", [old]);
    let made = 0;
    const open = Promise.withResolvers<void>();
    testApp.engine.interfere({
      outline: () => {
        made++;
        return open.promise;
      },
    });
    const asked = Promise.all([waveform(old), waveform(old), waveform(old)]);
    await Bun.sleep(50);
    open.resolve();
    const found = await asked;
    expect(made).toBe(1);
    expect(found[0]?.lanes[0]).toMatchObject({ speech: null });
    expect(await waveform(old)).toEqual(found[1] as Waveform);
    expect(made).toBe(1);
    testApp.engine.interfere({});
  });

  test("an outline that is made while the content is deleted is not kept", async () => {
    const old = await transcribed(3);
    testApp.app.database.sqlite.run("DELETE FROM outlines WHERE transcription_id = ?", [old]);
    testApp.engine.interfere({ outline: async () => void (await client.remove(old)) });
    await expectRefusal(await get(`/v1/transcriptions/${old}/waveform`), { code: "content_deleted" });
    testApp.engine.interfere({});
    const rows = testApp.app.database.sqlite
      .query("SELECT 1 FROM outlines WHERE transcription_id = ?")
      .all(old);
    expect(rows).toEqual([]);
  });
});

describe("after a deletion", () => {
  test("audio, links and waveform are gone, and no peak is left", async () => {
    const gone = await transcribed(2);
    await client.remove(gone);
    for (const path of ["audio", "waveform"]) {
      await expectRefusal(await get(`/v1/transcriptions/${gone}/${path}`), { code: "content_deleted" });
    }
    await expectRefusal(await get(`${audioPath(gone)}_links`, {}, "POST"), { code: "content_deleted" });
    const rows = testApp.app.database.sqlite
      .query("SELECT 1 FROM outlines WHERE transcription_id = ?")
      .all(gone);
    expect(rows).toEqual([]);
  });

  test("of the recording alone, the waveform stays with the transcript", async () => {
    const kept = await transcribed(2);
    const row = testApp.app.services.transcriptions.find(kept);
    rmSync(join(testApp.directory, "audio", row?.uploadId ?? ""), { force: true });
    testApp.app.database.sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = ?", [row?.uploadId ?? ""]);
    await expectRefusal(await get(audioPath(kept)), { code: "content_deleted" });
    expect((await get(`/v1/transcriptions/${kept}/waveform`)).status).toBe(200);
  });
});

test("a long recording is played from its points, which are made when they are missing", async () => {
  const long = await transcribed(59);
  const { sqlite, store } = testApp.app.database;
  sqlite.run("DELETE FROM outlines WHERE transcription_id = ?", [long]);
  sqlite.run("UPDATE transcriptions SET duration_ms = 600000 WHERE id = ?", [long]);
  const seen: [boolean, number][] = [];
  let made = 0;
  testApp.engine.interfere({
    outline: async () => void made++,
    play: async ({ points, fromSample }) => void seen.push([points !== undefined, fromSample]),
  });
  await get(audioPath(long), { range: "bytes=44-99" });
  expect([made, seen.at(-1)]).toEqual([0, [false, 0]]);
  await get(audioPath(long), { range: "bytes=9600044-9600099" });
  expect([made, seen.at(-1)]).toEqual([1, [true, 4_800_000]]);
  testApp.engine.interfere({});
  // A second outline changes nothing but the speech.
  insertOutline(
    store,
    long,
    { peakSamples: 320, lanes: [new Uint8Array(9)], points: new Uint8Array() },
    "[[[1,2]]]",
    1,
  );
  const { lanes } = (await (await get(`/v1/transcriptions/${long}/waveform`)).json()) as Waveform;
  expect(lanes[0]?.speech).toEqual([[0.001, 0.002]]);
  expect(Buffer.from(lanes[0]?.peaks ?? "", "base64").length).toBeGreaterThan(9);
});
