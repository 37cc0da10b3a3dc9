import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TranscriptionResult, UploadCreated } from "../http/wire/schemas.ts";
import { ApiError } from "../testing/answers/api-client.ts";
import { type Installation, install, type RunningServer, reached } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** Files with several audio tracks, and files without a header, through the executable: commands and HTTP. */

const ffmpeg = Bun.which("ffmpeg");
const WORDS = "eighty three thousand two hundred";
const PATIENCE_MS = 60_000;

let folder: string;
let home: Installation;
let server: RunningServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-formats-"));
  home = await install({ environment: { SHRUTI_OPENAI_ENABLED: "true" } });
  server = await (await home.serve()).ready();
}, 120_000);
afterAll(async () => {
  await server.stop();
  await home.remove();
  rmSync(folder, { recursive: true, force: true });
});

const SILENCE = ["-f", "lavfi", "-i", "anullsrc=d=3:r=48000:cl=stereo"];
const sample = (name: string) => ["-i", samplePath(name)];

function made(name: string, ...options: string[]): string {
  const path = join(folder, name);
  const done = Bun.spawnSync([ffmpeg ?? "", "-v", "error", "-y", ...options, path], { stderr: "pipe" });
  if (done.exitCode !== 0) throw new Error(`${options.join(" ")}:\n${done.stderr}`);
  return path;
}

const TWO = ["-map", "0:a", "-map", "1:a", "-c:a", "aac"];
const bytesOf = (path: string) => new Uint8Array(readFileSync(path));

describe.skipIf(ffmpeg === null)("several audio tracks (needs ffmpeg)", () => {
  test(
    "shruti transcribe: of a screen recorder the microphone, without a warning",
    async () => {
      const path = made("screen.mp4", ...SILENCE, ...sample("01-en"), ...TWO);
      const { code, out, err } = await home.command("transcribe", "--language", "en", path);
      expect({ code, out }).toEqual({ code: 0, out: `${WORDS}\n` });
      expect(err).not.toContain("tracks_left_out");
    },
    PATIENCE_MS,
  );

  test(
    "HTTP: of two participants one, and the result names the other",
    async () => {
      const path = made("two.mkv", ...sample("01-en"), ...sample("02-hi"), ...TWO);
      const { text, warnings, audio_tracks } = await server
        .api()
        .transcribe(bytesOf(path), { language: "en" });
      expect({ text, warnings, audio_tracks }).toEqual({
        text: WORDS,
        warnings: ["tracks_left_out"],
        audio_tracks: { transcribed: 0, left_out: [1] },
      });
      const marked = made(
        "marked.mkv",
        ...sample("02-hi"),
        ...sample("01-en"),
        ...TWO,
        "-disposition:a:0",
        "0",
        "-disposition:a:1",
        "default",
      );
      const second = await server.api().transcribe(bytesOf(marked), { language: "en" });
      expect(second).toMatchObject({ text: WORDS, audio_tracks: { transcribed: 1, left_out: [0] } });
    },
    PATIENCE_MS,
  );

  test(
    "with engine.tracks = all each is a channel",
    async () => {
      const path = made("all.m4a", ...sample("01-en"), ...sample("02-hi"), ...TWO);
      const other = await install({ environment: { SHRUTI_ENGINE_TRACKS: "all" } });
      try {
        const own = await (await other.serve()).ready();
        const separate = await own
          .api()
          .transcribe(bytesOf(path), { language: "en", channel_mode: "separate" });
        expect(separate.channels).toBe(2);
        expect(separate.warnings).not.toContain("tracks_left_out");
        expect(separate.text).toContain(`[channel 0] ${WORDS}`);
        const { data } = await own.api().usage();
        expect(data[0]?.billed_seconds).toBeCloseTo(2 * separate.duration_seconds, 2);
        await own.stop();
      } finally {
        await other.remove();
      }
    },
    PATIENCE_MS,
  );
});

