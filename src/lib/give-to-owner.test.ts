import { afterAll, expect, test } from "bun:test";
import {
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { giveToOwner, makeFolder } from "./give-to-owner.ts";

const USER = 65_534;
const isRoot = process.getuid?.() === 0;
const folder = mkdtempSync(join(tmpdir(), "shruti-owner-"));
afterAll(() => rmSync(folder, { recursive: true }));

test.skipIf(!isRoot)("files that root creates belong to the owner of their folder (needs root)", () => {
  const home = join(folder, "home");
  mkdirSync(home);
  chownSync(home, USER, USER);
  const file = join(home, "file");
  writeFileSync(file, "");
  giveToOwner(file);
  expect(statSync(file)).toMatchObject({ uid: USER, gid: USER });
  makeFolder(join(home, "a", "b", "c"), 0o700);
  for (const path of ["a", "a/b", "a/b/c"]) expect(statSync(join(home, path)).uid).toBe(USER);
  expect(statSync(join(home, "a/b")).mode & 0o777).toBe(0o700);
});

test.skipIf(!isRoot)(
  "of a link the owner is changed, and not of the file to which it points (needs root)",
  () => {
    const home = join(folder, "links");
    mkdirSync(home);
    chownSync(home, USER, USER);
    const target = join(folder, "of-root");
    writeFileSync(target, "");
    symlinkSync(target, join(home, "link"));
    giveToOwner(join(home, "link"));
    expect(lstatSync(join(home, "link")).uid).toBe(USER);
    expect(statSync(target).uid).toBe(0);
  },
);

test("the umask does not reduce a new folder's mode", () => {
  const before = process.umask(0o077);
  try {
    makeFolder(join(folder, "x", "y"), 0o755);
  } finally {
    process.umask(before);
  }
  for (const path of ["x", "x/y"]) expect(statSync(join(folder, path)).mode & 0o777).toBe(0o755);
});

test("an existing folder is not changed", () => {
  const path = join(folder, "there");
  mkdirSync(path, { mode: 0o755 });
  makeFolder(path, 0o700);
  expect(statSync(path).mode & 0o777).toBe(0o755);
});
