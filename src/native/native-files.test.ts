import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CarriedFile } from "./carried-files.ts";
import { isNoexec } from "./mounts.ts";
import { extractInto, extractNativeFiles, NativeFilesError } from "./native-files.ts";

const HASH = "0123456789abcdef".repeat(4);
let folder: string;
let root: string;
let files: CarriedFile[];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "shruti-native-")));
  root = join(folder, "data/native");
  mkdirSync(join(folder, "source"));
  files = [
    carried("program", "#!/bin/sh\necho works\n", true),
    carried("weights.onnx", "x".repeat(100_000), false),
  ];
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function carried(name: string, content: string, executable: boolean): CarriedFile {
  const packed = join(folder, "source", `${name}.zst`);
  writeFileSync(packed, Bun.zstdCompressSync(content));
  const sha256 = createHash("sha256").update(content).digest("hex");
  return { name, packed, bytes: content.length, sha256, executable };
}

const extract = () => extractInto(root, HASH, files);

describe("extraction", () => {
  test("puts every file in one folder that only the owner can enter", async () => {
    const dir = await extract();
    expect(dir).toBe(join(root, "0123456789ab"));
    expect(readdirSync(dir).sort()).toEqual(["program", "weights.onnx"]);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, "program")).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, "weights.onnx")).mode & 0o777).toBe(0o600);
    expect(Bun.spawnSync([join(dir, "program")]).stdout.toString()).toBe("works\n");
    expect(readdirSync(root)).toEqual(["0123456789ab"]);
  });

  test("a second start writes nothing", async () => {
    const dir = await extract();
    const before = statSync(join(dir, "program"));
    for (const file of files) rmSync(file.packed);
    expect(await extract()).toBe(dir);
    expect(statSync(join(dir, "program")).ino).toBe(before.ino);
  });

  test("a folder with a truncated, missing or unusable file is replaced", async () => {
    const damages = [
      (dir: string) => writeFileSync(join(dir, "weights.onnx"), "x"),
      (dir: string) => rmSync(join(dir, "program")),
      (dir: string) => chmodSync(join(dir, "program"), 0o600),
    ];
    for (const damage of damages) {
      const dir = await extract();
      damage(dir);
      expect(await extract()).toBe(dir);
      expect(readFileSync(join(dir, "weights.onnx"), "utf8").length).toBe(100_000);
      expect(Bun.spawnSync([join(dir, "program")]).stdout.toString()).toBe("works\n");
      expect(readdirSync(root)).toEqual(["0123456789ab"]);
    }
  });

  test("many extractions at once leave one complete folder", async () => {
    const dirs = await Promise.all(Array.from({ length: 8 }, extract));
    expect(new Set(dirs).size).toBe(1);
    expect(readdirSync(root)).toEqual(["0123456789ab"]);
    expect(readdirSync(dirs[0] ?? "").length).toBe(2);
  });

  test("an embedded file whose content has changed since the build is refused", async () => {
    for (const content of [Bun.zstdCompressSync("y".repeat(100_000)), "no compressed file", ""]) {
      writeFileSync(files[1]?.packed ?? "", content);
      await expect(extract()).rejects.toThrow("damaged");
      expect(readdirSync(root)).toEqual([]);
    }
  });

  test("for an unwritable folder the error names the setting that moves it", async () => {
    writeFileSync(join(folder, "data"), "a file where a folder should be");
    const error = await extract().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NativeFilesError);
    expect((error as Error).message).toContain(root);
    expect((error as Error).message).toContain("storage.data_dir");
  });
});

describe.skipIf(!existsSync("/proc/self/maps"))("files of earlier versions (needs Linux)", () => {
  const old = () => join(root, "ffffffffffff");

  test("an unused version and the remains of a killed extraction are removed, and nothing else", async () => {
    mkdirSync(old(), { recursive: true });
    writeFileSync(join(old(), "program"), "old");
    for (const name of [".000000000000.unfinished", ".111111111111.unfinished", "notes"])
      mkdirSync(join(root, name));
    const twoHoursAgo = Date.now() / 1000 - 7200;
    utimesSync(join(root, ".000000000000.unfinished"), twoHoursAgo, twoHoursAgo);
    await extract();
    expect(readdirSync(root).sort()).toEqual([".111111111111.unfinished", "0123456789ab", "notes"]);
  });

  test("a version from which a process runs is kept", async () => {
    mkdirSync(old(), { recursive: true });
    const program = join(old(), "sleeper");
    writeFileSync(program, readFileSync(Bun.which("sleep") ?? "/bin/sleep"), { mode: 0o700 });
    const child = Bun.spawn([program, "60"]);
    try {
      await extract();
      expect(existsSync(program)).toBe(true);
    } finally {
      child.kill("SIGKILL");
      await child.exited;
    }
  });
});

describe("noexec", () => {
  const line = (point: string, options: string) =>
    `36 35 98:0 / ${point} ${options} shared:1 - ext4 /dev/a rw`;
  const mounts = [
    line("/", "rw,relatime"),
    line("/data", "rw,noexec,nosuid"),
    line("/data/run", "rw"),
    line("/with\\040blank", "rw,noexec"),
    line("/twice", "rw,noexec"),
    line("/twice", "rw"),
  ].join("\n");

  test("the innermost and last mount decides", () => {
    expect(isNoexec(mounts, "/srv/native/x")).toBe(false);
    expect(isNoexec(mounts, "/data")).toBe(true);
    expect(isNoexec(mounts, "/data/native/x")).toBe(true);
    expect(isNoexec(mounts, "/database/x")).toBe(false);
    expect(isNoexec(mounts, "/data/run/x")).toBe(false);
    expect(isNoexec(mounts, "/with blank/x")).toBe(true);
    expect(isNoexec(mounts, "/twice/x")).toBe(false);
  });
});

test("a run from source uses the files of the build", async () => {
  const nativeFiles = await extractNativeFiles(folder);
  for (const path of [nativeFiles.decoder, nativeFiles.onnx, nativeFiles.silero]) {
    expect(statSync(path).isFile()).toBe(true);
  }
  expect(statSync(nativeFiles.smartWhisper).isFile()).toBe(true);
  expect(existsSync(root)).toBe(false);
});
