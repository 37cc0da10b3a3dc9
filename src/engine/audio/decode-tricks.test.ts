import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, decodeAudio } from "./decode.ts";
import { playAudio } from "./play.ts";

/**
 * Recordings with unusual containers: parameters that change midway, files joined byte by byte, gaps in time, and time
 * stamps that jump. Each second of sound has its own tone, which shows at which time it was decoded.
 */

const ffmpeg = Bun.which("ffmpeg");
const TOLERANCE_MS = 50;
const LIMITS = { maxDurationMs: 12 * 3_600_000, timeoutMs: 60_000 };
let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-tricks-"));
  nativeFiles = await extractNativeFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Tone = { hertz: number; seconds: number };
type Form = { rateHz: number; channels: number };

function run(...command: string[]): void {
  const done = Bun.spawnSync([ffmpeg ?? "ffmpeg", "-v", "error", "-y", ...command]);
  if (done.exitCode !== 0) throw new Error(done.stderr.toString());
}

let made = 0;
/** Writes a file of one tone. Encoders work on whole frames, so its real length may be some milliseconds more. */
function tone(
  ending: string,
  encoder: string,
  { hertz, seconds }: Tone,
  form: Form,
  ...more: string[]
): Buffer {
  const path = join(folder, `tone-${made++}.${ending}`);
  const source = `sine=frequency=${hertz}:sample_rate=${form.rateHz}:duration=${seconds},volume=6`;
  const options = [
    "-ac",
    String(form.channels),
    "-ar",
    String(form.rateHz),
    "-c:a",
    encoder,
    "-strict",
    "-2",
  ];
  run("-f", "lavfi", "-i", source, ...options, ...more, path);
  return readFileSync(path);
}

function write(bytes: Uint8Array): string {
  const path = join(folder, `made-${made++}`);
  writeFileSync(path, bytes);
  return path;
}

/** A stretch of a decoded file. */
function soundAt(path: string, startMs: number, lengthMs = 400): Int16Array {
  const bytes = Buffer.alloc(lengthMs * 32);
  const file = openSync(path, "r");
  readSync(file, bytes, 0, bytes.length, Math.round(startMs) * 32);
  closeSync(file);
  return new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
}

/** Measures how strong a frequency is in 16 kHz sound: 1 for a tone of full scale (Goertzel's algorithm). */
function strength(samples: Int16Array, hertz: number): number {
  const factor = 2 * Math.cos((2 * Math.PI * hertz) / 16_000);
  let [last, before] = [0, 0];
  for (const sample of samples) [last, before] = [sample / 32_768 + factor * last - before, last];
  return (2 * Math.sqrt(last * last + before * before - factor * last * before)) / samples.length;
}

/** Decodes, and checks that each tone is at its time, that no other tone is there, and that counting gives the same length. */
async function expectTones(path: string, durationMs: number, tones: { hertz: number; atMs: number }[]) {
  const output = join(folder, `heard-${made++}.pcm`);
  const decoded = await decodeAudio(nativeFiles, path, { output, ...LIMITS });
  const counted = await countAudio(nativeFiles, path, LIMITS);
  expect(Math.abs(decoded.durationMs - durationMs)).toBeLessThanOrEqual(TOLERANCE_MS);
  expect(counted).toMatchObject({ durationMs: decoded.durationMs, channels: decoded.channels });
  for (const { hertz, atMs } of tones) {
    const heard = soundAt(output, atMs);
    for (const other of tones) {
      if (other.hertz === hertz) expect(strength(heard, other.hertz)).toBeGreaterThan(0.2);
      else expect(strength(heard, other.hertz)).toBeLessThan(0.05);
    }
  }
  rmSync(output);
  return decoded;
}

const LOW: Tone = { hertz: 440, seconds: 2 };
const HIGH: Tone = { hertz: 1_000, seconds: 3 };
const MONO: Form = { rateHz: 16_000, channels: 1 };
const STEREO: Form = { rateHz: 48_000, channels: 2 };

