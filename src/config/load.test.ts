import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig, renderConfig } from "./load.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-config-"));
const path = join(folder, "shruti.toml");
afterAll(() => rmSync(folder, { recursive: true }));

describe("config", () => {
  test("the rendered defaults load to the defaults", () => {
    writeFileSync(path, renderConfig());
    expect(loadConfig(path, {})).toEqual(loadConfig(undefined, {}));
  });

  test("file over defaults, environment over file", () => {
    writeFileSync(path, "[limits]\nmax_queued = 7\n[engine]\nworkers = 2\n[webhooks]\nallow_http = true\n");
    const config = loadConfig(path, {
      SHRUTI_ENGINE_WORKERS: "auto",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8, ::1/128",
    });
    expect(config.limits.max_queued).toBe(7);
    expect(config.engine.workers).toBe("auto");
    expect(config.webhooks.allow_http).toBe(true);
    expect(config.webhooks.allowed_networks).toEqual(["127.0.0.0/8", "::1/128"]);
  });

  const refused: [string, string, string][] = [
    ["unknown setting", "[limits]\n\nmax_queue = 7\n", ":3: unknown setting limits.max_queue"],
    ["unknown section", "[limit]\nmax_queued = 7\n", ":1: unknown section [limit]"],
    ["wrong type", '[limits]\nmax_queued = "7"\n', ":2: limits.max_queued must be a whole number from 0"],
    ["out of range", "[limits]\nmax_queued = -1\n", ":2: limits.max_queued must be a whole number"],
    ["wrong choice", '[engine]\ndevice = "tpu"\n', ":2: engine.device must be one of auto, cpu"],
    ["broken TOML", "[limits]\nmax_queued = = 7\n", ":2:"],
    ["no section", "max_queued = 7\n", ":1: the setting must be in a [section]"],
    ["nested", "[limits]\nmax_queued.x = 7\n", ":2: unknown setting limits.max_queued.x"],
  ];
  for (const [name, source, message] of refused) {
    test(`refuses: ${name}`, () => {
      writeFileSync(path, source);
      expect(() => loadConfig(path, {})).toThrow(message);
    });
  }

  test("a file that cannot be read is named with the reason", () => {
    expect(() => loadConfig(join(folder, "none.toml"), {})).toThrow(
      "none.toml: the config file cannot be read (ENOENT)",
    );
    expect(() => loadConfig(folder, {})).toThrow("(EISDIR)");
  });

  test("an ill-typed environment variable is named", () => {
    expect(() => loadConfig(undefined, { SHRUTI_LIMITS_MAX_QUEUED: "many" })).toThrow(
      "SHRUTI_LIMITS_MAX_QUEUED",
    );
  });

  test("a mistyped environment variable is named; those of others are left alone", () => {
    const load = (variable: string) => () => loadConfig(undefined, { [variable]: "1" });
    expect(load("SHRUTI_LIMITS_MAX_QUEUE")).toThrow("there is no setting SHRUTI_LIMITS_MAX_QUEUE");
    expect(load("SHRUTI_SERVER_listen")).toThrow("is no setting");
    for (const other of ["SHRUTI_BINARY", "SHRUTI_TEST_BACKEND", "SHRUTI_SOAK", "SHRUTI_CONSTRUCTOR_NAME"])
      expect(load(other)).not.toThrow();
  });

  test("an origin that no browser sends is refused", () => {
    const load = (origins: string) => () => loadConfig(undefined, { SHRUTI_SERVER_CORS_ORIGINS: origins });
    for (const origins of ["", "*", "https://a.example, http://localhost:3000"])
      expect(load(origins)).not.toThrow();
    for (const origins of ["a.example", "https://a.example/", "https://a.example/app", "https://a.example,b"])
      expect(load(origins)).toThrow("SHRUTI_SERVER_CORS_ORIGINS does not match the required format");
  });

  test("secrets are hidden when shown", () => {
    expect(renderConfig({ metrics: { token: "abc" } }, true)).not.toContain("abc");
  });
});