describe.skipIf(ffmpeg === null)("recordings without a header (needs ffmpeg)", () => {
  const ulaw = () => made("call.ulaw", ...sample("01-en"), "-ar", "8000", "-f", "mulaw");

  async function synchronous(address: string, file: File): Promise<TranscriptionResult> {
    const form = new FormData();
    form.append("file", file);
    form.append("language", "en");
    const response = await server.api().send(address, { method: "POST", body: form });
    const body = await response.json();
    if (!response.ok) throw new ApiError(response.status, body as never);
    return body as TranscriptionResult;
  }

  test(
    "shruti transcribe: by the name, in a folder, and by --media-type",
    async () => {
      const path = ulaw();
      const named = await home.command("transcribe", "--language", "en", path);
      expect(named).toMatchObject({ code: 0, out: `${WORDS}\n` });
      const linear = made("call.raw", ...sample("01-en"), "-ar", "16000", "-f", "s16le");
      const refused = await home.command("transcribe", "--language", "en", linear);
      expect(refused.code).not.toBe(0);
      expect(refused.err).toContain("call.ulaw");
      const type = "audio/L16;rate=16000;endianness=little-endian";
      const typed = await home.command("transcribe", "--language", "en", "--media-type", type, linear);
      expect(typed).toMatchObject({ code: 0, out: `${WORDS}\n` });
      const wrong = await home.command("transcribe", "--media-type", "audio/L16", linear);
      expect(wrong.code).toBe(2);
    },
    PATIENCE_MS,
  );

  test(
    "one multipart request, and OpenAI's API: by file name and by media type",
    async () => {
      const bytes = bytesOf(ulaw());
      for (const file of [
        new File([bytes], "call.ulaw"),
        new File([bytes], "blob", { type: "audio/PCMU" }),
      ]) {
        expect((await synchronous("/v1/audio/transcriptions", file)).text).toBe(WORDS);
        expect((await synchronous("/openai/v1/audio/transcriptions", file)).text).toBe(WORDS);
      }
      const nameless = synchronous("/v1/audio/transcriptions", new File([bytes], "call"));
      await expect(nameless).rejects.toMatchObject({ status: 415 });
    },
    PATIENCE_MS,
  );

  test(
    "an upload: by the media type of its PUT; it is kept for recognition, listeners and evidence",
    async () => {
      const api = server.api();
      const bytes = bytesOf(made("call.al", ...sample("01-en"), "-ar", "8000", "-f", "alaw"));
      const { body: upload } = await api.call<UploadCreated>("POST", "/v1/uploads", { bytes: bytes.length });
      const headers = { ...upload.upload.headers, "content-type": "audio/PCMA" };
      const { pathname } = new URL(upload.upload.url);
      expect((await api.send(pathname, { method: "PUT", headers, body: bytes })).status).toBe(200);
      const complete = await api.call("POST", `/v1/uploads/${upload.id}/complete`);
      expect(complete.body).toMatchObject({ state: "complete", duration_seconds: 2.611, channels: 1 });
      const { body } = await api.start({ audio: { upload_id: upload.id }, language: "en" });
      expect((await reached(api, body.id)).state).toBe("completed");
      expect((await api.result(body.id)).text).toBe(WORDS);
      const audio = await api.send(`/v1/transcriptions/${body.id}/audio`, {});
      expect((await audio.arrayBuffer()).byteLength).toBe(44 + 2 * Math.round(2.611 * 16_000));
      const format = { demuxer: "alaw", rate_hz: 8000, channels: 1 };
      expect(await home.json("uploads", "show", upload.id, "--json")).toMatchObject({ reading: { format } });
      const evidence = await home.output("transcriptions", "evidence", body.id);
      expect(JSON.parse(evidence)).toMatchObject({ document: { audio: { reading: { format } } } });
      const proof = join(folder, "evidence.json");
      await Bun.write(proof, evidence);
      const renamed = join(folder, "recording");
      await Bun.write(renamed, bytes);
      const repeated = await home.command("evidence", "verify", proof, "--audio", renamed, "--json");
      expect(JSON.parse(repeated.out)).toMatchObject({ ok: true, repeated: { same_words: true } });
    },
    PATIENCE_MS,
  );
});
