import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, decodeAudio } from "./decode.ts";

/** Files of QCELP and EVRC, the codecs of CDMA phones (RFC 3625), made by hand. Each frame has its 20 ms. */

const LIMITS = { maxDurationMs: 60_000, timeoutMs: 60_000 };
let folder: string;
let nativeFiles: NativeFiles;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-qcp-"));
  nativeFiles = await extractNativeFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** `sizes`: bytes behind the byte of each rate, from 0 (blank) to 4 (full). */
type Codec = { name: string; id: string; sizes: number[] };
const CODECS: Codec[] = [
  { name: "qcelp", id: "416d7f5e15b1d011ba9100805fb4b97e", sizes: [0, 3, 7, 16, 34] },
  { name: "evrc", id: "8dd489e67690b54691ef736a5100ceb4", sizes: [0, 2, 5, 10, 22] },
];
const FULL = 4;
const KINDS = [
  { kind: "blank", rate: 0 },
  { kind: "of an eighth of the rate", rate: 1 },
  { kind: "lost", rate: 14 },
];

function chunk(id: string, content: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.write(id, 0, "latin1");
  head.writeUInt32LE(content.length, 4);
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
}

/** Writes a file of frames of these rates. */
function recording({ name, id, sizes }: Codec, rates: number[]): string {
  const format = Buffer.alloc(150);
  format.writeUInt8(1, 0);
  Buffer.from(id, "hex").copy(format, 2);
  format.writeUInt16LE(1, 18);
  format.write(name, 20, "latin1");
  for (const [index, value] of [13_000, 35, 160, 8_000, 16].entries())
    format.writeUInt16LE(value, 100 + 2 * index);
  format.writeUInt32LE(sizes.length, 110);
  for (const [rate, size] of sizes.entries()) format.writeUInt16LE(size | (rate << 8), 114 + 2 * rate);
  const isVariable = Buffer.alloc(8);
  isVariable.writeUInt32LE(1, 0);
  // Content that is the same in every run, and different in each frame.
  const frames = rates.map((rate, index) =>
    Buffer.from([
      rate,
      ...Array.from({ length: sizes[rate] ?? 0 }, (_, byte) => (index * 89 + byte * 57) % 251),
    ]),
  );
  const chunks = [chunk("fmt ", format), chunk("vrat", isVariable), chunk("data", Buffer.concat(frames))];
  const content = Buffer.concat([Buffer.from("QLCM"), ...chunks]);
  const path = join(folder, `made-${made++}.qcp`);
  writeFileSync(path, chunk("RIFF", content));
  return path;
}

describe.each(CODECS)("$name", (codec) => {
  test.each(KINDS)("frames that are $kind", async ({ rate }) => {
    const rates = Array.from({ length: 250 }, (_, index) => (index >= 100 && index < 200 ? rate : FULL));
    const path = recording(codec, rates);
    const output = join(folder, `out-${made++}.pcm`);
    const { durationMs, measurements } = await decodeAudio(nativeFiles, path, { output, ...LIMITS });
    expect({ durationMs, truncated: measurements.truncated }).toEqual({
      durationMs: 5_000,
      truncated: false,
    });
    expect((await countAudio(nativeFiles, path, LIMITS)).durationMs).toBe(5_000);
    const { buffer, byteOffset, length } = readFileSync(output);
    const samples = new Int16Array(buffer, byteOffset, length / 2);
    const loudest = (startMs: number, endMs: number) =>
      samples
        .subarray(startMs * 16, endMs * 16)
        .reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    expect(loudest(200, 1_900)).toBeGreaterThan(100);
    expect(loudest(4_100, 4_900)).toBeGreaterThan(100);
    if (rate !== 1) expect(loudest(2_010, 3_990)).toBe(0);
  });
});
