import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isOtherKind, plainMessage, reasonOf } from "./system-error.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-system-error-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "file");
writeFileSync(file, "");

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

test.each([
  [
    () => readFileSync(join(folder, "no")),
    join(folder, "no"),
    "there is no such file or folder (ENOENT)",
    false,
  ],
  [() => readFileSync(folder), folder, "it is a folder, not a file (EISDIR)", true],
  [() => mkdirSync(file, { recursive: true }), file, "it is a file, not a folder (EEXIST)", true],
  [
    () => mkdirSync(join(file, "below"), { recursive: true }),
    join(file, "below"),
    "a part of this path is a file, not a folder (ENOTDIR)",
    true,
  ],
  [
    () => statSync(join(file, "x")),
    join(file, "x"),
    "a part of this path is a file, not a folder (ENOTDIR)",
    true,
  ],
  [() => writeFileSync(file, "", { flag: "wx" }), file, "it exists already (EEXIST)", false],
  [
    () => statSync(`/${"x".repeat(300)}`),
    `/${"x".repeat(300)}`,
    "the name is too long (ENAMETOOLONG)",
    false,
  ],
])("%#: the message says what is wrong with a path", (work, path, reason, otherKind) => {
  const error = thrownBy(work);
  expect(reasonOf(error)).toBe(reason);
  // Reading a folder fails at the reading, where the path is not known any more.
  expect([`${path}: ${reason}`, reason]).toContain(plainMessage(error));
  expect(isOtherKind(error)).toBe(otherKind);
});

test.each<[message: string, fields: object]>([
  ["plain", {}],
  ["no error of the system", { code: "ENOENT" }],
  ["of the network", { code: "ECONNREFUSED", syscall: "connect" }],
])("an error keeps its message: %s", (message, fields) => {
  const error = Object.assign(new Error(message), fields);
  expect(plainMessage(error)).toBe(message);
  expect(reasonOf(error)).toBe(message);
  expect(isOtherKind(error)).toBe(false);
});
