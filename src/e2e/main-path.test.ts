import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelList, TranscriptionResult } from "../http/wire/schemas.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { type ApiClient, audioForm } from "../testing/answers/api-client.ts";
import { parseSrt } from "../testing/answers/subtitle-parsers.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { cpuMsOf, descendantsOf } from "./processes.ts";
import { refusal } from "./refusal.ts";
import { concatenated, pcmOf, sampleBytes, samplePath, secondsOf, utterancesIn, wordsIn } from "./samples.ts";

/** Tests the main path on the executable with the real engine: over HTTP, on the command line, and with bad input. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;

beforeAll(async () => {
  // One place, so that a second synchronous request is refused on every machine.
  installation = await install({ environment: { SHRUTI_ENGINE_SYNCHRONOUS_WORKERS: "1" } });
  server = await (await installation.serve()).ready();
  api = server.api();
}, 300_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
});

type Wanted = {
  language: string;
  mode?: "codemix" | "verbatim";
  channel_mode?: "separate";
  diarization?: boolean;
};

async function transcribed(bytes: Uint8Array<ArrayBuffer>, wanted: Wanted): Promise<TranscriptionResult> {
  const uploadId = await uploaded(api, bytes);
  const { status, body } = await api.start({ audio: { upload_id: uploadId }, ...wanted });
  expect(status).toBe(202);
  expect(await reached(api, body.id)).toMatchObject({ state: "completed", progress: 1 });
  return api.result(body.id);
}

/** Reads a number from `GET /metrics`. */
async function gauge(name: string): Promise<number> {
  const text = await (await fetch(`${server.baseUrl}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{\\})? (\\S+)$`, "m").exec(text)?.[1]);
}

describe("recordings over HTTP", () => {
  test("code-mixed Hindi keeps its English words", async () => {
    const result = await transcribed(sampleBytes("03-mixed"), { language: "hi", mode: "codemix" });
    expectUtterances(result, utterancesIn("03-mixed", "codemix"));
    expect(result).toMatchObject({ mode: "codemix", languages: ["hi"], status: "completed" });
  }, 60_000);

  test("the same recording in native mode is written in Devanagari throughout", async () => {
    const result = await transcribed(sampleBytes("03-mixed"), { language: "hi" });
    expect(result.text).toStartWith(wordsIn("03-mixed").split(" ")[0] ?? "");
    expect(result.text).not.toMatch(/[a-z]/i);
  }, 60_000);

  test("a telephone recording of 8 kHz is recognized, with a warning about its bandwidth", async () => {
    const result = await transcribed(sampleBytes("08-en-phone"), { language: "en" });
    expect(result.warnings).toContain("narrowband_audio");
    const last = utterancesIn("08-en-phone").at(-1);
    expect(result.segments.at(-1)?.text).toBe(last?.text ?? "");
    expect(result.segments.at(-1)?.start).toBeCloseTo(last?.start ?? 0, 0);
  }, 60_000);

  test("the channels of a stereo recording are transcribed separately, and both are billed", async () => {
    const before = await api.usage();
    const result = await transcribed(sampleBytes("10-en-stereo"), {
      language: "en",
      channel_mode: "separate",
    });
    expectUtterances(result, utterancesIn("10-en-stereo"));
    const seconds = secondsOf("10-en-stereo");
    expect(result).toMatchObject({ channels: 2, duration_seconds: seconds });
    const after = await api.usage();
    expect(after.data[0]).toMatchObject({
      transcription_id: result.id,
      audio_seconds: seconds,
      billed_seconds: 2 * seconds,
    });
    // At 3000 paise an hour, rounded up.
    const charged = Math.ceil((2 * seconds * 3000) / 3600);
    expect(before.credit.balance_paise - after.credit.balance_paise).toBe(charged);
    expect(after.credit.reserved_paise).toBe(0);
  }, 60_000);

  test("speakers are labelled in the order in which they are first heard", async () => {
    const result = await transcribed(sampleBytes("05-hi"), { language: "hi", diarization: true });
    const said = utterancesIn("05-hi");
    // A segment in which two people were heard is divided.
    expect(result.segments.length).toBeGreaterThanOrEqual(said.length);
    expect(result.segments[0]?.speaker).toBe("speaker_1");
    const voices = new Set(said.map(({ voice }) => voice)).size;
    for (const { speaker } of result.segments) {
      expect(speaker).toMatch(/^speaker_\d$/);
      expect(Number(speaker?.slice(-1))).toBeWithin(1, voices + 1);
    }
  }, 60_000);

  test("a minute in one multipart request, and the same again by its key", async () => {
    const before = (await api.usage()).credit.balance_paise;
    const again = { "idempotency-key": "one-minute" };
    const fields = { language: "en" };
    const result = await api.transcribe(sampleBytes("12-en-long"), fields, again);
    const said = utterancesIn("12-en-long");
    expect(result.segments.length).toBeGreaterThan((said.length * 2) / 3);
    expect(result.text).toContain(said[0]?.text ?? "missing");
    expect(await api.transcribe(sampleBytes("12-en-long"), fields, again)).toEqual(result);
    // One minute at 3000 paise an hour, once.
    expect(before - (await api.usage()).credit.balance_paise).toBe(50);
  }, 60_000);

  test("silence is a complete transcription without words", async () => {
    const silence = sampleBytes("01-en").fill(0, 44);
    const result = await transcribed(silence, { language: "en" });
    expect(result).toMatchObject({ text: "", segments: [], warnings: expect.arrayContaining(["no_speech"]) });
  }, 60_000);
});