describe.skipIf(ffmpeg === null)(
  "two recordings joined byte by byte, the second with other channels and rate (needs ffmpeg)",
  () => {
    const joined: [name: string, ending: string, encoder: string, more: string[]][] = [
      ["WAV", "wav", "pcm_s16le", []],
      ["AIFF", "aiff", "pcm_s16be", []],
      ["MP3", "mp3", "libmp3lame", ["-write_xing", "0"]],
      ["AAC", "aac", "aac", []],
      ["AC-3", "ac3", "ac3", ["-ar", "48000"]],
      ["FLAC", "flac", "flac", []],
      ["Ogg Opus", "ogg", "libopus", []],
      ["Ogg Vorbis", "ogg", "libvorbis", []],
      ["Ogg Speex", "ogg", "libspeex", ["-ar", "16000"]],
      ["Ogg FLAC", "ogg", "flac", []],
      ["MP4", "mp4", "aac", []],
      ["Matroska", "mka", "libopus", []],
      ["WebM", "webm", "libopus", []],
      ["MPEG-TS", "ts", "aac", []],
      ["FLV", "flv", "aac", []],
      ["MPEG-PS", "mpg", "mp2", ["-ar", "48000"]],
    ];
    /** Measures how long each part is by itself, because encoders work on whole frames. Checks that it is nearly as requested. */
    async function durationOf(part: Buffer, { seconds }: Tone): Promise<number> {
      const { durationMs } = await countAudio(nativeFiles, write(part), LIMITS);
      expect(Math.abs(durationMs - seconds * 1000)).toBeLessThan(130);
      return durationMs;
    }
    test.each(joined)("%s", async (_name, ending, encoder, more) => {
      const parts = [
        tone(ending, encoder, LOW, MONO, ...more),
        tone(ending, encoder, HIGH, STEREO, ...more),
      ] as const;
      const firstMs = await durationOf(parts[0], LOW);
      const secondMs = await durationOf(parts[1], HIGH);
      const { measurements, channels } = await expectTones(write(Buffer.concat(parts)), firstMs + secondMs, [
        { hertz: LOW.hertz, atMs: 500 },
        { hertz: LOW.hertz, atMs: 1_500 },
        { hertz: HIGH.hertz, atMs: firstMs + 200 },
        { hertz: HIGH.hertz, atMs: firstMs + 2_400 },
      ]);
      expect(channels).toBe(STEREO.channels);
      expect(measurements.truncated).toBe(false);
    });

    test("with separate channels the mono part is on the first channel, and the second one is silent there", async () => {
      const parts = [tone("flac", "flac", LOW, MONO), tone("flac", "flac", HIGH, STEREO)];
      const options = { output: { directory: folder, channels: "separate" as const }, ...LIMITS };
      const { files } = await decodeAudio(nativeFiles, write(Buffer.concat(parts)), options);
      expect(files.map((file) => statSync(file).size)).toEqual([160_000, 160_000]);
      const hears = (atMs: number, hertz: number) =>
        files.map((file) => strength(soundAt(file, atMs), hertz) > 0.2);
      expect(hears(1_000, LOW.hertz)).toEqual([true, false]);
      expect(hears(3_000, HIGH.hertz)).toEqual([true, true]);
    });

    test("many parts alternate between two forms", async () => {
      const tones = [LOW, HIGH, LOW, HIGH];
      const parts = tones.map((each, index) =>
        tone("mp3", "libmp3lame", each, index % 2 === 0 ? MONO : STEREO, "-write_xing", "0"),
      );
      const expected: { hertz: number; atMs: number }[] = [];
      let atMs = 0;
      for (const [index, part] of parts.entries()) {
        const each = tones[index] as Tone;
        expected.push({ hertz: each.hertz, atMs: atMs + 800 });
        atMs += await durationOf(part, each);
      }
      await expectTones(write(Buffer.concat(parts)), atMs, expected);
    });

    test("a damaged last link of a chain is reported, and the other links are decoded", async () => {
      const last = tone("ogg", "libopus", HIGH, STEREO);
      // The packets with the heads are missing. The page that begins the stream is complete.
      const damaged = Buffer.concat([last.subarray(0, 47), last.subarray(400)]);
      const path = write(Buffer.concat([tone("ogg", "libopus", LOW, MONO), damaged]));
      const { measurements } = await expectTones(path, 2_000, [{ hertz: LOW.hertz, atMs: 1_000 }]);
      expect(measurements.truncated).toBe(true);
    });
  },
);

