import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fillDisk, mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/boxes/small-disk.ts";
import { ballastState, failureToRecord, fillBallast, freeBallast } from "./ballast.ts";

const MIB = 1024 * 1024;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-ballast-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const path = () => join(folder, "ballast");

describe("the ballast", () => {
  test("has its size, real content and only its owner's rights, and follows the setting", async () => {
    expect(await fillBallast(folder, 3 * MIB)).toEqual({ bytes: 3 * MIB, isForeign: false });
    const { size, mode, blocks } = statSync(path());
    expect([size, mode & 0o777]).toEqual([3 * MIB, 0o600]);
    // Blocks of 512 bytes: the file has no holes.
    expect(blocks * 512).toBeGreaterThanOrEqual(3 * MIB);
    truncateSync(path(), MIB);
    expect(await fillBallast(folder, 3 * MIB)).toMatchObject({ bytes: 3 * MIB });
    expect(await fillBallast(folder, MIB)).toMatchObject({ bytes: MIB });
    expect(await fillBallast(folder, 0)).toMatchObject({ bytes: 0 });
    expect(existsSync(path())).toBe(false);
    expect(await fillBallast(folder, 0)).toMatchObject({ bytes: 0 });
  });

  test("is freed in steps, and not while the disk has space", async () => {
    await fillBallast(folder, 1.25 * MIB);
    expect(freeBallast(folder, "scarce")).toBe(0);
    expect([1, 2, 3, 4].map(() => freeBallast(folder, "now") / MIB)).toEqual([0.5, 0.5, 0.25, 0]);
    expect(existsSync(path())).toBe(false);
    expect(freeBallast(join(folder, "nowhere"), "now")).toBe(0);
  });

  const victim = () => join(folder, "victim");
  const planted: [name: string, plant: () => void][] = [
    ["a link", () => symlinkSync(victim(), path())],
    ["a second name of another file", () => linkSync(victim(), path())],
    ["a link to nothing", () => symlinkSync(join(folder, "nothing"), path())],
    ["a folder", () => mkdirSync(path())],
    ["a pipe", () => void Bun.spawnSync(["mkfifo", path()])],
  ];
  test.each(planted)("that is %s is left as it is, and so is what it leads to", async (_, plant) => {
    writeFileSync(victim(), "precious", { mode: 0o644 });
    plant();
    const before = lstatSync(path());
    expect(await fillBallast(folder, MIB)).toEqual({ bytes: 0, isForeign: true });
    expect(ballastState(folder).isForeign).toBe(true);
    expect(freeBallast(folder, "now")).toBe(0);
    expect(readFileSync(victim(), "utf8")).toBe("precious");
    expect(statSync(victim()).mode & 0o777).toBe(0o644);
    const after = lstatSync(path());
    expect([after.ino, after.mode, after.size]).toEqual([before.ino, before.mode, before.size]);
    expect(existsSync(join(folder, "nothing"))).toBe(false);
  });

  test.skipIf(process.geteuid?.() !== 0)("of another owner is left as it is (needs root)", async () => {
    writeFileSync(path(), "x");
    Bun.spawnSync(["chown", "65534", path()]);
    expect(await fillBallast(folder, MIB)).toMatchObject({ isForeign: true });
  });

  test.skipIf(process.geteuid?.() !== 0)(
    "of a user in a folder of root, which the user's group may write, is the user's own (needs root)",
    () => {
      chownSync(folder, 0, 65_534);
      chmodSync(folder, 0o2775);
      // Another process, because this one could not become root again. The module is loaded before that.
      const script = `
        const { fillBallast } = await import(${JSON.stringify(join(import.meta.dir, "ballast.ts"))});
        process.setgid(65534);
        process.setuid(65534);
        console.log(JSON.stringify(await fillBallast(${JSON.stringify(folder)}, ${MIB})));`;
      const { stdout } = Bun.spawnSync([process.execPath, "-e", script]);
      expect(JSON.parse(stdout.toString())).toEqual({ bytes: MIB, isForeign: false });
      expect(statSync(path()).uid).toBe(65_534);
    },
  );

  test.skipIf(!mayMountDisks())(
    "takes no space of a disk that has little, and a sixteenth of a small one (needs root on Linux)",
    async () => {
      expect(mountSmallDisk(folder, 64)).toBe(true);
      try {
        const filler = join(folder, "filler");
        writeFileSync(filler, new Uint8Array(56 * MIB));
        // 8 MiB are free, and the ballast would take 4.
        expect(await fillBallast(folder, 16 * MIB)).toMatchObject({ bytes: 0 });
        rmSync(filler);
        expect(await fillBallast(folder, 16 * MIB)).toMatchObject({ bytes: 4 * MIB });
        fillDisk(filler);
        expect(freeBallast(folder, "scarce")).toBe(MIB / 2);
      } finally {
        unmountDisk(folder);
      }
    },
  );
});

test("what was done already is recorded with space of the ballast, or its failure is returned", async () => {
  await fillBallast(folder, 8 * MIB);
  const full = Object.assign(new Error("full"), { code: "SQLITE_FULL" });
  const record = () => {
    if (existsSync(path())) throw full;
  };
  expect(failureToRecord(folder, record)).toBeUndefined();
  const never = () => {
    throw full;
  };
  expect(failureToRecord(folder, never)).toBe(full);
  const other = new Error("other");
  expect(() =>
    failureToRecord(folder, () => {
      throw other;
    }),
  ).toThrow(other);
});
