import { expect, jest, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeOver } from "../config/reload.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import type { App } from "./app.ts";
import { keepStatusFile, readServerStatus, STATUS_FILE } from "./status-file.ts";

test("a server that was killed, or that no longer updates the file, is reported as not running", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-status-"));
  try {
    const at = Date.UTC(2026, 10, 21);
    const say = (pid: number) =>
      writeFileSync(
        join(folder, STATUS_FILE),
        JSON.stringify({ pid, updated_at: new Date(at).toISOString() }),
      );
    expect(readServerStatus(folder, at)).toBeUndefined();
    say(process.pid);
    expect(readServerStatus(folder, at + 1_000)?.pid).toBe(process.pid);
    expect(readServerStatus(folder, at + 60_000)).toBeUndefined();
    say(2 ** 22 + 1);
    expect(readServerStatus(folder, at)).toBeUndefined();
    writeFileSync(join(folder, STATUS_FILE), "{");
    expect(readServerStatus(folder, at)).toBeUndefined();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a reloaded address for clients is in the next status", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "shruti-status-"));
  jest.useFakeTimers();
  try {
    const config = testConfig();
    const app = { dataDir, status: () => ({}) as ReturnType<App["status"]> };
    const end = keepStatusFile(app, { port: 8080 }, config);
    const wanted = testConfig({ server: { base_url: "https://speech.example" } });
    takeOver(config, wanted, ["server.base_url"]);
    jest.advanceTimersByTime(1_000);
    expect(readServerStatus(dataDir)?.address).toBe("https://speech.example");
    end();
  } finally {
    jest.useRealTimers();
    rmSync(dataDir, { recursive: true, force: true });
  }
});
