import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { programEnvironment } from "../testing/rules/test-variables.ts";
import { upToDateBinary } from "./binary.ts";
import { samplePath } from "./samples.ts";

/** Tests what `shruti transcribe` takes and where it writes: folders, patterns, standard input, names, formats. */

const folder = mkdtempSync(join(tmpdir(), "shruti-files-"));
let program: string;
beforeAll(async () => {
  program = await upToDateBinary();
  mkdirSync(join(folder, "calls", "monday"), { recursive: true });
  mkdirSync(join(folder, "empty"));
  copyFileSync(samplePath("01-en"), join(folder, "calls", "call 2.wav"));
  copyFileSync(samplePath("04-en"), join(folder, "calls", "call 10.WAV"));
  copyFileSync(samplePath("01-en"), join(folder, "calls", "monday", "call 2.wav"));
  copyFileSync(samplePath("01-en"), join(folder, "calls", ".hidden.wav"));
  writeFileSync(join(folder, "calls", "notes.txt"), "no recording");
  writeFileSync(join(folder, "LICENCE"), "kept");
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true }));

async function transcribe(args: readonly string[], input?: Uint8Array<ArrayBuffer>) {
  const child = Bun.spawn([program, "transcribe", "--language", "en", ...args], {
    cwd: folder,
    env: {
      XDG_CACHE_HOME: join(folder, "cache"),
      HOME: folder,
      SHRUTI_STORAGE_DATA_DIR: join(folder, "data"),
      SHRUTI_MODELS_DEFAULT: "demo",
    },
    stdin: input ?? "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { status: await child.exited, out, err };
}

const ALL = ["calls/call 2.wav", "calls/call 10.WAV", "calls/monday/call 2.wav"];
const linesOf = (out: string) =>
  out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { file: string; text?: string; error?: string });

describe("what is transcribed", () => {
  test("everything below a folder, in the order of the names, with a heading for each", async () => {
    const { status, out } = await transcribe(["calls"]);
    expect(status).toBe(0);
    expect([...out.matchAll(/^==> (.+) <==$/gm)].map((match) => match[1])).toEqual(ALL);
    expect(out).toContain("==> calls/call 2.wav <==\neighty three thousand two hundred\n");
  }, 60_000);

  test("what a quoted pattern matches, and each recording once", async () => {
    const { status, out } = await transcribe(["calls/*.wav", "calls/call 2.wav", "--format", "jsonl"]);
    expect(status).toBe(0);
    expect(linesOf(out).map(({ file }) => file)).toEqual(["calls/call 2.wav"]);
  }, 60_000);

  test("standard input, as its file", async () => {
    const bytes = new Uint8Array(readFileSync(samplePath("01-en")));
    const [piped, named] = [await transcribe(["-"], bytes), await transcribe([samplePath("01-en")])];
    expect(piped).toMatchObject({ status: 0, out: named.out });
    expect(named.out).not.toContain("==>");
    expect((await transcribe(["-"], new Uint8Array())).err).toContain("standard input is empty");
  }, 60_000);

  test.each([
    ["an empty folder", ["empty"], 4, "has no recordings"],
    ["a pattern without files", ["calls/*.ogg"], 4, "no file matches calls/*.ogg"],
    ["standard input twice", ["-", "-"], 2, "can be read once"],
    ["several subtitles on standard output", ["calls", "--format", "srt"], 2, "give --output DIR"],
    ["several recordings for one file", ["calls", "--output", "all.srt"], 2, "all.srt is one file"],
    [
      "two files of one name",
      ["calls/call 2.wav", "calls/monday/call 2.wav", "--output", "x"],
      2,
      "would both be",
    ],
    ["a file in the place of a folder", ["calls", "--output", "calls/notes.txt/x"], 2, "not a folder"],
    ["a folder below a file", ["calls/call 2.wav", "--output", "calls/notes.txt/x.srt"], 2, "not a folder"],
    ["a file without a format's extension", ["calls", "--output", "LICENCE"], 2, "LICENCE is a file"],
    ["a device", ["/dev/null"], 1, "it is a device, not a regular file"],
    ["an unknown format", ["calls", "--format", "doc"], 2, "there is no format doc"],
    ["--skip-existing without files", ["calls", "--skip-existing"], 2, "needs --output"],
  ])("refuses %s", async (_, args, status, message) => {
    const refused = await transcribe(args);
    expect(refused).toMatchObject({ status, out: "" });
    expect(refused.err).toContain(message);
    expect(existsSync(join(folder, "x"))).toBe(false);
  });
});

describe("where it is written", () => {
  test("JSON of several recordings is a line for each, also of one that fails", async () => {
    const { status, out, err } = await transcribe([
      "calls/call 2.wav",
      "calls/notes.txt",
      "--format",
      "json",
    ]);
    expect(status).toBe(1);
    const [good, bad] = linesOf(out);
    expect(good).toMatchObject({ file: "calls/call 2.wav", text: expect.stringContaining(" ") });
    expect(bad).toEqual({ file: "calls/notes.txt", error: expect.any(String) });
    expect(err).toContain("error: calls/notes.txt: ");
    expect(err).toContain("1 of 2 files could not be transcribed in full");
  }, 60_000);

  test("a folder gets a file for each below it, and --skip-existing leaves out what is there", async () => {
    const first = await transcribe(["calls", "--output", "words", "--format", "srt", "--jobs", "3"]);
    expect(first.status).toBe(0);
    const files = () => readdirSync(join(folder, "words"), { recursive: true, encoding: "utf8" }).sort();
    expect(files()).toEqual(["call 10.srt", "call 2.srt", "monday", "monday/call 2.srt"]);
    writeFileSync(join(folder, "words", "call 2.srt"), "corrected");
    rmSync(join(folder, "words", "call 10.srt"));
    const again = await transcribe(["calls", "--output", "words", "--format", "srt", "--skip-existing"]);
    expect(again).toMatchObject({ status: 0, err: expect.stringContaining("2 of 3 are there already.") });
    expect(readFileSync(join(folder, "words", "call 2.srt"), "utf8")).toBe("corrected");
    expect(files()).toEqual(["call 10.srt", "call 2.srt", "monday", "monday/call 2.srt"]);
  }, 60_000);

  test("a file name chooses the format by its extension", async () => {
    const { status } = await transcribe(["calls/call 2.wav", "--output", "one/call.vtt"]);
    expect(status).toBe(0);
    expect(readFileSync(join(folder, "one", "call.vtt"), "utf8")).toStartWith("WEBVTT");
  }, 60_000);
});

test("English that is read as Hindi is not silent: a warning says what to do", async () => {
  const { status, err } = await transcribe(["--language", "hi", "calls/call 2.wav"]);
  expect(status).toBe(0);
  expect(err).toMatch(/^warning: calls\/call 2\.wav: .+check --language/m);
}, 60_000);

test.skipIf(process.getuid?.() !== 0)(
  "an ordinary user can transcribe beside a server's config that this user may not read (needs root)",
  async () => {
    const own = mkdtempSync(join(tmpdir(), "shruti-user-"));
    try {
      chmodSync(own, 0o777);
      writeFileSync(join(own, "shruti.toml"), "[wrong]\n", { mode: 0o600 });
      copyFileSync(samplePath("01-en"), join(own, "call.wav"));
      const child = Bun.spawn(
        [
          "setpriv",
          "--reuid=65534",
          "--regid=65534",
          "--clear-groups",
          program,
          "transcribe",
          "--model",
          "demo",
          "--language",
          "en",
          "call.wav",
        ],
        {
          cwd: own,
          env: { ...programEnvironment(), XDG_CACHE_HOME: own, HOME: own },
          stdout: "pipe",
          stderr: "pipe",
        },
      );
      const err = await new Response(child.stderr).text();
      expect(await new Response(child.stdout).text(), err).toBe("eighty three thousand two hundred\n");
      expect(err).toContain("./shruti.toml cannot be read by this user, so it is not used.");
    } finally {
      rmSync(own, { recursive: true });
    }
  },
  60_000,
);

test("the order of several recordings does not depend on which ends first", async () => {
  copyFileSync(samplePath("12-en-long"), join(folder, "a-long.flac"));
  const { out } = await transcribe(["a-long.flac", "calls/call 2.wav", "--format", "jsonl", "--jobs", "2"]);
  expect(linesOf(out).map(({ file }) => file)).toEqual(["a-long.flac", "calls/call 2.wav"]);
}, 60_000);
