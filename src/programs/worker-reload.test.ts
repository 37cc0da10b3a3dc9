import { expect, test } from "bun:test";
import { loadConfig } from "../config/load.ts";
import { ConfigError } from "../config/problems.ts";
import { openLog } from "../lib/log.ts";
import { reloadWorker } from "./worker-reload.ts";

const configWith = (environment: Record<string, string>) => loadConfig(undefined, environment);

test("a worker takes over what it can, names what needs a restart, and keeps all where there is a mistake", () => {
  const lines: string[] = [];
  const log = openLog("info", "json", (line) => void lines.push(line));
  const config = configWith({});
  const wanted = {
    SHRUTI_LOG_LEVEL: "warn",
    SHRUTI_SERVER_DRAIN_SECONDS: "5",
    SHRUTI_FLEET_NAME: "other",
    SHRUTI_STORAGE_RESERVE_BYTES: "7",
  };
  reloadWorker(config, log, () => configWith(wanted));
  expect(config.server.drain_seconds).toBe(5);
  expect(config.fleet.name).toBe("main");
  expect(config.storage.reserve_bytes).not.toBe(7);
  expect(log.level).toBe("warn");
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ changed: ["server.drain_seconds", "log.level"] });
  expect(JSON.parse(lines[1] ?? "")).toMatchObject({ settings: ["fleet.name", "storage.reserve_bytes"] });
  reloadWorker(config, log, () => {
    throw new ConfigError("server.drain_seconds must be a number");
  });
  expect(config.server.drain_seconds).toBe(5);
  expect(lines.at(-1)).toContain("nothing has changed");
});