describe.skipIf(ffmpeg === null)("gaps in time (needs ffmpeg)", () => {
  /** Sound of 4 s; the time stamps of its second half are later. */
  function withGap(ending: string, encoder: string, gapSeconds: number): string {
    const path = join(folder, `gap-${made++}.${ending}`);
    const source = "aevalsrc='0.5*sin(2*PI*if(lt(t,2),440,1000)*t)':s=48000:d=4:c=stereo";
    const shift = `asetpts=PTS+gte(T\\,2)*${gapSeconds}/TB`;
    run("-f", "lavfi", "-i", source, "-af", shift, "-c:a", encoder, "-strict", "-2", path);
    return path;
  }
  const containers = [
    ["Matroska", "mka", "libopus"],
    ["Matroska", "mka", "flac"],
    ["WebM", "webm", "libopus"],
    ["MP4", "mp4", "aac"],
    ["MPEG-TS", "ts", "aac"],
    ["Ogg Opus", "ogg", "libopus"],
    ["Ogg Vorbis", "ogg", "libvorbis"],
    ["FLV", "flv", "aac"],
    ["ASF", "wma", "wmav2"],
  ] as const;
  const gaps = containers.flatMap(([name, ...rest]) =>
    [1, 2 * 3600].map((seconds) => [`${name}, ${rest[1]}, ${seconds} s`, seconds, ...rest] as const),
  );
  test.each(gaps)("%s", async (_name, seconds, ending, encoder) => {
    const path = withGap(ending, encoder, seconds);
    const atMs = 2_000 + seconds * 1000;
    // wmav2 works on frames of 43 ms, and its container counts in whole ones.
    const extraMs = encoder === "wmav2" ? 50 : 0;
    await expectTones(path, 4_000 + seconds * 1000 + extraMs, [
      { hertz: 440, atMs: 1_000 },
      { hertz: 1_000, atMs: atMs + 700 },
    ]);
  });

  test("a gap within the first second of a recording that begins some milliseconds late", async () => {
    // Resampled to the codec's 48 kHz, so that the first packet's time is not exactly the codec's delay.
    const path = join(folder, `early-${made++}.webm`);
    const source = "aevalsrc='0.5*sin(2*PI*if(lt(t,0.5),440,1000)*t)':s=16000:d=1.4:c=stereo";
    run("-f", "lavfi", "-i", source, "-af", "asetpts=PTS+gte(T\\,0.5)*60/TB", "-c:a", "libopus", path);
    await expectTones(path, 61_400, [
      { hertz: 440, atMs: 250 },
      { hertz: 1_000, atMs: 60_700 },
    ]);
  });

  test("a gap of hours takes no more memory than none, and hardly any disk", async () => {
    const peakKib = (path: string) => {
      const output = join(folder, `out-${made++}`);
      const command = [
        nativeFiles.decoder,
        "decode",
        path,
        String(LIMITS.maxDurationMs),
        "-",
        "one",
        "mix",
        output,
        "",
        `${output}.outline`,
      ];
      const done = Bun.spawnSync(command, { stdout: "pipe" });
      expect(done.stdout.toString()).toContain('"samples"');
      const { size, blocks } = statSync(output);
      return { maxRss: done.resourceUsage?.maxRSS ?? 0, size, diskBytes: blocks * 512 };
    };
    const none = peakKib(withGap("webm", "libopus", 1));
    const hours = peakKib(withGap("webm", "libopus", 11 * 3600));
    expect(hours.size).toBeGreaterThan(11 * 3600 * 32_000);
    expect(hours.diskBytes).toBeLessThan(4_000_000);
    expect(hours.maxRss).toBeLessThan(none.maxRss * 1.2);
  });

  test("a gap beyond the limit is a recording that is too long", async () => {
    const path = withGap("mka", "flac", 13 * 3600);
    await expect(countAudio(nativeFiles, path, LIMITS)).rejects.toMatchObject({ reason: "too_long" });
  });

  test("a recording that breaks off before such a gap is decoded after it was measured, whatever its header claims", async () => {
    const whole = readFileSync(withGap("mka", "flac", 13 * 3600));
    const path = write(whole.subarray(0, whole.length * 0.4));
    const counted = await countAudio(nativeFiles, path, { ...LIMITS, maxDurationMs: 24 * 3_600_000 });
    expect(counted.durationMs).toBeLessThan(2_000);
    const decoded = await decodeAudio(nativeFiles, path, {
      ...LIMITS,
      output: join(folder, `out-${made++}`),
    });
    expect(decoded.durationMs).toBe(counted.durationMs);
    expect(decoded.measurements.truncated).toBe(true);
  });
});