describe("what is refused", () => {
  test("a file that is not audio, bytes with another SHA-256, and an unfinished upload", async () => {
    const noise = crypto.getRandomValues(new Uint8Array(50_000));
    expect(await refusal(api.upload(noise))).toBe("415 audio_decode_failed");

    const sample = sampleBytes("01-en");
    const complete = (id: string) => api.call("POST", `/v1/uploads/${id}/complete`);
    const sentAs = async (sha256: string) => {
      const announced = await api.createUpload(sample.length, sha256);
      const { method, url, headers } = announced.upload;
      expect((await fetch(url, { method, headers, body: sample })).ok).toBe(true);
      return announced.id;
    };
    expect(await refusal(complete(await sentAs("0".repeat(64))))).toBe("422 upload_rejected");
    expect((await complete(await sentAs(sha256Hex(sample)))).status).toBe(200);

    const unsent = await api.createUpload(sample.length);
    expect(await refusal(complete(unsent.id))).toBe("409 upload_incomplete");
    const start = api.start({ audio: { upload_id: unsent.id }, language: "en" });
    expect(await refusal(start)).toBe("409 upload_incomplete audio.upload_id");
  });

  test("modes that the model lacks, missing resources, unknown values", async () => {
    const audio = { upload_id: await uploaded(api, sampleBytes("01-en")) };
    const start = (more: object) => refusal(api.call("POST", "/v1/transcriptions", { audio, ...more }));
    expect(await start({ language: "fr" })).toBe("422 unsupported_language language");
    expect(await start({ language: "auto" })).toBe("422 capability_unavailable language.auto");
    expect(await start({ language: "en", mode: "codemix" })).toBe("422 unsupported_mode mode");
    expect(await start({ language: "en", timestamps: "word" })).toBe(
      "422 capability_unavailable timestamps.word",
    );
    expect(await start({ language: "en", loud: true })).toBe("422 unknown_parameter loud");
    expect(await start({ language: "en", model: "none" })).toBe("422 invalid_request model");
    expect(await refusal(api.get("tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"))).toBe("404 not_found");
    expect(await refusal(server.api("shr_wrong").list())).toBe("401 unauthorized");
  });

  test("a synchronous recording over its limits", async () => {
    const long = concatenated(["12-en-long"], 2);
    expect(await refusal(api.transcribe(long, { language: "en" }))).toBe("413 audio_too_long file");
  });

  test("every answer has an x-request-id, and /v1/models lists languages, modes and limits", async () => {
    const { headers, body } = await api.call<ModelList>("GET", "/v1/models");
    expect(headers.get("x-request-id")).toMatch(/^req_[0-9A-Z]{26}$/);
    expect((await fetch(`${server.baseUrl}/nowhere`)).headers.get("x-request-id")).toMatch(/^req_/);
    const [model] = body.data;
    expect(model).toMatchObject({ id: "demo", default: true });
    expect(model?.languages.map(({ code }) => code).sort()).toEqual(["en", "hi"]);
    expect(model?.limits.synchronous.max_duration_seconds).toBe(60);
  });
});

