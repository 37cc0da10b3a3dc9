import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockDataDir, lockPathOf } from "./data-dir-lock.ts";

const dataDir = mkdtempSync(join(tmpdir(), "shruti-data-lock-"));
afterAll(() => rmSync(dataDir, { recursive: true }));

test("a data directory whose lock file is deleted still has one server, until that ends", async () => {
  const module = join(import.meta.dir, "data-dir-lock.ts");
  // A child of the holder does not keep the lock.
  const script = `
    const { lockDataDir } = await import(${JSON.stringify(module)});
    globalThis.lock = lockDataDir(${JSON.stringify(dataDir)});
    globalThis.child = Bun.spawn(["sleep", "20"]);
    console.log(globalThis.child.pid);
    setTimeout(() => {}, 20_000);`;
  const holder = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
  const { value } = await holder.stdout.getReader().read();
  const child = Number(new TextDecoder().decode(value));
  const again = () => lockDataDir(dataDir);
  expect(again).toThrow("Another server is using");
  rmSync(lockPathOf(dataDir));
  expect(again).toThrow("Another server is using");
  holder.kill("SIGKILL");
  await holder.exited;
  const lock = lockDataDir(dataDir);
  expect(again).toThrow("Another server is using");
  lock.release();
  lockDataDir(dataDir).release();
  process.kill(child);
});