describe.skipIf(ffmpeg === null)(
  "pauses that a recorder writes as a frame every 400 ms (needs ffmpeg)",
  () => {
    const containers: [ending: string, encoder: string][] = [
      ["webm", "libopus"],
      ["mka", "libopus"],
      ["mp4", "libopus"],
      ["ogg", "libopus"],
      ["mkv", "pcm_s16le"],
      ["mka", "flac"],
      ["mp4", "aac"],
      ["flv", "aac"],
      ["ts", "aac"],
    ];
    test.each(containers)("%s, %s", async (ending, encoder) => {
      const path = join(folder, `pauses-${made++}.${ending}`);
      const source = "aevalsrc='if(between(t,2,12),0,0.5*sin(2*PI*if(lt(t,2),440,1000)*t))':s=48000:d=14.4";
      const pause = "asetnsamples=n=960,aselect='not(between(t,2,12))+not(mod(n,20))'";
      run("-f", "lavfi", "-i", source, "-af", pause, "-c:a", encoder, path);
      await expectTones(path, 14_400, [
        { hertz: 440, atMs: 1_000 },
        { hertz: 1_000, atMs: 12_150 },
        { hertz: 1_000, atMs: 13_900 },
      ]);
      const output = join(folder, `heard-${made++}.pcm`);
      await decodeAudio(nativeFiles, path, { output, ...LIMITS });
      // Frames that codecs fill with sound of the next one end before.
      for (const atMs of [2_300, 5_000, 8_000, 11_000]) {
        expect(strength(soundAt(output, atMs), 440)).toBeLessThan(0.01);
        expect(strength(soundAt(output, atMs), 1_000)).toBeLessThan(0.01);
      }
    });
  },
);

describe.skipIf(ffmpeg === null)("packets of Ogg that were not transmitted (needs ffmpeg)", () => {
  // Of Opus, a packet of one byte says that there is nothing; of both, a packet may have no byte, or may be missing.
  const cases: [
    codec: string,
    rateHz: number,
    what: string,
    change: (packet: Buffer) => Buffer | undefined,
  ][] = [
    ["libopus", 48_000, "one byte", (packet) => packet.subarray(0, 1)],
    ["libopus", 48_000, "no byte", () => Buffer.alloc(0)],
    ["libopus", 48_000, "missing", () => undefined],
    ["libspeex", 16_000, "no byte", () => Buffer.alloc(0)],
    ["libspeex", 16_000, "missing", () => undefined],
  ];
  test.each(cases)("%s at %d Hz: %s", async (codec, rateHz, _what, change) => {
    const path = join(folder, `packets-${made++}.ogg`);
    const source = `aevalsrc='0.5*sin(2*PI*if(lt(t,4),440,1000)*t)':s=${rateHz}:d=12`;
    run("-f", "lavfi", "-i", source, "-c:a", codec, path);
    // Packets of 20 ms: those from 2 s to 6 s.
    const sparse = changedPages(readFileSync(path), rateHz / 50, (packet, index) =>
      index >= 100 && index < 300 ? change(packet) : packet,
    );
    const { measurements } = await expectTones(write(Buffer.concat(sparse)), 12_000, [
      { hertz: 440, atMs: 1_000 },
      { hertz: 1_000, atMs: 7_000 },
    ]);
    expect(measurements.truncated).toBe(false);
  });

  test("hide no other track, and end none", async () => {
    const opus = (sound: string) => {
      const path = join(folder, `packets-${made++}.ogg`);
      run("-f", "lavfi", "-i", `aevalsrc='${sound}':s=48000:d=12`, "-c:a", "libopus", path);
      return readFileSync(path);
    };
    const first = changedPages(opus("0.5*sin(2*PI*440*t)"), 960, (packet, index) =>
      index >= 100 && index < 300 ? Buffer.alloc(0) : packet,
    );
    const second = changedPages(opus("if(lt(t,8),0,0.5*sin(2*PI*1000*t))"), 960, (packet) => packet, 2);
    const path = write(Buffer.concat(first.flatMap((page, index) => [page, second[index] ?? page])));
    const one = await countAudio(nativeFiles, path, LIMITS);
    expect(one).toMatchObject({ truncated: false, reading: { track: 0, leftOut: [1] } });
    const both = await countAudio(nativeFiles, path, { ...LIMITS, tracks: "all" });
    expect(both).toMatchObject({ channels: 2, truncated: false, reading: { mixed: [0, 1] } });
    for (const { durationMs } of [one, both]) expect(Math.abs(durationMs - 12_000)).toBeLessThan(60);
  });

  test("follow a point from which players begin", async () => {
    const path = join(folder, `packets-${made++}.ogg`);
    run("-f", "lavfi", "-i", "aevalsrc='0.5*sin(2*PI*440*t)':s=16000:d=30", "-c:a", "libspeex", path);
    // Every other second.
    const sparse = changedPages(readFileSync(path), 320, (packet, index) =>
      index % 100 < 50 ? packet : Buffer.alloc(0),
    );
    const file = write(Buffer.concat(sparse));
    const output = join(folder, `packets-${made++}.pcm`);
    const { outline } = await decodeAudio(nativeFiles, file, { output, ...LIMITS });
    expect(outline.points.length / 64).toBeGreaterThan(4);
    for (const atMs of [8_300, 12_300, 22_300, 26_300]) {
      const job = { path: file, channels: "mix" as const, lanes: 1, fromSample: 16 * atMs, samples: 4_000 };
      const limits = { signal: new AbortController().signal, timeoutMs: 60_000 };
      const sound = await playAudio(nativeFiles, { ...job, points: outline.points }, limits);
      expect(strength(new Int16Array(sound.buffer), 440)).toBeGreaterThan(0.1);
    }
  });
});

