import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sampleSound } from "../../e2e/sounds.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { endTags, evenBytes, longTag } from "../../testing/makers/containers.ts";
import { countAudio, decodeAudio } from "./decode.ts";

/**
 * Uncompressed files, made byte by byte: samples in larger containers, in both orders of bytes, and whatever can be behind
 * the sound.
 */

const RATE_HZ = 16_000;
const LIMITS = { maxDurationMs: 60_000, timeoutMs: 30_000 };
let folder: string;
let nativeFiles: NativeFiles;
/** Three seconds of speech as numbers between -1 and 1. */
let speech: Float64Array;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-samples-"));
  nativeFiles = await extractNativeFiles(folder);
  const sound = sampleSound("04-en").channels[0] as Float32Array;
  // With the lowest of 24 bits, which a recording of 16 bits does not have.
  speech = Float64Array.from(
    sound.subarray(RATE_HZ / 2, RATE_HZ * 3.5),
    (value, n) => value + ((n * 37) % 101) / 2 ** 23,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(bytes: Uint8Array): string {
  const path = join(folder, "recording");
  writeFileSync(path, bytes);
  return path;
}

type Order = "LE" | "BE";
/** How a sample is written: bytes, and the bits of them that are used, from the highest or from the lowest one on. */
type Form = { bytes: number; bits: number; order: Order; kind?: "float" | "low" | "unsigned" };

/** Writes samples. */
function samplesOf({ bytes, bits, order, kind }: Form): Buffer {
  const out = Buffer.alloc(speech.length * bytes);
  for (const [index, value] of speech.entries()) {
    const at = index * bytes;
    if (kind === "float") {
      if (bytes === 8) order === "LE" ? out.writeDoubleLE(value, at) : out.writeDoubleBE(value, at);
      else order === "LE" ? out.writeFloatLE(value, at) : out.writeFloatBE(value, at);
      continue;
    }
    const used = Math.max(
      -(2 ** (bits - 1)),
      Math.min(2 ** (bits - 1) - 1, Math.round(value * 2 ** (bits - 1))),
    );
    const number =
      kind === "unsigned" ? used + 2 ** (bits - 1) : used * (kind === "low" ? 1 : 2 ** (8 * bytes - bits));
    if (kind === "unsigned") out.writeUInt8(number, at);
    else if (order === "LE") out.writeIntLE(number, at, bytes);
    else out.writeIntBE(number, at, bytes);
  }
  return out;
}

class Writer {
  readonly parts: Buffer[] = [];
  constructor(readonly order: Order) {}
  text(value: string): this {
    this.parts.push(Buffer.from(value, "latin1"));
    return this;
  }
  number(value: number | bigint, bytes: 1 | 2 | 4 | 8): this {
    const part = Buffer.alloc(bytes);
    const size = bytes * 8;
    const whole = BigInt.asUintN(size, BigInt(value));
    for (let index = 0; index < bytes; index++) {
      const place = this.order === "LE" ? index : bytes - 1 - index;
      part[place] = Number((whole >> BigInt(8 * index)) & 255n);
    }
    this.parts.push(part);
    return this;
  }
  done(...more: Uint8Array[]): Buffer {
    return Buffer.concat([...this.parts, ...more]);
  }
}

const GUID_END = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71";

/** Makes the description of a WAV file. `isExtensible`: WAVE_FORMAT_EXTENSIBLE, where the bits in use have a field. */
function wavFormat(form: Form, isExtensible: boolean, tag = form.kind === "float" ? 3 : 1): Buffer {
  const bits = isExtensible ? form.bytes * 8 : form.bits;
  const format = new Writer(form.order).number(isExtensible ? 0xfffe : tag, 2).number(1, 2);
  format
    .number(RATE_HZ, 4)
    .number(RATE_HZ * form.bytes, 4)
    .number(form.bytes, 2)
    .number(bits, 2);
  if (isExtensible) format.number(22, 2).number(form.bits, 2).number(4, 4).number(tag, 2).text(GUID_END);
  return format.done();
}

function wav(form: Form, isExtensible: boolean): Buffer {
  const data = samplesOf(form);
  const format = wavFormat(form, isExtensible);
  const head = new Writer(form.order).text(form.order === "LE" ? "RIFF" : "RIFX");
  head
    .number(20 + format.length + data.length, 4)
    .text("WAVEfmt ")
    .number(format.length, 4);
  return Buffer.concat([
    head.done(format),
    new Writer(form.order).text("data").number(data.length, 4).done(data),
  ]);
}

const W64_END = "\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a";

function wave64(form: Form): Buffer {
  const data = samplesOf(form);
  const format = wavFormat(form, true);
  const head = new Writer("LE").text("riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00");
  head.number(40 + 24 + format.length + 24 + data.length, 8).text(`wave${W64_END}fmt ${W64_END}`);
  head.number(24 + format.length, 8).parts.push(format);
  return head
    .text(`data${W64_END}`)
    .number(24 + data.length, 8)
    .done(data);
}

function aiff(form: Form, kind?: string): Buffer {
  const data = samplesOf(form);
  const common = new Writer("BE").number(1, 2).number(speech.length, 4).number(form.bits, 2);
  // 16,000 as a number of 80 bits.
  common.text("\x40\x0c\xfa\x00\x00\x00\x00\x00\x00\x00").text(kind === undefined ? "" : `${kind}\x00\x00`);
  const description = common.done();
  const body = new Writer("BE")
    .text(kind === undefined ? "AIFF" : "AIFC")
    .text("COMM")
    .number(description.length, 4);
  body.parts.push(description);
  body
    .text("SSND")
    .number(8 + data.length, 4)
    .number(0, 8)
    .parts.push(data);
  const bytes = body.done();
  return new Writer("BE").text("FORM").number(bytes.length, 4).done(bytes);
}

function au(form: Form, encoding: number): Buffer {
  const data = samplesOf(form);
  const head = new Writer(form.order).text(form.order === "BE" ? ".snd" : "dns.").number(24, 4);
  return head.number(data.length, 4).number(encoding, 4).number(RATE_HZ, 4).number(1, 4).done(data);
}

function caf(form: Form): Buffer {
  const data = samplesOf(form);
  const flags = (form.kind === "float" ? 1 : 0) + (form.order === "LE" ? 2 : 0);
  const rate = Buffer.alloc(8);
  rate.writeDoubleBE(RATE_HZ);
  const head = new Writer("BE").text("caff").number(1, 2).number(0, 2).text("desc").number(32, 8);
  head.parts.push(rate);
  head.text("lpcm").number(flags, 4).number(form.bytes, 4).number(1, 4).number(1, 4).number(form.bits, 4);
  return head
    .text("data")
    .number(4 + data.length, 8)
    .number(0, 4)
    .done(data);
}

const le = (bytes: number, bits: number, kind?: Form["kind"]): Form => ({
  bytes,
  bits,
  order: "LE",
  ...(kind && { kind }),
});
const be = (bytes: number, bits: number, kind?: Form["kind"]): Form => ({
  bytes,
  bits,
  order: "BE",
  ...(kind && { kind }),
});

describe("samples", () => {
  test.each<[string, () => Buffer]>([
    ["WAV, 24 bits in 32", () => wav(le(4, 24), true)],
    ["WAV, 20 bits in 32", () => wav(le(4, 20), true)],
    ["WAV, 32 bits in 32", () => wav(le(4, 32), true)],
    ["WAV, 20 bits in 24", () => wav(le(3, 20), true)],
    ["WAV, 18 bits in 24", () => wav(le(3, 18), true)],
    ["WAV, 12 bits in 16", () => wav(le(2, 12), true)],
    ["WAV, 8 bits in 16", () => wav(le(2, 8), true)],
    ["WAV, 24 bits in 32, without an extensible description", () => wav(le(4, 24), false)],
    ["WAV, the lowest 24 bits in 32, as ALSA's recorders write it", () => wav(le(4, 24, "low"), false)],
    ["WAV, the lowest 24 bits in 32, extensible", () => wav(le(4, 24, "low"), true)],
    ["WAV, 32-bit floats, extensible", () => wav(le(4, 32, "float"), true)],
    ["WAV, 64-bit floats", () => wav(le(8, 64, "float"), false)],
    ["RIFX, 16 bits", () => wav(be(2, 16), false)],
    ["RIFX, 8 bits", () => wav(be(1, 8, "unsigned"), false)],
    ["RIFX, 24 bits, extensible", () => wav(be(3, 24), true)],
    ["RIFX, 24 bits in 32", () => wav(be(4, 24), true)],
    ["RIFX, the lowest 24 bits in 32", () => wav(be(4, 24, "low"), true)],
    ["RIFX, 32-bit floats", () => wav(be(4, 32, "float"), false)],
    ["Wave64, 24 bits in 32", () => wave64(le(4, 24))],
    ["AIFF, 20 bits in 24", () => aiff(be(3, 20))],
    ["AIFF, 12 bits in 16", () => aiff(be(2, 12))],
    ["AIFF-C, sowt, 16 bits", () => aiff(le(2, 16), "sowt")],
    ["AIFF-C, sowt, 24 bits", () => aiff(le(3, 24), "sowt")],
    ["AIFF-C, twos", () => aiff(be(2, 16), "twos")],
    ["AIFF-C, in24", () => aiff(be(3, 24), "in24")],
    ["AIFF-C, in32", () => aiff(be(4, 32), "in32")],
    ["AIFF-C, fl32", () => aiff(be(4, 32, "float"), "fl32")],
    ["AU, 24 bits", () => au(be(3, 24), 4)],
    ["AU, 32-bit floats", () => au(be(4, 32, "float"), 6)],
    ["AU, little-endian", () => au(le(2, 16), 3)],
    ["CAF, 24 bits in 32, little-endian", () => caf(le(4, 24))],
    ["CAF, 20 bits in 24, big-endian", () => caf(be(3, 20))],
    ["CAF, 32-bit floats", () => caf(le(4, 32, "float"))],
  ])("%s", async (name, make) => {
    const output = join(folder, "out.pcm");
    const decoded = await decodeAudio(nativeFiles, write(make()), { output, ...LIMITS });
    const heard = new Int16Array(new Uint8Array(readFileSync(output)).buffer);
    // Where numbers are read one byte later, the last one is not whole.
    expect(heard.length).toBe(speech.length - (name === "RIFX, the lowest 24 bits in 32" ? 1 : 0));
    expect(decoded.measurements.truncated).toBe(false);
    const step = /[ ,]8 bits/.test(name) ? 2 ** 8 : 2 ** 4;
    const worst = heard.reduce(
      (most, value, n) => Math.max(most, Math.abs(value - (speech[n] ?? 0) * 32_768)),
      0,
    );
    expect(worst).toBeLessThanOrEqual(step / 2 + 1);
  });
});

/** µ-law of a number between -1 and 1 (ITU-T G.711), near enough for what is compared here. */
function muLawOf(value: number): number {
  const size = Math.min(32_635, Math.abs(Math.round(value * 32_768))) + 132;
  const exponent = Math.floor(Math.log2(size)) - 7;
  return ~((value < 0 ? 0x80 : 0) | (exponent << 4) | ((size >> (exponent + 3)) & 15)) & 0xff;
}

const chunk = (name: string, bytes: number): Buffer =>
  Buffer.concat([new Writer("LE").text(name).number(bytes, 4).done(), evenBytes(bytes)]);

/** What a WAV's header counts of its sound, the length that it names for the file, and what follows the sound. */
type Behind = { counted?: number; isOdd?: boolean; riffBytes?: number; more?: Uint8Array };

describe("behind the sound of a WAV", () => {
  /** A WAV of µ-law or 16 bits whose header names some of its bytes; `more` is behind them. */
  function file(
    kind: "mulaw" | "s16",
    { counted = 1, isOdd = false, riffBytes = -1, more = new Uint8Array() }: Behind,
  ): Buffer {
    const form = le(2, 16);
    const sound = kind === "s16" ? samplesOf(form) : Buffer.from(Uint8Array.from(speech, muLawOf));
    const data = isOdd ? sound.subarray(0, -1) : sound;
    const claimed = Math.floor(data.length * counted);
    const format = kind === "s16" ? wavFormat(form, false) : wavFormat(le(1, 8), false, 7);
    const head = new Writer("LE")
      .text("RIFF")
      .number(riffBytes < 0 ? 20 + format.length + claimed : riffBytes, 4);
    head.text("WAVEfmt ").number(format.length, 4).parts.push(format);
    return head.text("data").number(claimed, 4).done(data, more);
  }
  const text = Buffer.from('<?xml version="1.0"?><take>second floor, room 4</take>\n'.repeat(600));

  test.each<[string, Parameters<typeof file>]>([
    ["nothing", ["s16", {}]],
    ["an ID3v2 tag", ["s16", { more: longTag() }]],
    ["an APE tag and an ID3v1 tag", ["s16", { more: endTags() }]],
    ["an ID3v2 tag, and the file's length counts it", ["s16", { more: longTag(), riffBytes: 129_036 }]],
    [
      "LIST behind odd data, with its pad byte",
      ["mulaw", { isOdd: true, more: Buffer.concat([Buffer.alloc(1), chunk("LIST", 23_000)]) }],
    ],
    ["LIST behind odd data, without a pad byte", ["mulaw", { isOdd: true, more: chunk("LIST", 23_000) }]],
    ["bext behind odd data, without a pad byte", ["mulaw", { isOdd: true, more: chunk("bext", 23_000) }]],
    ["iXML behind odd data, without a pad byte", ["mulaw", { isOdd: true, more: chunk("iXML", 23_001) }]],
    ["a chunk of a name of its own", ["s16", { more: chunk("xyz1", 30_000) }]],
    ["a chunk that breaks off", ["s16", { more: chunk("LIST", 30_000).subarray(0, 20_000) }]],
    [
      "a chunk, and bytes without a name",
      ["s16", { more: Buffer.concat([chunk("LIST", 100), evenBytes(20_000)]) }],
    ],
    ["bytes without a name, as even as encrypted ones", ["s16", { more: evenBytes(40_000) }]],
    ["the same behind µ-law", ["mulaw", { more: evenBytes(40_000) }]],
    ["text", ["s16", { more: text }]],
    ["text behind µ-law", ["mulaw", { more: text }]],
    ["zeros", ["s16", { more: Buffer.alloc(60_000) }]],
    ["zeros, and a chunk", ["s16", { more: Buffer.concat([Buffer.alloc(30_000), chunk("LIST", 9_000)]) }]],
    ["a length of 0 in both places", ["s16", { counted: 0, riffBytes: 0 }]],
    ["a length of 0, and that of the file is right", ["s16", { counted: 0, riffBytes: 96_036 }]],
    ["a length of the past in both places", ["s16", { counted: 0.4 }]],
    ["a length of the past, and none of the file", ["s16", { counted: 0.4, riffBytes: 0 }]],
    ["a length of the past, and that of the file is right", ["s16", { counted: 0.4, riffBytes: 96_036 }]],
    ["a length of the past behind µ-law", ["mulaw", { counted: 0.4 }]],
  ])("%s", async (_name, arguments_) => {
    const { durationMs, truncated } = await countAudio(nativeFiles, write(file(...arguments_)), LIMITS);
    expect({ durationMs, truncated }).toEqual({ durationMs: 3_000, truncated: false });
  });

  test("a file that holds chunks and no sound is not a recording", async () => {
    const bytes = file("s16", { counted: 0 });
    const empty = Buffer.concat([bytes.subarray(0, 44), chunk("LIST", 9_000)]);
    await expect(countAudio(nativeFiles, write(empty), LIMITS)).rejects.toMatchObject({
      reason: "undecodable",
    });
  });
});