describe("stopping work", () => {
  test("a long recording is cancelled, the engine is idle within two seconds, and nothing is charged", async () => {
    const before = (await api.usage()).credit;
    expect(before.reserved_paise).toBe(0);
    const uploadId = await uploaded(api, concatenated(["12-en-long"], 18));
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
    expect(await refusal(api.result(body.id))).toBe("409 result_not_ready");
    await until("the engine is at work", async () => (await gauge("shruti_engine_places_busy")) > 0);
    // The first chunks are recognized while the detector still reads the rest.
    expect(["preparing", "transcribing"]).toContain((await api.get(body.id)).state);
    expect(await refusal(api.remove(body.id))).toBe("409 conflict");

    const askedAt = performance.now();
    expect((await api.cancel(body.id)).state).toBe("cancelled");
    await until("the engine is still", async () => (await gauge("shruti_engine_places_busy")) === 0, 2_000);
    expect(performance.now() - askedAt).toBeLessThan(2_000);
    const children = descendantsOf(server.pid);
    const cpuBefore = cpuMsOf(children);
    await Bun.sleep(300);
    expect(cpuMsOf(children) - cpuBefore).toBeLessThanOrEqual(50);

    expect(await refusal(api.result(body.id))).toBe("409 conflict");
    expect((await api.usage()).credit).toEqual(before);
    expect(readdirSync(join(installation.dataDir, "work"))).toEqual([]);
  }, 120_000);

  test("a synchronous request whose client goes away is cancelled", async () => {
    const client = new AbortController();
    const request = fetch(`${server.baseUrl}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${installation.key}` },
      body: audioForm(sampleBytes("12-en-long"), { language: "en" }),
      signal: client.signal,
    });
    request.catch(() => {});
    const newest = async () => (await api.list("?limit=1")).data[0];
    await until("the request is worked on", async () => (await newest())?.state === "transcribing");
    const goneAt = performance.now();
    client.abort();
    await until("it is cancelled", async () => (await newest())?.state === "cancelled", 2_000);
    await until("the engine is still", async () => (await gauge("shruti_engine_places_busy")) === 0, 2_000);
    expect(performance.now() - goneAt).toBeLessThan(2_000);
  }, 60_000);
});

describe("side by side", () => {
  test("a synchronous request is answered while a long recording is transcribed; a second one at the same time is refused", async () => {
    const uploadId = await uploaded(api, concatenated(["12-en-long"], 16));
    const long = (await api.start({ audio: { upload_id: uploadId }, language: "en" })).body.id;
    await until("the long one is at work", async () => ((await api.get(long)).progress ?? 0) > 0);
    const minute = api.transcribe(sampleBytes("12-en-long"), { language: "en" });
    const newest = async () => (await api.list("?limit=1")).data[0];
    await until("the minute is at work", async () => (await newest())?.id !== long);
    const second = await fetch(`${server.baseUrl}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${installation.key}` },
      body: audioForm(sampleBytes("01-en"), { language: "en" }),
    });
    expect(second.status).toBe(503);
    expect(await second.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    expect(second.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);

    expect((await minute).text).toContain(utterancesIn("12-en-long")[0]?.text ?? "missing");
    expect(["transcribing", "finalizing"]).toContain((await api.get(long)).state);
    expect((await api.cancel(long)).state).toBe("cancelled");
  }, 60_000);
});

describe("deletion", () => {
  test("leaves no byte of audio or transcript in the data directory, its database or write-ahead log", async () => {
    // No other test sends this sample.
    const name = "04-en";
    const uploadId = await uploaded(api, sampleBytes(name));
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
    expect((await reached(api, body.id)).state).toBe("completed");
    const { text } = await api.result(body.id);
    const words = utterancesIn(name)[1]?.text ?? "missing";
    expect(text).toContain(words);
    const pcm = Buffer.from(pcmOf(name));
    const sought = {
      "the words": Buffer.from(words),
      "the middle of the sound": pcm.subarray(pcm.length / 2, pcm.length / 2 + 64),
      "the end of the sound": pcm.subarray(pcm.length - 70_000, pcm.length - 70_000 + 64),
    };
    const found = () => filesWith(installation.dataDir, sought);
    expect(Object.keys(found()).sort()).toEqual(Object.keys(sought).sort());

    const deleted = await api.remove(body.id);
    expect(deleted).toMatchObject({ state: "completed", content_deleted_at: expect.any(String) });
    expect(found()).toEqual({});
    expect(await refusal(api.result(body.id))).toBe("410 content_deleted");
    const { body: upload } = await api.call<{ deleted?: boolean }>("GET", `/v1/uploads/${uploadId}`);
    expect(upload.deleted).toBe(true);
    const usage = await api.usage();
    expect(usage.data.some((event) => event.transcription_id === body.id)).toBe(true);
  }, 60_000);
});

/** Finds the files that contain byte sequences. Sequences without a file are left out. */
function filesWith(folder: string, sought: Record<string, Buffer>): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const content: Buffer = readFileSync(join(entry.parentPath, entry.name));
    for (const [what, bytes] of Object.entries(sought)) {
      if (content.includes(bytes)) found[what] = [...(found[what] ?? []), entry.name];
    }
  }
  return found;
}

