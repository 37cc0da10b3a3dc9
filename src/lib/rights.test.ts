import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  lchownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readRegularFile } from "./regular-file.ts";
import { asOwnerOf, asUser, asWriterOf, ownerOf } from "./rights.ts";

const USER = { uid: 65_534, gid: 65_534 };
const folder = mkdtempSync(join(tmpdir(), "shruti-rights-"));
const READ_STDIN = `import { readRegularFile } from ${JSON.stringify(join(import.meta.dir, "regular-file.ts"))};
process.stdout.write(readRegularFile("/dev/stdin", 100));`;
const at = (...names: string[]) => join(folder, ...names);

beforeAll(() => {
  chmodSync(folder, 0o755);
  for (const name of ["root", "theirs", "theirs/inner", "theirs/of-root"]) mkdirSync(at(name));
  writeFileSync(at("root/secret"), "secret", { mode: 0o600 });
  writeFileSync(at("theirs/of-root.toml"), "of root", { mode: 0o600 });
  writeFileSync(at("theirs/file"), "theirs", { mode: 0o600 });
  linkSync(at("root/secret"), at("theirs/second-name"));
  symlinkSync(at("root"), at("theirs/link"));
  symlinkSync(at("root/secret"), at("theirs/secret"));
  symlinkSync(at("theirs"), at("root/to-theirs"));
  if (process.getuid?.() !== 0) return;
  for (const name of ["theirs", "theirs/inner", "theirs/file"]) chownSync(at(name), USER.uid, USER.gid);
  for (const name of ["theirs/link", "theirs/secret"]) lchownSync(at(name), USER.uid, USER.gid);
});
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(process.getuid?.() !== 0)("a command of root (needs root)", () => {
  const decided: [path: string, user: typeof USER | undefined][] = [
    ["root/secret", undefined],
    ["root/new", undefined],
    ["theirs", USER],
    ["theirs/file", USER],
    ["theirs/new", USER],
    ["theirs/new/new", USER],
    ["theirs/inner", USER],
    // Links of root are root's word, those of others theirs.
    ["root/to-theirs/new", USER],
    ["theirs/link", USER],
    ["theirs/link/secret", USER],
    ["theirs/secret", USER],
    // What root has made in a folder of another user stays root's.
    ["theirs/of-root", undefined],
    ["theirs/of-root.toml", undefined],
    ["theirs/second-name", USER],
  ];
  test.each(decided)("lets the right user decide what %s means", (path, user) => {
    expect(ownerOf(at(path))).toEqual(user);
  });

  test("reads what is its own anywhere, and what is others' with their rights", () => {
    expect(readRegularFile(at("theirs/of-root.toml"), 100)).toBe("of root");
    expect(readRegularFile(at("theirs/file"), 100)).toBe("theirs");
    expect(readRegularFile(at("root/to-theirs/file"), 100)).toBe("theirs");
    for (const path of ["theirs/secret", "theirs/link/secret"])
      expect(() => readRegularFile(at(path), 100)).toThrow("EACCES");
  });

  test("reads what is open already", async () => {
    const child = Bun.spawn([
      "sh",
      "-c",
      `exec "$0" -e "$1" <"$2"`,
      process.execPath,
      READ_STDIN,
      at("theirs/of-root.toml"),
    ]);
    expect(await child.stdout.text()).toBe("of root");
  });

  test("writes with its own rights, but not through a link of another user", () => {
    asWriterOf(at("theirs/written"), () => writeFileSync(at("theirs/written"), "", { flag: "wx" }));
    expect(statSync(at("theirs/written")).uid).toBe(0);
    const write = () => writeFileSync(at("theirs/link/written"), "", { flag: "wx" });
    expect(() => asWriterOf(at("theirs/link/written"), write)).toThrow("EACCES");
  });

  test("has its own rights again afterwards, in each way in which work can end", async () => {
    const secret = at("root/secret");
    const fail = () => asUser(USER, () => readFileSync(secret));
    expect(fail).toThrow("EACCES");
    expect(process.geteuid?.()).toBe(0);
    // Threads that read for a promise have the rights, too.
    expect(await asUser(USER, () => readFile(secret)).catch((error) => error.code)).toBe("EACCES");
    expect(process.geteuid?.()).toBe(0);
    const nested = asUser(USER, () => [
      asOwnerOf(secret, () => readFileSync(secret, "utf8")),
      process.geteuid?.(),
      process.getgroups?.(),
    ]);
    expect(nested).toEqual(["secret", USER.uid, [USER.gid]]);
    expect([process.geteuid?.(), process.getegid?.()]).toEqual([0, 0]);
  });
});
