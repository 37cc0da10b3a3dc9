import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { samplePath, utterancesIn, wordsIn } from "./samples.ts";
import { asChannels, tone, wavOf } from "./sounds.ts";

/**
 * Recordings as phones, browsers and cut programs leave them, on the compiled executable: with pauses that were not
 * transmitted, with a clock that begins late, and of some milliseconds.
 */

const ffmpeg = Bun.which("ffmpeg") ?? "ffmpeg";
/** The sample 04-en as a phone writes it: `sox models/samples/04-en.wav -r 8000 -C 4 04-en-pauses.amr-nb`. */
const PHONE = join(import.meta.dir, "recordings/04-en-pauses.amr");
let installation: Installation;
let server: RunningServer;
let api: ApiClient;
let openai: OpenAI;

beforeAll(async () => {
  installation = await install({
    environment: {
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
      SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
      SHRUTI_OPENAI_ENABLED: "true",
      SHRUTI_OPENAI_DEFAULT_LANGUAGE: "en",
      SHRUTI_OPENAI_MODEL_ALIASES: "whisper-1",
    },
  });
  server = await (await installation.serve()).ready();
  api = server.api();
  openai = new OpenAI({ apiKey: installation.key, baseURL: `${server.baseUrl}/openai/v1`, maxRetries: 0 });
}, 120_000);
afterAll(() => installation.remove());

function made(name: string, ...command: string[]): Uint8Array<ArrayBuffer> {
  const path = join(installation.folder, name);
  const done = Bun.spawnSync([ffmpeg, "-v", "fatal", "-y", ...command, path]);
  if (done.exitCode !== 0) throw new Error(`ffmpeg cannot make ${name}`);
  return new Uint8Array(readFileSync(path));
}

describe("AMR with pauses that a phone does not transmit", () => {
  const files: [name: string, bytes: () => Uint8Array<ArrayBuffer>][] = [
    ["call.amr", () => new Uint8Array(readFileSync(PHONE))],
    ["call.3gp", () => made("call.3gp", "-i", PHONE, "-c", "copy")],
    ["call.mkv", () => made("call.mkv", "-i", PHONE, "-c", "copy")],
    ["call.caf", () => made("call.caf", "-i", PHONE, "-c", "copy")],
  ];
  test.each(files)("%s has its length, its words and their times", async (_name, bytes) => {
    const result = await api.transcribe(bytes(), { language: "en" });
    expect(result.text).toBe(wordsIn("04-en"));
    expect(result.duration_seconds).toBeCloseTo(10, 1);
    const starts = utterancesIn("04-en").map(({ start }) => start);
    expect(result.segments).toHaveLength(starts.length);
    for (const [index, { start = 0 }] of result.segments.entries()) {
      expect(Math.abs(start - (starts[index] ?? 0))).toBeLessThan(0.15);
    }
    expect(result.warnings).toEqual(["narrowband_audio"]);
  });
});

describe("a clock that begins at ten hours", () => {
  const late = ["-output_ts_offset", "36000"];
  test.each([
    ["webm", "libopus"],
    ["ogg", "flac"],
    ["m4a", "aac"],
  ])("%s, %s: synchronous and as an upload", async (ending, encoder) => {
    const bytes = made(`late.${ending}`, "-i", samplePath("01-en"), "-c:a", encoder, ...late);
    const result = await api.transcribe(bytes, { language: "en" });
    expect(result.text).toBe(wordsIn("01-en"));
    expect(Math.abs(result.duration_seconds - 2.61)).toBeLessThan(0.1);
    expect(result.warnings).toEqual([]);
    const upload = await api.upload(bytes);
    expect(upload).toMatchObject({ state: "complete", duration_seconds: result.duration_seconds });
  });
});

describe("recordings of some milliseconds", () => {
  const sound = (ms: number, channels: number) => {
    const one = tone(ms / 1000, 440, -6);
    return wavOf(channels === 1 ? one : asChannels(one, one));
  };
  const cases = [1, 2, 5, 10, 50].flatMap((ms) => [1, 2].map((channels) => [ms, channels] as const));

  test.each(cases)("%d ms in %d channels have no speech", async (ms, channels) => {
    const bytes = sound(ms, channels);
    const result = await api.transcribe(bytes, { language: "en" });
    expect(result).toMatchObject({ text: "", segments: [], duration_seconds: ms / 1000, channels });
    expect(result.warnings).toContain("no_speech");
    for (const mode of ["mix", "separate"] as const) {
      const upload = await api.upload(bytes);
      expect(upload).toMatchObject({ state: "complete", duration_seconds: ms / 1000 });
      const { body } = await api.start({
        audio: { upload_id: upload.id },
        language: "en",
        channel_mode: mode,
      });
      expect(await api.finished(body.id)).toMatchObject({ state: "completed", duration_seconds: ms / 1000 });
    }
    const file = await toFile(new Blob([bytes]), "tap.wav");
    expect((await openai.audio.transcriptions.create({ file, model: "whisper-1" })).text).toBe("");
    const path = join(installation.folder, "tap.wav");
    writeFileSync(path, bytes);
    expect(await installation.command("transcribe", "--language", "en", path)).toMatchObject({ code: 0 });
  });

  test("without a sample there is no recording", async () => {
    const bytes = sound(0, 1);
    await expect(api.transcribe(bytes, { language: "en" })).rejects.toMatchObject({ status: 415 });
    await expect(api.upload(bytes)).rejects.toMatchObject({ status: 415 });
    const file = await toFile(new Blob([bytes]), "tap.wav");
    const refused = await openai.audio.transcriptions
      .create({ file, model: "whisper-1" })
      .catch((error) => error);
    expect(refused).toMatchObject({ status: 400 });
    const path = join(installation.folder, "none.wav");
    writeFileSync(path, bytes);
    const { code, err } = await installation.command("transcribe", "--language", "en", path);
    expect(code).toBe(1);
    expect(err).toContain("not in a known audio format, or is damaged");
  });
});