describe("the command line", () => {
  test("transcribes files into subtitles, one file each", async () => {
    const output = join(installation.folder, "subtitles");
    mkdirSync(output);
    const files = [samplePath("01-en"), samplePath("04-en")];
    const formats = ["--language", "en", "--format", "srt", "--output", output];
    await installation.output("transcribe", ...files, ...formats);
    const cuesOf = (name: string) =>
      parseSrt(readFileSync(join(output, `${name}.srt`), "utf8")).map(({ lines, ...times }) => ({
        ...times,
        text: lines.join(" "),
      }));
    const [said] = utterancesIn("01-en");
    const [cue, ...more] = cuesOf("01-en");
    expect(more).toEqual([]);
    expect(cue?.text).toBe(said?.text ?? "");
    expect(cue?.startMs).toBeLessThan(1_000);
    expect(Math.abs((cue?.endMs ?? 0) / 1_000 - (said?.end ?? 0))).toBeLessThan(1);
    expect(cuesOf("04-en").map(({ text }) => text)).toContain(utterancesIn("04-en")[1]?.text ?? "missing");
  }, 60_000);

  test("continues after a file that cannot be read, and reports it at the end", async () => {
    const broken = join(installation.folder, "broken.wav");
    writeFileSync(broken, "no sound at all");
    const files = [broken, join(installation.folder, "absent.wav"), samplePath("01-en")];
    const { code, out, err } = await installation.command("transcribe", ...files, "--language", "en");
    expect(code).toBe(1);
    expect(out).toBe(`==> ${samplePath("01-en")} <==\n${wordsIn("01-en")}\n`);
    expect(err).toContain("absent.wav");
    expect(err).toContain("2 of 3 files");
  }, 60_000);

  test("shows what the server did: transcriptions, credit, usage, audit", async () => {
    const { organizationId } = installation;
    const [latest] = await installation.json<{ id: string; state: string }[]>("transcriptions", "list");
    expect(latest?.state).toBe("completed");
    const credit = await installation.json<{ reserved_paise: number }>(
      "credit",
      "show",
      "--org",
      organizationId,
    );
    expect(credit.reserved_paise).toBe(0);
    const csv = await installation.output("usage", "export", "--org", organizationId);
    expect(csv.trim().split("\n").length).toBeGreaterThan(5);
    expect(await installation.json("credit", "audit")).toMatchObject({ ok: true, open_reservations: 0 });
    const [first] = await installation.json<unknown[]>("models", "list");
    expect(first).toMatchObject({ id: "demo", default: true });
  });

  test.each([
    [["orgs", "show", "org_none"], 4],
    [["init", "--data", "elsewhere"], 5],
    [["credit", "grant", "--org", "org_none", "--paise", "much"], 2],
    [["no-such-command"], 2],
    [["transcribe", "x.wav", "--format", "pdf"], 2],
  ])("%j ends with status %d and one line of words", async (args, expected) => {
    const { code, out, err } = await installation.command(...args);
    expect({ code, out }).toEqual({ code: expected, out: "" });
    expect(err).toMatch(/^error: [^\n]+\n(\(.*\)\n)?$/);
  });

  test("config reports which settings are set, which exist, and what is wrong", async () => {
    expect(await installation.output("config", "show")).toContain("[engine]");
    expect(await installation.output("config", "defaults")).toContain("price_paise_per_audio_hour = 3000");
    expect((await installation.command("config", "check")).code).toBe(0);
    const good = readFileSync(installation.configPath, "utf8");
    writeFileSync(installation.configPath, `${good}\n[engine2]\n`);
    const { code, err } = await installation.command("config", "check");
    writeFileSync(installation.configPath, good);
    expect(code).toBe(2);
    expect(err).toMatch(/shruti\.toml:\d+: .*engine2/);
  });
});

test("the log has requests, and never keys or words", () => {
  const log = server.log();
  expect(log).toContain('"path":"/v1/transcriptions"');
  const said = ["01-en", "04-en", "05-hi", "08-en-phone", "12-en-long"].flatMap((name) => utterancesIn(name));
  const threeWords = said.flatMap(({ text }) => text.match(/\S+ \S+ \S+/g) ?? []);
  expect(threeWords.length).toBeGreaterThan(said.length / 2);
  for (const secret of [installation.key, ...threeWords]) expect(log).not.toContain(secret);
  expect(log).not.toMatch(/\p{Script=Devanagari}/u);
});
