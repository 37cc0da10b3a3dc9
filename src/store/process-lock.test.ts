import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeProcessLock } from "./process-lock.ts";

test("a lock is held by one process, until it releases the lock or is killed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-lock-"));
  const path = join(folder, "serve.lock");
  const module = `${import.meta.dir}/process-lock.ts`;
  const script = `import { takeProcessLock } from ${JSON.stringify(module)}; globalThis.lock = takeProcessLock(${JSON.stringify(path)}); console.log(globalThis.lock ? "held" : "refused"); setTimeout(() => process.exit(), 10_000);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "ignore" });
  const reader = child.stdout.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toContain("held");
  expect(takeProcessLock(path)).toBeUndefined();
  child.kill("SIGKILL");
  await child.exited;
  const lock = takeProcessLock(path);
  expect(lock).toBeDefined();
  lock?.release();
  rmSync(folder, { recursive: true });
});

test("a lock that cannot be taken for another reason is not reported as another server", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-lock-"));
  const path = join(folder, "serve.lock");
  writeFileSync(path, "no database, and nobody holds it ".repeat(100));
  expect(() => takeProcessLock(path)).toThrow("not a database");
  rmSync(path);
  mkdirSync(path);
  expect(() => takeProcessLock(path)).toThrow(
    `${path}: unable to open database file; the user who runs this`,
  );
  rmSync(folder, { recursive: true });
});