/**
 * Writes an Ogg stream again, each packet in a page of its own (RFC 3533 section 6).
 *
 * @param samples of each packet, in units of granule positions
 * @param change gets each packet of sound; undefined leaves it out
 * @param serial number of the stream
 */
function changedPages(
  bytes: Buffer,
  samples: number,
  change: (packet: Buffer, index: number) => Buffer | undefined,
  serial = 1,
): Buffer[] {
  const pages: Buffer[] = [];
  for (const [index, packet] of oggPackets(bytes).entries()) {
    // The head and the comments.
    const isSound = index >= 2;
    const kept = isSound ? change(packet, index - 2) : packet;
    const granule = isSound ? (index - 1) * samples : 0;
    if (kept !== undefined) pages.push(oggPage(kept, granule, index, serial));
  }
  return pages;
}

function oggPackets(bytes: Buffer): Buffer[] {
  const packets: Buffer[] = [];
  let parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const count = bytes[at + 26] ?? 0;
    const sizes = bytes.subarray(at + 27, at + 27 + count);
    at += 27 + count;
    for (const size of sizes) {
      parts.push(bytes.subarray(at, at + size));
      at += size;
      if (size === 255) continue;
      packets.push(Buffer.concat(parts));
      parts = [];
    }
  }
  return packets;
}

function oggPage(packet: Buffer, granule: number, sequence: number, serial: number): Buffer {
  const whole = Math.floor(packet.length / 255);
  const head = Buffer.alloc(27);
  head.write("OggS");
  head.writeUInt8(sequence === 0 ? 2 : 0, 5);
  head.writeBigInt64LE(BigInt(granule), 6);
  head.writeUInt32LE(serial, 14);
  head.writeUInt32LE(sequence, 18);
  head.writeUInt8(whole + 1, 26);
  const page = Buffer.concat([head, Buffer.alloc(whole, 255), Buffer.from([packet.length % 255]), packet]);
  page.writeUInt32LE(oggChecksum(page), 22);
  return page;
}

/** CRC-32 with the generator 0x04c11db7, and without reflection. */
function oggChecksum(page: Buffer): number {
  let sum = 0;
  for (const byte of page) {
    sum ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) sum = sum & 0x80000000 ? (sum << 1) ^ 0x04c11db7 : sum << 1;
  }
  return sum >>> 0;
}

