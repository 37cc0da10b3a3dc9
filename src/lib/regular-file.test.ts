import { afterAll, describe, expect, test } from "bun:test";
import { closeSync, mkdtempSync, readSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRegularFile, RegularFileError, readRegularFile, statRegularFile } from "./regular-file.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-regular-"));
const file = join(folder, "file");
const link = join(folder, "link");
const pipe = join(folder, "pipe");
writeFileSync(file, "\uFEFFनमस्ते");
symlinkSync(file, link);
Bun.spawnSync(["mkfifo", pipe]);

afterAll(() => rmSync(folder, { recursive: true }));

describe("regular files", () => {
  test("are opened and read, also through a link, byte order mark included", () => {
    expect(readRegularFile(link, 100)).toBe("\uFEFFनमस्ते");
    const descriptor = openRegularFile(file);
    expect(readSync(descriptor, new Uint8Array(100))).toBe(21);
    closeSync(descriptor);
  });

  for (const [path, reason] of [
    [pipe, "a named pipe"],
    ["/dev/zero", "a device"],
    [folder, "a directory"],
  ] as const) {
    test(`${reason} is refused at once`, () => {
      for (const read of [statRegularFile, openRegularFile, (at: string) => readRegularFile(at, 100)]) {
        expect(() => read(path)).toThrow(RegularFileError);
        expect(() => read(path)).toThrow(`${path}: it is ${reason}, not a regular file`);
      }
    });
  }

  test("too large a file and a missing one have different errors", () => {
    expect(() => readRegularFile(file, 20)).toThrow("larger than 20 bytes");
    expect(() => readRegularFile(join(folder, "none"), 20)).toThrow("ENOENT");
  });
});
