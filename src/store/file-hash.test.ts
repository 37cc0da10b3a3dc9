import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256OfFile } from "./file-hash.ts";

const MIB = 1024 * 1024;
const SIZES = [0, 1, MIB - 1, MIB, MIB + 1, 5 * MIB + 7];

let folder: string;
const files = new Map<number, { path: string; sha256: string }>();

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-hash-"));
  for (const size of SIZES) {
    const bytes = randomBytes(size);
    const path = join(folder, String(size));
    writeFileSync(path, bytes);
    files.set(size, { path, sha256: createHash("sha256").update(bytes).digest("hex") });
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const file = (size: number) => files.get(size) ?? { path: "", sha256: "" };
const failed = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

/** Lists the files of this test that the process has open. */
function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((name) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`);
      return target.startsWith(folder) ? [target] : [];
    } catch {
      return [];
    }
  });
}

describe("sha256OfFile", () => {
  test.each(SIZES)("%d bytes", async (size) => {
    expect(await sha256OfFile(file(size).path)).toBe(file(size).sha256);
  });

  test("many files at once, some aborted and others missing, each get their own outcome", async () => {
    const asked = Array.from({ length: 60 }, (_, index) => file(SIZES[index % SIZES.length] ?? 0));
    const stop = new AbortController();
    const all = asked.map(async ({ path, sha256 }, index) => {
      if (index % 5 === 3) return (await failed(sha256OfFile(path, stop.signal))) === "enough";
      if (index % 5 === 4) return (await failed(sha256OfFile(`${path}.missing`))) instanceof Error;
      return (await sha256OfFile(path)) === sha256;
    });
    stop.abort("enough");
    expect(await Promise.all(all)).toEqual(asked.map(() => true));
    if (process.platform === "linux") expect(openFiles()).toEqual([]);
  });

  test("a signal that is already aborted prevents the start", async () => {
    const stopped = AbortSignal.abort("stopped");
    expect(await failed(sha256OfFile(file(1).path, stopped))).toBe("stopped");
  });

  test("an endless file can be aborted while it is read, and is closed", async () => {
    // Reads of this device never end.
    const stop = new AbortController();
    const endless = failed(sha256OfFile("/dev/zero", stop.signal));
    // Another file has its turns while this one is read.
    expect(await sha256OfFile(file(MIB).path)).toBe(file(MIB).sha256);
    stop.abort("enough");
    expect(await endless).toBe("enough");
  });

  test("the process ends by itself afterwards", async () => {
    const script = `import { sha256OfFile } from ${JSON.stringify(join(import.meta.dir, "file-hash.ts"))};
      console.log(await sha256OfFile(${JSON.stringify(file(MIB).path)}));`;
    const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
    expect((await child.stdout.text()).trim()).toBe(file(MIB).sha256);
    expect(await child.exited).toBe(0);
  });
});
