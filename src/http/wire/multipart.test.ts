import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type ReceivedForm, receiveForm } from "./multipart.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-form-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type FormPart = { head: string; bytes: number };

const FILE = 'Content-Disposition: form-data; name="file"; filename="a.wav"';
const LANGUAGE = 'Content-Disposition: form-data; name="language"';
const WITHIN_MS = 5_000;
let count = 0;

/** Receives a form of these parts that arrives in pieces of this many bytes. */
async function receive(parts: readonly FormPart[], pieceBytes: number): Promise<ReceivedForm> {
  const chunks = parts.flatMap(({ head, bytes }) => [
    Buffer.from(`--xyz\r\n${head}\r\n\r\n`),
    Buffer.alloc(bytes, "a"),
    Buffer.from("\r\n"),
  ]);
  const body = Buffer.concat([...chunks, Buffer.from("--xyz--\r\n")]);
  let at = 0;
  const request = new Request("http://shruti.test/", {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=xyz" },
    body: new ReadableStream({
      pull(controller) {
        if (at >= body.length) return controller.close();
        controller.enqueue(new Uint8Array(body.subarray(at, at + pieceBytes)));
        at += pieceBytes;
      },
    }),
  });
  return receiveForm(request, {
    fileField: "file",
    path: join(folder, String(count++)),
    maxFileBytes: 10_000_000,
    signal: AbortSignal.timeout(WITHIN_MS),
    onPiece: (_bytes, store) => store(),
  });
}

/** Parts that the parser skips without an error. */
const SKIPPED: Record<string, string> = {
  "without Content-Disposition": "X-Other: value",
  "of another disposition": 'Content-Disposition: attachment; name="extra"',
  "with a line break in the file name": 'Content-Disposition: form-data; name="file"; filename="a\nb"',
  "with an encoded line break in the file name":
    "Content-Disposition: form-data; name=\"file\"; filename*=utf-8''a%0Ab",
  "with a line break in the name": 'Content-Disposition: form-data; name="a\nb"',
  "with too long a head": `X-Long: ${"x".repeat(10_000)}\r\n${LANGUAGE}`,
  "with too many fields in its head": `${"X-Many: x\r\n".repeat(30)}${LANGUAGE}`,
};

describe("parts that a form may not have", () => {
  const sizes = [0, 1, 65_535, 65_536, 84_000, 300_000];
  test.each(Object.entries(SKIPPED))("%s: the form is refused, and read no further", async (_title, head) => {
    for (const bytes of sizes) {
      for (const pieceBytes of [1_000, 65_536, 1_000_000]) {
        const skipped = { head, bytes };
        const file = { head: FILE, bytes: 1_000 };
        for (const parts of [[skipped, file], [file, skipped], [skipped]]) {
          const form = await receive(parts, pieceBytes);
          expect(form.fault?.name).toBe("body");
          expect(form.isCutOff).toBe(false);
          expect(form.names).toEqual(parts[0] === file ? ["file"] : []);
        }
      }
    }
  });

  test("too many of them, the last ones large", async () => {
    const fields = Array.from({ length: 64 }, (_, index) => ({
      head: `Content-Disposition: form-data; name="f${index}"`,
      bytes: 2,
    }));
    const form = await receive(
      [...fields, { head: FILE, bytes: 84_000 }, { head: FILE, bytes: 84_000 }],
      1e6,
    );
    expect(form.fault).toEqual({ name: "body", message: "The form has more than 64 parts." });
  });
});

describe("the format of a file without a header", () => {
  const named = (name: string) => `Content-Disposition: form-data; name="file"; filename="${name}"`;
  test.each([
    ["by its name", named("call.alaw"), { demuxer: "alaw", rateHz: 8_000, channels: 1 }],
    ["by its path", named("C:\\\\calls\\\\call.sln16"), { demuxer: "s16le", rateHz: 16_000, channels: 1 }],
    [
      "by its media type, with parameters",
      `${named("blob")}\r\nContent-Type: audio/L16;rate=44100; channels=2`,
      { demuxer: "s16be", rateHz: 44_100, channels: 2 },
    ],
    [
      "by its media type rather than its name",
      `content-type: audio/PCMU\r\n${named("call.alaw")}`,
      { demuxer: "mulaw", rateHz: 8_000, channels: 1 },
    ],
    [
      "by its name where the media type says nothing",
      `${named("a.ul")}\r\nContent-Type: application/octet-stream`,
      {
        ...{ demuxer: "mulaw", rateHz: 8_000, channels: 1 },
      },
    ],
    ["nothing names it", named("call.wav"), undefined],
  ])("%s", async (_title, head, format) => {
    // The type of another part is not that of the file.
    const before = { head: `${LANGUAGE}\r\nContent-Type: audio/G722`, bytes: 2 };
    for (const parts of [
      [before, { head, bytes: 100 }],
      [{ head, bytes: 100 }, before],
    ]) {
      expect((await receive(parts, 50)).file?.format).toEqual(format as never);
    }
  });
});

test("forms of any parts in any pieces are read up to the first part that is skipped, or to the end", async () => {
  const heads = [FILE, LANGUAGE, ...Object.values(SKIPPED)];
  const size = fc.oneof(fc.nat({ max: 200 }), fc.integer({ min: 15_000, max: 140_000 }));
  const part = fc.record({ head: fc.constantFrom(...heads), bytes: size });
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 200, max: 600_000 }),
      async (parts, pieceBytes) => {
        const form = await receive(parts, pieceBytes);
        const skipped = parts.findIndex(({ head }) => head !== FILE && head !== LANGUAGE);
        const read = skipped < 0 ? parts : parts.slice(0, skipped);
        expect(form.names.length).toBe(read.length);
        if (skipped >= 0) expect(form.fault).toBeDefined();
        const file = read.find(({ head }) => head === FILE);
        // Where the form is broken, what had not yet reached the disk is thrown away.
        if (skipped < 0) expect(form.file?.bytes).toBe(file?.bytes as number);
        else expect(form.file?.bytes ?? 0).toBeLessThanOrEqual(file?.bytes ?? 0);
      },
    ),
    { numRuns: 150 },
  );
}, 60_000);
