import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where a commit does not wait for a disk. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

test("the measurement of the store fits the database's present tables", async () => {
  const child = Bun.spawn([process.execPath, join(import.meta.dirname, "store.ts"), "20"], {
    env: { ...process.env, TMPDIR: FOLDER },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect({ code: child.exitCode, err }).toEqual({ code: 0, err: expect.stringContaining("generated in") });
  expect(out).toContain("| audit (linear) |");
}, 120_000);
