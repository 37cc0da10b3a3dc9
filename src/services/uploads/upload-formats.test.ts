import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { countAudio, DecodeError } from "../../engine/audio/decode.ts";
import { extractNativeFiles } from "../../native/native-files.ts";
import { CALLER, openUploadBench, type UploadBench } from "../../testing/kits/upload-bench.ts";
import { ENCODED_FORMATS, encodeFormat, makeWav, systemEncoders } from "../../testing/makers/audio-makers.ts";

/** Recordings as customers have them, through the service with the real decoder. */

const SECONDS = 3;
const encoders = systemEncoders();
let folder: string;
let bench: UploadBench;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-formats-"));
  const nativeFiles = await extractNativeFiles(folder);
  bench = openUploadBench({
    async verifyAudio({ path, reading }, signal) {
      try {
        const limits = { reading, maxDurationMs: 60_000, timeoutMs: 20_000, signal };
        return await countAudio(nativeFiles, path, limits);
      } catch (error) {
        if (!(error instanceof DecodeError)) throw error;
        throw new AppError(error.reason === "too_long" ? "audio_too_long" : "audio_decode_failed", {
          message: error.message,
        });
      }
    },
  });
});
afterAll(async () => {
  await bench.close();
  rmSync(folder, { recursive: true, force: true });
});

type Outcome = {
  state: string;
  code: string | null;
  durationMs: number | null;
  channels: number | null;
  truncated: boolean;
};

async function send(bytes: Uint8Array): Promise<Outcome> {
  const { uploads } = bench;
  const { upload } = await uploads.create(CALLER, { bytes: bytes.length });
  const body = new Response(bytes.slice()).body;
  await uploads.receive(upload.id, { at: "start over", body });
  const failed = await uploads.complete(CALLER, upload.id).then(
    () => undefined,
    (error: unknown) => error,
  );
  const { state, errorCode, durationMs, channels, truncated } = uploads.get(CALLER, upload.id);
  if (failed !== undefined) expect(failed).toMatchObject({ code: errorCode ?? "none" });
  return { state, code: errorCode, durationMs, channels, truncated };
}

describe("formats", () => {
  for (const format of ENCODED_FORMATS) {
    test.skipIf(!encoders.has(format.encoder))(
      `${format.name} is verified with its true duration (needs an ffmpeg with the encoder)`,
      async () => {
        const source = makeWav({ seconds: SECONDS, channels: 2 });
        const outcome = await send(readFileSync(encodeFormat(folder, source, format)));
        expect(outcome).toMatchObject({ state: "complete", channels: format.channels, truncated: false });
        expect(Math.abs((outcome.durationMs ?? 0) - SECONDS * 1000)).toBeLessThanOrEqual(format.toleranceMs);
      },
    );
  }

  test.skipIf(!encoders.has("libmp3lame"))(
    "an MP3 whose bit rate changes is verified with its true duration (needs an ffmpeg with the encoder)",
    async () => {
      const parts = [32, 128].map((kilobits) => {
        const options = [
          "-ac",
          "1",
          "-ar",
          "16000",
          "-b:a",
          `${kilobits}k`,
          "-write_xing",
          "0",
          "-id3v2_version",
          "0",
        ];
        const format = {
          name: `${kilobits}k.mp3`,
          encoder: "libmp3lame",
          options,
          channels: 1,
          toleranceMs: 0,
        };
        return readFileSync(encodeFormat(folder, makeWav({ seconds: SECONDS }), format));
      });
      const outcome = await send(Buffer.concat(parts));
      expect(outcome).toMatchObject({ state: "complete", channels: 1 });
      expect(Math.abs((outcome.durationMs ?? 0) - SECONDS * 2000)).toBeLessThanOrEqual(250);
    },
  );
});