describe.skipIf(ffmpeg === null)("a clock that begins late, or before zero (needs ffmpeg)", () => {
  const containers: [ending: string, encoder: string, more?: string[]][] = [
    ["webm", "libopus"],
    ["webm", "libopus", ["-live", "1"]],
    ["webm", "libvorbis"],
    ["mka", "flac"],
    ["m4a", "aac"],
    ["mov", "pcm_s16le"],
    ["mp4", "aac", ["-movflags", "dash+frag_keyframe+empty_moov+delay_moov", "-frag_duration", "1000000"]],
    ["ogg", "libopus"],
    ["ogg", "libvorbis"],
    ["ogg", "flac"],
    ["spx", "libspeex", ["-ar", "16000"]],
    ["flv", "aac"],
    ["wma", "wmav2"],
    ["ts", "aac"],
    ["mpg", "mp2"],
  ];
  const late = containers.map(([ending, encoder, more]) => ({ ending, encoder, startSeconds: 36_000, more }));
  // Some seconds later, the clock of MPEG begins again.
  const turning = ["ts", "mpg"].map((ending) => ({ ending, encoder: "mp2", startSeconds: 95_434, more: [] }));
  test.each([...late, ...turning])(
    "$ending, $encoder, from $startSeconds s on",
    async ({ ending, encoder, startSeconds, more }) => {
      const path = join(folder, `late-${made++}.${ending}`);
      const source = "aevalsrc='0.5*sin(2*PI*if(lt(t,6),440,1000)*t)':s=48000:d=12";
      const options = ["-c:a", encoder, ...(more ?? []), "-output_ts_offset", String(startSeconds)];
      run("-f", "lavfi", "-i", source, ...options, path);
      // wmav2 works on frames of 43 ms.
      const { durationMs, measurements } = await expectTones(path, ending === "wma" ? 12_050 : 12_000, [
        { hertz: 440, atMs: 4_000 },
        { hertz: 1_000, atMs: 8_000 },
      ]);
      expect(measurements.truncated).toBe(false);
      // What the file says of its length refuses nothing.
      expect(await countAudio(nativeFiles, path, { ...LIMITS, maxDurationMs: durationMs })).toMatchObject({
        durationMs,
        truncated: false,
      });
    },
  );

  test("a part of such a recording says that it breaks off", async () => {
    const path = join(folder, `late-${made++}.mka`);
    const sine = ["-f", "lavfi", "-i", "sine=duration=12", "-c:a", "flac", "-output_ts_offset", "36000"];
    run(...sine, path);
    const whole = readFileSync(path);
    const { measurements } = await expectTones(write(whole.subarray(0, whole.length * 0.6)), 7_100, []);
    expect(measurements.truncated).toBe(true);
  });

  test("Matroska, from three seconds before zero on", async () => {
    const path = join(folder, `negative-${made++}.mka`);
    const source = "aevalsrc='0.5*sin(2*PI*if(lt(t,6),440,1000)*t)':s=48000:d=12";
    run("-f", "lavfi", "-i", source, "-c:a", "libopus", path);
    const { measurements } = await expectTones(write(earlierBlocks(readFileSync(path), 3_000)), 12_000, [
      { hertz: 440, atMs: 4_000 },
      { hertz: 1_000, atMs: 8_000 },
    ]);
    expect(measurements.truncated).toBe(false);
  });

  test("a header that claims 50,000 s refuses nothing", async () => {
    const path = join(folder, `claim-${made++}.mka`);
    run("-f", "lavfi", "-i", "sine=duration=12", "-c:a", "flac", path);
    const bytes = readFileSync(path);
    // Duration (44 89) is a float of eight bytes, in milliseconds.
    const at = bytes.indexOf("448988", 0, "hex");
    expect(bytes.readDoubleBE(at + 3)).toBe(12_000);
    bytes.writeDoubleBE(50_000_000, at + 3);
    const counted = await countAudio(nativeFiles, write(bytes), { ...LIMITS, maxDurationMs: 60_000 });
    expect(counted).toMatchObject({ durationMs: 12_000, truncated: true });
  });
});

