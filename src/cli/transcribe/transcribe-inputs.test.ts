import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RECORDING_EXTENSIONS } from "../../domain/recording-extensions.ts";
import { findInputs } from "./transcribe-inputs.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-inputs-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("links to folders and in circles are left out of a folder with a note, and links to files are taken", async () => {
  const calls = join(folder, "calls");
  const elsewhere = join(folder, "elsewhere");
  for (const path of [join(calls, "monday"), elsewhere]) mkdirSync(path, { recursive: true });
  for (const path of [
    join(calls, "one.wav"),
    join(calls, "monday", "two.wav"),
    join(elsewhere, "three.wav"),
  ]) {
    writeFileSync(path, "");
  }
  symlinkSync(calls, join(calls, "monday", "self"));
  symlinkSync(elsewhere, join(calls, "outside"));
  symlinkSync(elsewhere, join(calls, "outside.wav"));
  symlinkSync("circle.wav", join(calls, "circle.wav"));
  symlinkSync(join(elsewhere, "three.wav"), join(calls, "linked.wav"));
  symlinkSync("nothing.wav", join(calls, "broken.wav"));
  const notes: string[] = [];
  const inputs = await findInputs([calls], "", (line) => void notes.push(line));
  // A link that leads to nothing is reported when it is its turn.
  expect(inputs.map(({ target }) => target)).toEqual(["broken", "linked", "monday/two", "one"]);
  const left = ["circle.wav", "monday/self", "outside", "outside.wav"];
  expect(notes.sort().map((line) => line.slice(calls.length + 1, line.indexOf(" ")))).toEqual(left);
  // A link that is named itself is followed.
  const named = await findInputs([join(calls, "outside")], "", (line) => void notes.push(line));
  expect(named.map(({ target }) => target)).toEqual(["three"]);
});

/** Makes empty files in a new folder, and finds its recordings. */
async function found(name: string, files: readonly string[], pattern = "") {
  const calls = join(folder, name);
  for (const file of files) {
    mkdirSync(join(calls, file, ".."), { recursive: true });
    writeFileSync(join(calls, file), "");
  }
  const notes: string[] = [];
  const inputs = await findInputs(
    [join(calls, pattern)],
    "",
    (line) => void notes.push(line.replaceAll(calls, "CALLS")),
  );
  return { names: inputs.map((input) => input.path.slice(calls.length + 1)), notes };
}

test("a folder's recordings are those of every format that the decoder recognizes", async () => {
  const source = readFileSync(join(import.meta.dir, "../../native/build/ffmpeg.ts"), "utf8");
  const list = /const DEMUXERS = words\(([^)]*)\)/.exec(source)?.[1] ?? "";
  const formats = [...list.matchAll(/\w+/g)].map(([name]) => name);
  expect(formats.length).toBeGreaterThan(50);
  // Without container: nothing in such a file says what it is. AMR's own names are those of its rates.
  const bare = /^(?:pcm_.*|sln|g7.*|amrnb|amrwb)$/;
  expect(Object.keys(RECORDING_EXTENSIONS).sort()).toEqual(formats.filter((name) => !bare.test(name)).sort());
  const extensions = [...new Set(Object.values(RECORDING_EXTENSIONS).flat())];
  for (const extension of ["qta", "3ga", "m4b", "weba", "spx", "awb", "wv", "w64", "m2ts", "opus"])
    expect(extensions).toContain(extension);
  const files = extensions.flatMap((extension, at) => [
    `${at}.${extension}`,
    `${at}-2.${extension.toUpperCase()}`,
  ]);
  const { names, notes } = await found("all", files);
  expect(names.sort()).toEqual(files.sort());
  expect(notes).toEqual([]);
});

test("a folder says what it leaves out, in one line for each reason", async () => {
  const files = [
    "a.wav",
    "a.txt",
    "b.TXT",
    "c/d.pdf",
    "notes",
    ".e.wav",
    ".f/g.wav",
    ".DS_Store",
    "c/.h.m4a",
  ];
  expect(await found("some", files)).toEqual({
    names: ["a.wav"],
    notes: [
      "CALLS: left out as no recordings: 2 .txt, 1 without extension (notes), 1 .pdf; a file can be named itself",
      "CALLS: left out as hidden: .e.wav, .f, c/.h.m4a",
    ],
  });
  const many = Array.from({ length: 30 }, (_, at) => [`${at}.x${at}`, `n${at}`]).flat();
  const { notes } = await found("many", ["a.wav", ...many]);
  expect(notes).toHaveLength(1);
  expect(notes[0]).toMatch(
    /: 30 without extension \(n0, .*, n9 and 20 more\), 1 \.x\d+, .* and 21 more extensions;/,
  );
  const none = found("none", ["a.txt"]);
  await expect(none).rejects.toThrow("has no recordings");
});

test("a folder that cannot be read is left out with a note", async () => {
  await found("closed", ["a.wav", "locked/b.wav"]);
  chmodSync(folder, 0o755);
  chmodSync(join(folder, "closed/locked"), 0);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  const { names, notes } = await found("closed", []).finally(() => isRoot && process.seteuid?.(0));
  chmodSync(join(folder, "closed/locked"), 0o700);
  expect(names).toEqual(["a.wav"]);
  expect(notes.join()).toStartWith("CALLS/locked is left out, because it cannot be read: ");
});

test("a pattern takes links to files, and says which folders it leaves out", async () => {
  await found("pattern", ["a.wav", "day/b.wav"]);
  symlinkSync("a.wav", join(folder, "pattern/linked.wav"));
  symlinkSync("..", join(folder, "pattern/day/up"));
  const { names, notes } = await found("pattern", [], "*");
  expect(names).toEqual(["a.wav", "linked.wav"]);
  expect(notes).toEqual(["CALLS/*: left out as folders: CALLS/day; a folder can be named itself"]);
  const deep = await found("pattern", [], "**");
  expect(deep.names).toEqual(["a.wav", "day/b.wav", "linked.wav"]);
  expect(deep.notes.map((line) => line.split(" ")[0])).toEqual(["CALLS/day/up"]);
});
