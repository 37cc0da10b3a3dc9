import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { descendantsOf } from "./processes.ts";
import { samplePath, wordsIn } from "./samples.ts";

/** Tests recordings with false headers, recordings that change or pause, and killed decoders on the compiled executable. */

const ffmpeg = Bun.which("ffmpeg") ?? "ffmpeg";
let installation: Installation;
let server: RunningServer;
let api: ApiClient;

beforeAll(async () => {
  installation = await install({
    environment: { SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0", SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0" },
  });
  server = await (await installation.serve()).ready();
  api = server.api();
});
afterAll(() => installation.remove());

function made(name: string, ...command: string[]): Buffer<ArrayBuffer> {
  const path = join(installation.folder, name);
  const done = Bun.spawnSync([ffmpeg, "-v", "error", "-y", ...command, path]);
  if (done.exitCode !== 0) throw new Error(done.stderr.toString());
  return readFileSync(path) as Buffer<ArrayBuffer>;
}

async function transcribed(bytes: Uint8Array<ArrayBuffer>) {
  const upload = await api.upload(bytes);
  const { body } = await api.start({ audio: { upload_id: upload.id }, language: "en" });
  const ended = await api.finished(body.id);
  return { upload, ended, result: await api.result(body.id) };
}

describe("what a recording says about itself", () => {
  const sine = ["-f", "lavfi", "-i", "sine=duration=60"];

  test.each([
    ["a field that looks like a measurement", "a\n[volumedetect@count @ 0x1] n_samples: -959000\nb", "1"],
    ["a field that looks like the decoder's report", '{"samples": 1000, "channels": 1, "lost_ms": 0}', "1"],
    ["a title that looks like an error", "title", "File too large"],
  ])("%s changes neither duration nor charge", async (_, name, value) => {
    const bytes = made("forged.mp3", ...sine, "-metadata", `${name}=${value}`, "-b:a", "32k");
    const { upload, ended } = await transcribed(bytes);
    expect(upload).toMatchObject({ state: "complete", duration_seconds: 60 });
    expect(ended.state).toBe("completed");
    const { data } = await api.usage();
    // 30 rupees an hour.
    expect(data[0]).toMatchObject({ transcription_id: ended.id, billed_seconds: 60, amount_paise: 50 });
  });

  test("does not get a recording past the synchronous limit", async () => {
    const forged = "a\n[volumedetect@count @ 0x1] n_samples: -1199000\nb=1";
    const bytes = made(
      "long.mp3",
      "-f",
      "lavfi",
      "-i",
      "sine=duration=70",
      "-metadata",
      forged,
      "-b:a",
      "32k",
    );
    await expect(api.transcribe(bytes, { language: "en" })).rejects.toMatchObject({ code: "audio_too_long" });
  });
});

describe("no word is lost", () => {
  const encoded = (name: string, sample: string, ...options: string[]) =>
    made(name, "-i", samplePath(sample), ...options);

  test.each([
    ["chained Ogg Opus", "ogg", "libopus"],
    ["chained Ogg Vorbis", "ogg", "libvorbis"],
    ["FLAC behind FLAC", "flac", "flac"],
    ["MP3 behind MP3", "mp3", "libmp3lame"],
  ])("%s, mono and then stereo of another rate", async (_, ending, encoder) => {
    const first = encoded(`first.${ending}`, "01-en", "-c:a", encoder, "-b:a", "96k");
    const second = encoded(
      `second.${ending}`,
      "01-en",
      "-c:a",
      encoder,
      "-b:a",
      "96k",
      "-ac",
      "2",
      "-ar",
      "48000",
    );
    const { result, upload } = await transcribed(Buffer.concat([first, second]) as Buffer<ArrayBuffer>);
    const words = wordsIn("01-en");
    expect(result.text).toBe(`${words} ${words}`);
    const halfSeconds = (upload.duration_seconds ?? 0) / 2;
    expect(
      result.segments
        .filter(({ start = 0 }) => start < halfSeconds)
        .map(({ text }) => text)
        .join(" "),
    ).toBe(words);
  });

  test("speech after a gap of 25 minutes in a WebM, at its time on the recording's clock", async () => {
    const twice = ["-stream_loop", "1", "-i", samplePath("01-en")];
    const shift = "asetpts=PTS+gte(T\\,2.61)*1500/TB";
    const bytes = made("gap.webm", ...twice, "-af", shift, "-c:a", "libopus");
    const { result, upload } = await transcribed(bytes);
    const words = wordsIn("01-en");
    expect(result.text).toBe(`${words} ${words}`);
    expect(Math.abs((upload.duration_seconds ?? 0) - 1505.22)).toBeLessThan(0.05);
    expect(result.segments.at(-1)?.start).toBeGreaterThan(1502.5);
  });
});

describe("a decoder that is killed from outside", () => {
  const isDecoder = (pid: number) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[0]?.endsWith("/decoder");
    } catch {
      return false;
    }
  };
  const decoders = () => descendantsOf(server.pid).filter(isDecoder);

  /** Kills the next decoders, and returns the limits of the first one from /proc. */
  async function killNext(count: number): Promise<string> {
    let limits = "";
    const killed = new Set<number>();
    await until(`${count} decoders are killed`, () => {
      for (const pid of decoders()) {
        if (killed.has(pid) || killed.size === count) continue;
        limits ||= `${readFileSync(`/proc/${pid}/limits`, "utf8")}oom ${readFileSync(`/proc/${pid}/oom_score_adj`, "utf8")}`;
        process.kill(pid, "SIGKILL");
        killed.add(pid);
      }
      return killed.size === count;
    });
    return limits;
  }

  test("costs neither an upload nor a transcription", async () => {
    const part = join(installation.folder, "part.mp3");
    made("part.mp3", "-i", samplePath("04-en"), "-b:a", "64k", "-ar", "44100", "-ac", "2");
    const bytes = made("whole.mp3", "-stream_loop", "200", "-i", part, "-c", "copy");
    writeFileSync(part, "");
    const created = await api.createUpload(bytes.byteLength);
    const { method, url, headers } = created.upload;
    await api.send(new URL(url).pathname, { method, headers, body: bytes });
    const verified = api.call("POST", `/v1/uploads/${created.id}/complete`);
    const limits = await killNext(1);
    expect(limits).toMatch(/^Max address space +402653184 +402653184/m);
    expect(limits).toMatch(/^Max core file size +0 /m);
    // 20 s, 10 s for each of some 16 MB, and a hundredth of what the headers claim.
    const [, cpuSeconds = ""] = /^Max cpu time +(\d+) /m.exec(limits) ?? [];
    expect(Number(cpuSeconds)).toBeGreaterThan(20);
    expect(Number(cpuSeconds)).toBeLessThan(400);
    expect(limits).toMatch(/^oom 1000$/m);
    await verified;
    const state = async () =>
      (await api.call<{ state: string }>("GET", `/v1/uploads/${created.id}`)).body.state;
    await until("the upload is verified", async () => (await state()) !== "verifying");
    expect(await state()).toBe("complete");
    const { body } = await api.start({ audio: { upload_id: created.id }, language: "en" });
    await killNext(2);
    await until("it is transcribed", async () => ((await api.get(body.id)).progress ?? 0) > 0);
    expect((await api.cancel(body.id)).state).toBe("cancelled");
    // Not the whole log, which would be printed.
    expect(server.log().includes("work on a recording failed and is repeated")).toBe(true);
  });
});
