import { afterAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCaptured } from "../testing/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-init-"));
afterAll(() => rmSync(folder, { recursive: true }));

const init = (environment: Record<string, string>, ...argv: string[]) =>
  runCaptured(["init", ...argv], environment);

test("an init that fails half way leaves nothing behind, and the next one succeeds", async () => {
  const blocker = join(folder, "blocker");
  writeFileSync(blocker, "a file where the config's folder should be");
  const dataDir = join(folder, "failed");
  const argv = ["--data", dataDir, "--config", join(blocker, "shruti.toml")];
  expect(await init({}, ...argv)).toMatchObject({ status: 2, out: "" });
  expect(existsSync(dataDir)).toBe(false);
  // A folder that existed before stays, with its files.
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, "note"), "mine");
  expect((await init({}, ...argv)).status).toBe(2);
  expect(readdirSync(dataDir)).toEqual(["note"]);
  rmSync(blocker);
  expect((await init({}, ...argv)).status).toBe(0);
});

test("of two at once on one data directory, one makes it and the other changes nothing", async () => {
  const argv = ["--data", join(folder, "both"), "--config", join(folder, "both.toml"), "--json"];
  const outcomes = await Promise.all([init({}, ...argv), init({}, ...argv)]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual([0, 5]);
  const listed = await runCaptured(["orgs", "list", "--config", join(folder, "both.toml"), "--json"], {});
  const made = outcomes.find(({ status }) => status === 0)?.out ?? "";
  expect(JSON.parse(listed.out).map(({ id }: { id: string }) => id)).toEqual([
    JSON.parse(made).organization_id,
  ]);
});

test("files are written where the environment variables say; options override them", async () => {
  const environment = {
    SHRUTI_CONFIG: join(folder, "etc", "shruti.toml"),
    SHRUTI_STORAGE_DATA_DIR: join(folder, "var"),
  };
  const { status, out } = await init(environment, "--json");
  expect(status).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    config: environment.SHRUTI_CONFIG,
    data_dir: environment.SHRUTI_STORAGE_DATA_DIR,
  });
  expect(readFileSync(environment.SHRUTI_CONFIG, "utf8")).toContain(environment.SHRUTI_STORAGE_DATA_DIR);
  const other = { config: join(folder, "other.toml"), data: join(folder, "other") };
  const options = ["--config", other.config, "--data", other.data];
  expect(JSON.parse((await init(environment, "--json", ...options)).out)).toMatchObject({
    config: other.config,
    data_dir: other.data,
  });
  expect((await init(environment)).status).toBe(5);
});
