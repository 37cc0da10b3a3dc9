import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wavFile } from "../../e2e/samples.ts";
import { amplified, type Sound, sampleSound, telephoned, wavOf } from "../../e2e/sounds.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, DecodeError, type DecodeOptions, decodeAudio } from "./decode.ts";

const systemFfmpeg = Bun.which("ffmpeg");
const sox = Bun.which("sox");
const encoders = systemFfmpeg === null ? "" : output([systemFfmpeg, "-hide_banner", "-encoders"]);
if (systemFfmpeg === null || sox === null) {
  console.warn("decode.test.ts: most tests are left out, because ffmpeg or sox is not installed");
}

let folder: string;
let nativeFiles: NativeFiles;
/** Ten seconds: three tones with a second of silence in between, different left and right, 44.1 kHz. */
let master: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-decode-"));
  nativeFiles = await extractNativeFiles(folder);
  master = join(folder, "master.wav");
  if (sox !== null) {
    const tone = (left: number, right: number) =>
      `|sox -n -r 44100 -c 2 -p synth 3 sine ${left} sine ${right} vol 0.5 pad 0 0.3333`;
    output([sox, tone(440, 660), tone(500, 300), tone(350, 800), "-b", "16", master]);
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function output(command: string[]): string {
  const done = Bun.spawnSync(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  if (done.exitCode !== 0) throw new Error(`${command.join(" ")}:\n${done.stderr}`);
  return done.stdout.toString();
}

function encode(name: string, ...options: string[]): string {
  const path = join(folder, name);
  output([systemFfmpeg ?? "ffmpeg", "-v", "error", "-y", "-i", master, ...options, path]);
  return path;
}

/** Two seconds made by sox, 16 bit. */
function made(name: string, rateHz: number, channels: number, tones: string): string {
  const path = join(folder, name);
  const format = ["-r", String(rateHz), "-b", "16", "-c", String(channels)];
  output([sox ?? "sox", "-n", ...format, path, "synth", "2", ...tones.split(" ")]);
  return path;
}

function write(name: string, bytes: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

function cut(path: string, share: number, name: string): string {
  const bytes = readFileSync(path);
  return write(name, bytes.subarray(0, Math.floor(bytes.length * share)));
}

const LIMITS = { maxDurationMs: 60_000, timeoutMs: 30_000 };

function decode(path: string, options: Partial<DecodeOptions> = {}) {
  return decodeAudio(nativeFiles, path, { output: join(folder, "out.pcm"), ...LIMITS, ...options });
}

async function failure(work: Promise<unknown>): Promise<DecodeError> {
  const outcome = await work.then(
    () => undefined,
    (error) => error,
  );
  if (!(outcome instanceof DecodeError)) throw new Error(`not a DecodeError: ${outcome}`);
  // Clients see the messages.
  expect(outcome.message).not.toContain(folder);
  return outcome;
}

function samplesOf(path: string): Int16Array {
  return new Int16Array(new Uint8Array(readFileSync(path)).buffer);
}

function rms(samples: Int16Array, startSecond: number, endSecond: number): number {
  const part = samples.subarray(startSecond * 16_000, endSecond * 16_000);
  return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length);
}

type Format = { name: string; encoder: string; options: string[]; toleranceMs?: number; channels?: number };
const mono = (rate: number) => ["-ac", "1", "-ar", String(rate)];

/** Tolerances come from block and frame sizes of the codec, and from its delay. */
const FORMATS: Format[] = [
  { name: "u8.wav", encoder: "pcm_u8", options: [] },
  { name: "s24.wav", encoder: "pcm_s24le", options: [] },
  { name: "f32.wav", encoder: "pcm_f32le", options: [] },
  { name: "mulaw.wav", encoder: "pcm_mulaw", options: mono(8000), channels: 1 },
  { name: "alaw.wav", encoder: "pcm_alaw", options: mono(8000), channels: 1 },
  { name: "ima.wav", encoder: "adpcm_ima_wav", options: [], toleranceMs: 60 },
  { name: "ms.wav", encoder: "adpcm_ms", options: [], toleranceMs: 60 },
  { name: "gsm.wav", encoder: "libgsm_ms", options: mono(8000), toleranceMs: 60, channels: 1 },
  { name: "rf64.wav", encoder: "pcm_s16le", options: ["-rf64", "always"] },
  { name: "a.w64", encoder: "pcm_s16le", options: [] },
  { name: "a.au", encoder: "pcm_s16be", options: [] },
  { name: "a.aiff", encoder: "pcm_s16be", options: [] },
  { name: "a.caf", encoder: "pcm_s16be", options: [] },
  { name: "a.flac", encoder: "flac", options: [] },
  { name: "a.mp3", encoder: "libmp3lame", options: [], toleranceMs: 60 },
  { name: "indexAtEnd.m4a", encoder: "aac", options: [], toleranceMs: 60 },
  { name: "indexAtStart.m4a", encoder: "aac", options: ["-movflags", "+faststart"], toleranceMs: 60 },
  { name: "alac.m4a", encoder: "alac", options: [] },
  { name: "a.aac", encoder: "aac", options: ["-f", "adts"], toleranceMs: 80 },
  { name: "vorbis.ogg", encoder: "libvorbis", options: ["-c:a", "libvorbis"], toleranceMs: 60 },
  { name: "opus.ogg", encoder: "libopus", options: ["-c:a", "libopus"], toleranceMs: 60 },
  {
    name: "speex.ogg",
    encoder: "libspeex",
    options: [...mono(16000), "-c:a", "libspeex"],
    toleranceMs: 80,
    channels: 1,
  },
  { name: "opus.webm", encoder: "libopus", options: ["-c:a", "libopus"], toleranceMs: 60 },
  { name: "nb.amr", encoder: "libopencore_amrnb", options: mono(8000), toleranceMs: 60, channels: 1 },
  {
    name: "wb.amr",
    encoder: "libvo_amrwbenc",
    options: [...mono(16000), "-c:a", "libvo_amrwbenc"],
    toleranceMs: 60,
    channels: 1,
  },
  {
    name: "amr.3gp",
    encoder: "libopencore_amrnb",
    options: [...mono(8000), "-c:a", "libopencore_amrnb"],
    toleranceMs: 80,
    channels: 1,
  },
  { name: "aac.3gp", encoder: "aac", options: ["-c:a", "aac"], toleranceMs: 60 },
  { name: "a.wma", encoder: "wmav2", options: ["-c:a", "wmav2"], toleranceMs: 120 },
  { name: "a.ts", encoder: "aac", options: ["-c:a", "aac"], toleranceMs: 80 },
  { name: "a.ac3", encoder: "ac3", options: [], toleranceMs: 80 },
  { name: "a.mka", encoder: "flac", options: ["-c:a", "flac"], toleranceMs: 60 },
  {
    name: "g722.wav",
    encoder: "g722",
    options: [...mono(16000), "-c:a", "g722"],
    toleranceMs: 60,
    channels: 1,
  },
  {
    name: "g726.wav",
    encoder: "g726",
    options: [...mono(8000), "-c:a", "g726"],
    toleranceMs: 60,
    channels: 1,
  },
];

describe.skipIf(systemFfmpeg === null || sox === null)("formats (needs ffmpeg and sox)", () => {
  for (const format of FORMATS) {
    const { name, encoder } = format;
    test.skipIf(!encoders.includes(` ${encoder} `))(
      `${name} decodes to its whole length (needs an ffmpeg with the encoder)`,
      async () => {
        const codec = format.options.includes("-c:a") ? [] : ["-c:a", encoder];
        const path = encode(name, ...codec, ...format.options);
        const decoded = await decode(path);
        expect(Math.abs(decoded.durationMs - 10_000)).toBeLessThanOrEqual(format.toleranceMs ?? 1);
        expect(decoded.channels).toBe(format.channels ?? 2);
        expect(decoded.measurements.truncated).toBe(false);
        const samples = samplesOf(join(folder, "out.pcm"));
        expect(samples.length).toBe(decoded.samples);
        // The first tone, and the silence after it, are at the same times as in the recording.
        const tone = rms(samples, 1, 2);
        expect(tone).toBeGreaterThan(3_000);
        expect(rms(samples, 3.12, 3.25)).toBeLessThan(tone / 5);
        const counted = await countAudio(nativeFiles, path, LIMITS);
        expect(Math.abs(counted.durationMs - decoded.durationMs)).toBeLessThanOrEqual(1);
      },
    );
  }

  for (const [suffix, encoder] of [
    ["ac3", "ac3"],
    ["mp3", "libmp3lame"],
  ] as const)
    test.skipIf(!encoders.includes(` ${encoder} `))(
      `${suffix} in a WAV that claims to hold 16-bit samples is found and decoded (needs an ffmpeg with the encoder)`,
      async () => {
        const compressed = readFileSync(encode(`compressed.${suffix}`, "-c:a", encoder, "-b:a", "192k"));
        const whole = new Uint8Array(compressed.subarray(0, compressed.length - (compressed.length % 4)));
        const path = write(`compressed-${suffix}.wav`, wavFile([whole], { rateHz: 44_100, channels: 2 }));
        const decoded = await decode(path);
        expect(Math.abs(decoded.durationMs - 10_000)).toBeLessThanOrEqual(150);
        expect(rms(samplesOf(join(folder, "out.pcm")), 1, 2)).toBeLessThan(20_000);
        expect(decoded.measurements.peakDb).toBeLessThan(-3);
      },
    );

  test("sound beside a video track is decoded, and the video is not", async () => {
    const path = join(folder, "video.mp4");
    const video = ["-f", "lavfi", "-i", "testsrc=size=64x64:rate=10:duration=10", "-i", master];
    output([systemFfmpeg ?? "", "-v", "error", "-y", ...video, "-c:v", "mpeg4", "-c:a", "aac", path]);
    expect(Math.abs((await decode(path)).durationMs - 10_000)).toBeLessThanOrEqual(60);
  });
});

/** Made by hand, because few systems have an encoder. RFC 4867 section 5; frames of the highest mode, 20 ms each. */
describe("AMR", () => {
  const frames = (magic: string, head: number, payloadBytes: number) =>
    Buffer.concat([
      Buffer.from(magic),
      ...Array.from({ length: 500 }, () =>
        Buffer.concat([Buffer.from([head]), Buffer.alloc(payloadBytes, 0x5a)]),
      ),
    ]);

  test("narrow-band and wide-band decode to their whole length", async () => {
    const narrow = await decode(write("hand.amr", frames("#!AMR\n", 7 << 3, 31)));
    expect(narrow.durationMs).toBe(10_000);
    const wide = await decode(write("hand-wb.amr", frames("#!AMR-WB\n", 8 << 3, 60)));
    expect(wide.durationMs).toBe(10_000);
  });
});

describe.skipIf(sox === null)("channels (needs sox)", () => {
  test("each channel goes to its own file, sample for sample", async () => {
    const path = made("two.wav", 16_000, 2, "sine 440 sine 800 vol 0.5");
    const decoded = await decode(path, { output: { directory: folder, channels: "separate" } });
    expect(decoded.files).toEqual([join(folder, "channel_0.pcm"), join(folder, "channel_1.pcm")]);
    const interleaved = new Int16Array(new Uint8Array(readFileSync(path)).buffer, 44);
    for (const [channel, file] of decoded.files.entries()) {
      expect(samplesOf(file)).toEqual(interleaved.filter((_, index) => index % 2 === channel));
    }
    expect(decoded.measurements.identicalChannels).toBe(false);
  });

  test("six channels without positions are split, and mixed in equal shares", async () => {
    const path = made("six.wav", 16_000, 6, "sine 500 vol 0.9");
    const decoded = await decode(path, { output: { directory: folder, channels: "separate" } });
    expect(decoded.files.length).toBe(6);
    const level = rms(samplesOf(decoded.files[5] ?? ""), 0.2, 0.8);
    const mixed = await decode(path);
    expect(mixed.channels).toBe(6);
    const ratio = rms(samplesOf(join(folder, "out.pcm")), 0.2, 0.8) / level;
    expect(ratio).toBeGreaterThan(0.3);
    expect(ratio).toBeLessThanOrEqual(1.01);
  });

  test("a loud stereo recording is mixed without clipping, and equal channels are detected", async () => {
    const path = made("loud.wav", 44_100, 2, "sine 440 vol 0.95");
    const decoded = await decode(path);
    const peak = samplesOf(join(folder, "out.pcm")).reduce(
      (most, sample) => Math.max(most, Math.abs(sample)),
      0,
    );
    expect(peak).toBeGreaterThan(0.9 * 32768);
    expect(peak).toBeLessThan(0.97 * 32768);
    expect(decoded.measurements.identicalChannels).toBe(true);
  });
});

describe("measurements", () => {
  /** Evenly spread noise of three seconds; a gain over 1 clips it. */
  const noise = (name: string, gain: number) => {
    const random = new Int16Array(randomBytes(16_000 * 3 * 2).buffer);
    const sound = random.map((sample) => Math.max(-32_768, Math.min(32_767, sample * gain)));
    const header = wav({ rate: 16_000, samples: sound.length }).subarray(0, 44);
    return write(name, Buffer.concat([header, Buffer.from(sound.buffer)]));
  };

  test("wide-band sound at a good level has no faults", async () => {
    const { measurements } = await decode(noise("fine.wav", 0.3));
    expect(measurements.truncated).toBe(false);
    expect(measurements.clippedRatio).toBe(0);
    expect(Math.abs(measurements.peakDb - 20 * Math.log10(0.3))).toBeLessThan(0.11);
    // Evenly spread samples lie 4.8 dB below their peak, and three eighths of their power is above 5 kHz.
    expect(Math.abs(measurements.rmsDb - (measurements.peakDb - 4.77))).toBeLessThan(0.11);
    expect(Math.abs(measurements.highFrequencyDb + 4.3)).toBeLessThan(1.6);
  });

  test("clipped sound gives the share of its samples at full scale", async () => {
    const { measurements } = await decode(noise("clipped.wav", 4));
    expect(measurements.peakDb).toBeGreaterThan(-0.01);
    expect(measurements.clippedRatio).toBeCloseTo(0.75, 1);
  });

  test("sound that comes near full scale and does not reach it is not clipped", async () => {
    const { measurements } = await decode(noise("loud.wav", 0.99));
    expect(measurements.peakDb).toBeGreaterThan(-0.2);
    expect(measurements.clippedRatio).toBe(0);
  });

  test("quiet sound gives its level", async () => {
    expect((await decode(noise("quiet.wav", 0.01))).measurements.peakDb).toBeCloseTo(-40, 0);
  });

  test("very quiet speech still has a level above 5 kHz, and telephone speech does not", async () => {
    const highDb = async (name: string, sound: Sound) =>
      (await decode(write(name, Buffer.from(wavOf(amplified(sound, -40)))))).measurements.highFrequencyDb;
    const speech = sampleSound("05-hi");
    expect(await highDb("low.wav", speech)).toBeGreaterThan(-30);
    expect(await highDb("low-telephone.wav", telephoned(speech))).toBeLessThan(-50);
  });

  test.skipIf(sox === null)("telephone sound has hardly anything above 5 kHz (needs sox)", async () => {
    const path = join(folder, "narrow.wav");
    output([sox ?? "", noise("wide.wav", 0.3), path, "sinc", "-3400"]);
    expect((await decode(path)).measurements.highFrequencyDb).toBeLessThan(-50);
  });
});

test("digital silence has the lowest levels, and they are numbers", async () => {
  const path = write("silence.wav", wav({ rate: 16_000, samples: 16_000, level: 0 }));
  const { peakDb, rmsDb, clippedRatio, identicalChannels } = (await decode(path)).measurements;
  expect({ peakDb, rmsDb, clippedRatio, identicalChannels }).toEqual({
    peakDb: -120,
    rmsDb: -120,
    clippedRatio: 0,
    identicalChannels: false,
  });
});

describe("hostile files", () => {
  const undecodable: [string, () => string][] = [
    ["no bytes", () => write("empty.wav", "")],
    ["text", () => write("text.mp3", "This is no audio.\n".repeat(500))],
    ["a PNG that is called wav", () => write("picture.wav", PNG)],
    ["random bytes", () => write("random.bin", randomBytes(300_000))],
    ["an HLS playlist", () => write("list.m3u8", "#EXTM3U\n#EXTINF:10,\nmaster.wav\n#EXT-X-ENDLIST\n")],
    ["a concat list", () => write("list.txt", `ffconcat version 1.0\nfile '${master}'\n`)],
    [
      "an SDP file with an address",
      () => write("a.sdp", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nt=0 0\nm=audio 9 RTP/AVP 0\n"),
    ],
    ["a WAV header alone", () => write("header.wav", wav({ rate: 16_000, samples: 0 }))],
    ["a WAV of 1 Hz", () => write("slow.wav", wav({ rate: 1, samples: 1_000 }))],
    ["a WAV of 2 GHz", () => write("fast.wav", wav({ rate: 2_000_000_000, samples: 1_000 }))],
    [
      "a WAV of 5,000 channels",
      () => write("wide.wav", wav({ rate: 16_000, samples: 20_000, channels: 5_000 })),
    ],
  ];
  for (const [what, make] of undecodable) {
    test(`${what}: refused`, async () => {
      const path = make();
      const target = { directory: mkdtempSync(join(folder, "target-")), channels: "separate" } as const;
      expect((await failure(decode(path, { output: target }))).reason).toBe("undecodable");
      expect(readdirSync(target.directory)).toEqual([]);
      expect((await failure(countAudio(nativeFiles, path, LIMITS))).reason).toBe("undecodable");
    });
  }

  test("a file name with shell, URL and option characters is only a name", async () => {
    const path = write("-i pipe:0 %41 'x' $(touch y)\u00e9.wav", wav({ rate: 16_000, samples: 16_000 }));
    expect((await decode(path)).durationMs).toBe(1000);
  });

  test.skipIf(systemFfmpeg === null)(
    "a file with a video track only has no audio (needs ffmpeg)",
    async () => {
      const path = join(folder, "silent.mp4");
      const source = ["-f", "lavfi", "-i", "testsrc=size=64x64:rate=10:duration=1"];
      output([systemFfmpeg ?? "", "-v", "error", "-y", ...source, "-c:v", "mpeg4", path]);
      expect((await failure(decode(path))).reason).toBe("no_audio");
    },
  );

  test("a WAV that breaks off is decoded up to its end", async () => {
    const path = cut(write("whole.wav", wav({ rate: 16_000, samples: 160_000 })), 0.5, "half.wav");
    const decoded = await decode(path);
    expect(Math.abs(decoded.durationMs - 5_000)).toBeLessThanOrEqual(2);
    expect(decoded.measurements.truncated).toBe(true);
  });

  test("a WAV whose header claims too little is decoded to its real end", async () => {
    const path = write("short.wav", wav({ rate: 16_000, samples: 160_000, claimedSamples: 16_000 }));
    const decoded = await decode(path);
    expect(decoded.durationMs).toBe(10_000);
    expect(decoded.measurements.truncated).toBe(false);
  });

  test("chunks after the audio of a WAV are not decoded as audio", async () => {
    const tag = Buffer.concat([Buffer.from("LIST"), uint32(20_000), Buffer.alloc(20_000, 0x41)]);
    const path = write("tagged.wav", Buffer.concat([wav({ rate: 16_000, samples: 16_000 }), tag]));
    expect((await decode(path)).durationMs).toBe(1000);
  });

  test("a WAV of unknown size, as written to a pipe, is decoded completely", async () => {
    const path = write("piped.wav", wav({ rate: 16_000, samples: 32_000, claimedSamples: 0x7fffff00 }));
    const decoded = await decode(path);
    expect(decoded.durationMs).toBe(2000);
    expect(decoded.measurements.truncated).toBe(false);
  });

  for (const [name, options] of [
    ["cut.mp3", ["-c:a", "libmp3lame"]],
    ["cut.m4a", ["-c:a", "aac", "-movflags", "+faststart"]],
    ["cut.flac", ["-c:a", "flac"]],
  ] as const) {
    test.skipIf(systemFfmpeg === null || sox === null)(
      `${name}: the first half of the file is decoded and reported as truncated (needs ffmpeg and sox)`,
      async () => {
        const decoded = await decode(cut(encode(`whole-${name}`, ...options), 0.5, name));
        expect(decoded.durationMs).toBeGreaterThan(3_000);
        expect(decoded.durationMs).toBeLessThan(7_500);
        expect(decoded.measurements.truncated).toBe(true);
      },
    );
  }

  test.skipIf(systemFfmpeg === null || sox === null)(
    "an m4a that lost the index at its end is refused (needs ffmpeg and sox)",
    async () => {
      const path = cut(encode("whole-end.m4a", "-c:a", "aac"), 0.9, "cut-end.m4a");
      expect((await failure(decode(path))).reason).toBe("undecodable");
    },
  );
});

/** Lists the children of this process. */
function children(): number[] {
  return readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8")
    .split(" ")
    .filter((pid) => pid !== "")
    .map(Number);
}

describe("limits", () => {
  const long = () => write("long.wav", wav({ rate: 16_000, samples: 16_000 * 30 }));
  const hoursMs = 8 * 3_600_000;
  /** Silence without bytes on the disk. Decoding it takes several times as long as the first report of progress does. */
  const hours = () => {
    const bytes = 8 * hoursMs * 2;
    const path = write("hours.wav", wav({ rate: 8_000, samples: 0, claimedSamples: bytes / 2 }));
    truncateSync(path, 44 + bytes);
    return path;
  };

  test("a recording over the limit is refused before or after decoding, and no file is left", async () => {
    const target = { directory: mkdtempSync(join(folder, "target-")), channels: "mix" } as const;
    const options = { output: target, maxDurationMs: 20_000 };
    expect((await failure(decode(long(), options))).reason).toBe("too_long");
    // These headers have no length, so the limit is only reached while decoding.
    const silent = write(
      "endless.wav",
      wav({ rate: 16_000, samples: 16_000 * 30, claimedSamples: 0x7fffff00 }),
    );
    expect((await failure(decode(silent, options))).reason).toBe("too_long");
    expect(readdirSync(target.directory)).toEqual([]);
  });

  test("a recording of exactly the limit is accepted", async () => {
    expect((await decode(long(), { maxDurationMs: 30_000 })).durationMs).toBe(30_000);
  });

  test("abort ends the child at once and leaves no file", async () => {
    const path = hours();
    const target = { directory: mkdtempSync(join(folder, "target-")), channels: "mix" } as const;
    const controller = new AbortController();
    const progress: number[] = [];
    const work = decode(path, {
      output: target,
      maxDurationMs: hoursMs,
      signal: controller.signal,
      onProgress: (decodedMs) => {
        progress.push(decodedMs);
        controller.abort();
      },
    });
    expect((await failure(work)).reason).toBe("aborted");
    expect(progress.length).toBeGreaterThan(0);
    expect(progress.at(-1)).toBeLessThan(hoursMs);
    expect(existsSync(join(target.directory, "mix.pcm"))).toBe(false);
    expect((await failure(decode(path, { signal: AbortSignal.abort() }))).reason).toBe("aborted");
  });

  test("when the time is over, decoding fails with the reason `limits`", async () => {
    const work = countAudio(nativeFiles, hours(), { maxDurationMs: hoursMs, timeoutMs: 5 });
    expect((await failure(work)).reason).toBe("limits");
  });

  test("a decoder dies with its parent", async () => {
    const path = write("huge.wav", wav({ rate: 8_000, samples: 8_000 * 3600 }));
    const output = join(folder, "orphan");
    // It has limited itself once this number is there. A stopped decoder cannot end by itself before its parent is killed.
    const script = `"$0" decode "$1" 7200000 - one mix "$2" .pcm "$2.outline" >/dev/null 2>&1 & pid=$!; echo $pid
      until grep -q 1000 /proc/$pid/oom_score_adj; do :; done; kill -STOP $pid; kill -9 $$`;
    const parent = Bun.spawn(["sh", "-c", script, nativeFiles.decoder, path, output], { stdout: "pipe" });
    const pid = Number(await parent.stdout.text());
    expect(pid).toBeGreaterThan(0);
    const isAlive = () => {
      const status = existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, "utf8") : "";
      return status !== "" && !/^State:\s+Z/m.test(status);
    };
    for (let tries = 0; isAlive() && tries < 200; tries++) await Bun.sleep(10);
    const outlivedParent = isAlive();
    // A stopped orphan would stay for good.
    if (outlivedParent) process.kill(pid, "SIGKILL");
    expect(outlivedParent).toBe(false);
  });

  test("files of a killed attempt are removed, and other files are not", async () => {
    const directory = mkdtempSync(join(folder, "target-"));
    const leftover = join(directory, "mix.pcm.0123456789ab.unfinished");
    writeFileSync(leftover, "half");
    writeFileSync(join(directory, "other.pcm"), "other");
    await decode(long(), { output: { directory, channels: "mix" } });
    expect(readdirSync(directory).sort()).toEqual(["mix.pcm", "other.pcm"]);
  });

  test("a decoder that is stopped from outside fails, and its recording does not count as short", async () => {
    const path = hours();
    const target = { directory: mkdtempSync(join(folder, "target-")), channels: "mix" } as const;
    let stopped = 0;
    const work = decode(path, {
      output: target,
      maxDurationMs: hoursMs,
      onProgress: () => {
        for (const pid of children()) {
          stopped++;
          process.kill(pid, "SIGTERM");
        }
      },
    });
    expect((await failure(work)).reason).toBe("stopped");
    expect(stopped).toBeGreaterThan(0);
    expect(readdirSync(target.directory)).toEqual([]);
  });

  test("on a full disk decoding fails with disk_full, and the recording does not count as short", async () => {
    const small = mkdtempSync(join(folder, "small-"));
    const mount = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", small]);
    if (mount.exitCode !== 0) {
      console.warn("decode.test.ts: a full disk is not tested, because this user may not mount one");
      return;
    }
    try {
      expect((await failure(decode(long(), { output: join(small, "out.pcm") }))).reason).toBe("disk_full");
      expect(readdirSync(small)).toEqual([]);
    } finally {
      output(["umount", small]);
    }
  });
});

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** Generates numbers that are the same in every run (xorshift), so that a failure can be repeated. */
function randomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  let state = 0x9e3779b9;
  for (let index = 0; index < count; index++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[index] = state & 0xff;
  }
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** A 16-bit WAV file of a 440 Hz tone; `samples` counts those of all channels. */
function wav(options: {
  rate: number;
  samples: number;
  channels?: number;
  claimedSamples?: number;
  level?: number;
}): Buffer {
  const { rate, samples, channels = 1, claimedSamples = samples, level = 9_000 } = options;
  const header = Buffer.alloc(44);
  const field = (value: number, offset: number) => header.writeUInt32LE(Math.min(value, 0xffffffff), offset);
  header.write("RIFF", 0);
  field(36 + claimedSamples * 2, 4);
  header.write("WAVEfmt ", 8);
  field(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(channels, 22);
  field(rate, 24);
  field(rate * channels * 2, 28);
  header.writeUInt16LE(channels * 2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36);
  field(claimedSamples * 2, 40);
  const sound = new Int16Array(samples);
  for (let index = 0; index < samples; index++)
    sound[index] = level * Math.sin((index * 2 * Math.PI * 440) / rate);
  return Buffer.concat([header, Buffer.from(sound.buffer)]);
}
