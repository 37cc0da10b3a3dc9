import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import {
  appendLines,
  appendLinesNow,
  createFile,
  isUnfinishedName,
  moveDurably,
  sameUnfinishedPath,
  syncPath,
  syncPathNow,
  unfinishedPath,
  writeDurably,
  writeDurablyNow,
  writeNewFileNow,
} from "./durable-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-durable-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a file is written completely, with its mode, and replaces an earlier one", async () => {
  const path = join(folder, "model.toml");
  await writeDurably(path, "one", 0o640);
  await writeDurably(path, new TextEncoder().encode("two"), 0o604);
  expect(readFileSync(path, "utf8")).toBe("two");
  expect(statSync(path).mode & 0o777).toBe(0o604);
  writeDurablyNow(path, "three", 0o600);
  expect(readFileSync(path, "utf8")).toBe("three");
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["model.toml"]);
});

test("a file that cannot be moved into place leaves the folder unchanged", async () => {
  const path = join(folder, "taken");
  mkdirSync(join(path, "inside"), { recursive: true });
  const refused = await writeDurably(path, "text", 0o600).catch((error: NodeJS.ErrnoException) => error.code);
  expect(["EISDIR", "ENOTEMPTY", "EEXIST"]).toContain(refused ?? "nothing was thrown");
  expect(() => writeDurablyNow(path, "text", 0o600)).toThrow();
  expect(readdirSync(folder)).toEqual(["taken"]);
});

test("a new file never replaces an existing one", async () => {
  const path = join(folder, "config");
  writeNewFileNow(path, "first", 0o600);
  expect(() => writeNewFileNow(path, "second", 0o600)).toThrow("EEXIST");
  await expect(createFile(path, 0o600)).rejects.toThrow("EEXIST");
  expect(readFileSync(path, "utf8")).toBe("first");
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test.each([
  ["appendLines", appendLines],
  ["appendLinesNow", async (path: string, lines: string[]) => appendLinesNow(path, lines)],
])("%s adds lines after a line that a crash has cut, and not through a link", async (_, append) => {
  const path = join(folder, "lines");
  await append(path, []);
  expect(readdirSync(folder)).toEqual([]);
  await append(path, ["one", "two"]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  writeFileSync(path, "\none\ntw");
  await append(path, ["three"]);
  expect(readFileSync(path, "utf8").split("\n")).toEqual(["", "one", "tw", "three", ""]);
  symlinkSync(path, join(folder, "link"));
  await expect(append(join(folder, "link"), ["four"])).rejects.toThrow("ELOOP");
  expect(readFileSync(path, "utf8")).not.toContain("four");
});

test("files are moved, and files and folders are synced to the disk", async () => {
  const [from, to] = [join(folder, "from"), join(folder, "to")];
  writeFileSync(from, "bytes");
  await moveDurably(from, to);
  expect(readdirSync(folder)).toEqual(["to"]);
  for (const path of [to, folder]) {
    await syncPath(path);
    syncPathNow(path);
  }
  await expect(syncPath(from)).rejects.toThrow("ENOENT");
  expect(() => syncPathNow(from)).toThrow("ENOENT");
});

test("what a killed process has left of a file is removed when the file is written again", async () => {
  const path = join(folder, "call.json");
  const left = await sameUnfinishedPath(path);
  expect(isUnfinishedName(basename(left))).toBe(true);
  writeFileSync(left, "hal");
  await writeDurably(path, "half", 0o600, await sameUnfinishedPath(path));
  expect(readdirSync(folder)).toEqual(["call.json"]);
  expect(readFileSync(path, "utf8")).toBe("half");
  expect(await sameUnfinishedPath(join(folder, "call.txt"))).not.toBe(left);
});

test("names of unfinished files are recognized, others are not", () => {
  const name = unfinishedPath(folder).slice(folder.length + 1);
  expect(isUnfinishedName(name)).toBe(true);
  for (const other of [".unfinished", `a${name}`, `${name}.damaged`, "model.toml"]) {
    expect(isUnfinishedName(other)).toBe(false);
  }
});