/** Moves the blocks of a Matroska file with one track of short packets, against the times of their clusters. */
function earlierBlocks(bytes: Buffer, byMs: number): Buffer {
  const out = Buffer.from(bytes);
  let blocks = 0;
  // SimpleBlock (A3), or Block (A1) of the last one; size in two bytes, track 1, time within the cluster in two bytes.
  for (let at = out.indexOf("1f43b675", 0, "hex"); at + 7 < out.length; at++) {
    const isBlock =
      (out[at] === 0xa3 || out[at] === 0xa1) && ((out[at + 1] ?? 0) & 0xc0) === 0x40 && out[at + 3] === 0x81;
    if (!isBlock) continue;
    out.writeInt16BE(out.readInt16BE(at + 4) - byMs, at + 4);
    at += out.readUInt16BE(at + 1) & 0x3fff;
    blocks++;
  }
  expect(blocks).toBeGreaterThan(500);
  return out;
}

/** Changes the time stamps of a Matroska file's blocks in place, in milliseconds. */
function rewriteClusterTimes(bytes: Buffer, change: (timeMs: number, index: number) => number): Buffer {
  const out = Buffer.from(bytes);
  let index = 0;
  // Cluster (1F 43 B6 75), its size in eight bytes or one, then Timestamp (E7) of one to four bytes.
  for (let at = out.indexOf("1f43b675", 0, "hex"); at >= 0; at = out.indexOf("1f43b675", at + 4, "hex")) {
    const field = out.indexOf("e7", at + 4, "hex");
    const length = (out[field + 1] ?? 0) & 0x7f;
    const time = out.readUIntBE(field + 2, length);
    out.writeUIntBE(change(time, index++) % 256 ** length, field + 2, length);
  }
  if (index < 3) throw new Error(`only ${index} clusters`);
  return out;
}

describe.skipIf(ffmpeg === null)("time stamps that jump (needs ffmpeg)", () => {
  const seconds = 12;
  let original: Buffer;
  beforeAll(() => {
    const path = join(folder, "clusters.mka");
    const source = `aevalsrc='0.5*sin(2*PI*if(lt(t,6),440,1000)*t)':s=16000:d=${seconds}`;
    run("-f", "lavfi", "-i", source, "-c:a", "flac", "-cluster_time_limit", "2000", path);
    original = readFileSync(path);
  });
  const tones = [
    { hertz: 440, atMs: 3_000 },
    { hertz: 1_000, atMs: 9_000 },
  ];

  test.each([
    [
      "backwards to the start: the sound that follows comes after the sound before",
      (timeMs: number) => timeMs % 6_000,
    ],
    ["all equal", () => 0],
    [
      "one cluster's time stamp is far ahead",
      (timeMs: number, index: number) => (index === 2 ? timeMs + 20_000 : timeMs),
    ],
  ])("%s", async (what, change) => {
    const path = write(rewriteClusterTimes(original, change));
    // Far ahead for two seconds is a gap. After it the clock runs backwards.
    const gapMs = what.startsWith("one cluster") ? 20_000 : 0;
    const shifted = tones.map(({ hertz, atMs }) => ({ hertz, atMs: atMs + (atMs > 4_000 ? gapMs : 0) }));
    await expectTones(path, seconds * 1000 + gapMs, shifted);
  });

  test("single broken time stamps change nothing", async () => {
    const path = join(folder, "jitter.mka");
    const source = `aevalsrc='0.5*sin(2*PI*if(lt(t,6),440,1000)*t)':s=48000:d=${seconds}`;
    run("-f", "lavfi", "-i", source, "-c:a", "libopus", path);
    const bytes = readFileSync(path);
    // SimpleBlock (A3), size in two bytes, track 1, time within the cluster in two bytes: every 50th is 30 s off.
    let blocks = 0;
    for (let at = 0; at + 7 < bytes.length; at++) {
      const isBlock = bytes[at] === 0xa3 && ((bytes[at + 1] ?? 0) & 0xc0) === 0x40 && bytes[at + 3] === 0x81;
      if (isBlock && blocks++ % 50 === 25) bytes.writeInt16BE(30_000, at + 4);
    }
    expect(blocks).toBeGreaterThan(500);
    await expectTones(write(bytes), seconds * 1000, tones);
  });
});