describe("hostile and broken", () => {
  const whole = makeWav({ seconds: SECONDS });
  const refused: [string, () => Uint8Array][] = [
    ["text", () => Buffer.from("This is not audio.\n".repeat(1000))],
    ["a playlist of other addresses", () => Buffer.from("#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:1/a.wav\n")],
    ["a playlist of local files", () => Buffer.from("ffconcat version 1.0\nfile '/etc/hostname'\n")],
    ["a WAV of 1 Hz", () => makeWav({ seconds: SECONDS, claims: { rateHz: 1 } })],
    ["a WAV of 4 GHz", () => makeWav({ seconds: SECONDS, claims: { rateHz: 4_000_000_000 } })],
    ["a WAV without a sample", () => makeWav({ seconds: 0 })],
    [
      "a picture",
      () =>
        Buffer.from(
          "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
          "base64",
        ),
    ],
    ["zeros", () => new Uint8Array(100_000)],
  ];
  for (const [what, make] of refused) {
    test(`${what} is refused with audio_decode_failed`, async () => {
      expect(await send(make())).toMatchObject({
        state: "rejected",
        code: "audio_decode_failed",
        durationMs: null,
      });
    });
  }

  test("a recording over the decoder's limit is refused with upload_rejected", async () => {
    expect(await send(makeWav({ seconds: 61, rateHz: 8000 }))).toMatchObject({
      state: "rejected",
      code: "upload_rejected",
    });
  });

  test("a recording that breaks off is accepted up to its end, and marked as truncated", async () => {
    const outcome = await send(whole.slice(0, 44 + 32_000));
    expect(outcome).toMatchObject({ state: "complete", durationMs: 1000, truncated: true });
  });

  test("with a header that claims too little, the record has the true duration", async () => {
    const outcome = await send(makeWav({ seconds: SECONDS, claims: { dataBytes: 3200 } }));
    expect(outcome).toMatchObject({ state: "complete", durationMs: SECONDS * 1000, truncated: false });
  });

  test("three channels are accepted by verification, because a model's limit is checked by the transcription", async () => {
    expect(await send(makeWav({ seconds: 1, channels: 3 }))).toMatchObject({
      state: "complete",
      channels: 3,
    });
  });

  const mp4 = (name: string, encoder: string, options: string[]) => () =>
    readFileSync(encodeFormat(folder, whole, { name, encoder, options, channels: 1, toleranceMs: 0 }));

  test.skipIf(!encoders.has("aac"))(
    "an encrypted MP4 is refused (needs an ffmpeg with the encoder)",
    async () => {
      const key = [
        "-encryption_scheme",
        "cenc-aes-ctr",
        "-encryption_key",
        "76a6c65c5ea762046bd749a2e632ccbb",
      ];
      const make = mp4("encrypted.mp4", "aac", [
        ...key,
        "-encryption_kid",
        "a7e61c373e219033c21091fa607bf3b8",
      ]);
      expect(await send(make())).toMatchObject({ state: "rejected", code: "audio_decode_failed" });
    },
  );

  test.skipIf(!encoders.has("aac"))(
    "a video without sound is refused (needs an ffmpeg with the encoder)",
    async () => {
      const path = join(folder, "silent.mp4");
      const picture = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=1", "-c:v", "mpeg4"];
      Bun.spawnSync([Bun.which("ffmpeg") ?? "", "-v", "error", "-y", ...picture, path]);
      expect(await send(readFileSync(path))).toMatchObject({
        state: "rejected",
        code: "audio_decode_failed",
      });
    },
  );

  test.skipIf(!encoders.has("pcm_s16le"))(
    "a MOV whose sound lies in another file is refused (needs an ffmpeg with the encoder)",
    async () => {
      const path = join(folder, "reference.mov");
      const other = join(folder, "other.mov");
      const bytes = mp4("other.mov", "pcm_s16le", [])();
      expect(await send(bytes)).toMatchObject({ state: "complete" });
      writeFileSync(path, referringTo(bytes, other));
      const seen = Bun.spawnSync([Bun.which("ffprobe") ?? "", "-v", "warning", path]).stderr.toString();
      expect(seen).toContain("Skipped opening external track");
      expect(await send(readFileSync(path))).toMatchObject({
        state: "rejected",
        code: "audio_decode_failed",
      });
    },
  );
});

/** A MOV with its data reference ("dref") replaced by an alias record of another file's path (QuickTime format). */
function referringTo(mov: Uint8Array, path: string): Uint8Array {
  const bytes = Buffer.from(mov);
  const name = Buffer.from(path.length % 2 === 0 ? path : `/${path}`);
  const alias = Buffer.alloc(150 + name.length + 8);
  alias.writeUInt16BE(2, 150);
  alias.writeUInt16BE(name.length, 152);
  name.copy(alias, 154);
  alias.writeUInt16BE(0xffff, 154 + name.length);
  const entry = Buffer.alloc(12 + alias.length);
  entry.writeUInt32BE(entry.length, 0);
  entry.write("alis", 4, "latin1");
  alias.copy(entry, 12);
  const start = bytes.indexOf("dref") + 12;
  const oldLength = bytes.readUInt32BE(start);
  const out = Buffer.concat([bytes.subarray(0, start), entry, bytes.subarray(start + oldLength)]);
  let at = bytes.indexOf("moov");
  for (const box of ["moov", "trak", "mdia", "minf", "dinf", "dref"]) {
    at = bytes.indexOf(box, at);
    out.writeUInt32BE(out.readUInt32BE(at - 4) + entry.length - oldLength, at - 4);
  }
  return out;
}
