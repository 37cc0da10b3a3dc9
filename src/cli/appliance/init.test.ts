import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../store/database.ts";
import { MIGRATIONS } from "../../store/migrations/index.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

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

describe("a config that is there before the database", () => {
  const at = (name: string) => join(folder, "given", name);
  const argv = (...more: string[]) => ["--config", at("shruti.toml"), "--json", ...more];
  const text = () => `[storage]\ndata_dir = "${at("data")}"\n[billing]\nprice_paise_per_audio_hour = 7\n`;
  const orgs = async () =>
    JSON.parse((await runCaptured(["orgs", "list", ...argv()], {})).out) as { id: string; name: string }[];

  test("stays as it is, and what it lacks is made once", async () => {
    mkdirSync(at(""), { recursive: true });
    writeFileSync(at("shruti.toml"), text());
    expect(await init({}, ...argv("--data", at("elsewhere")))).toMatchObject({ status: 5, out: "" });
    expect(existsSync(at("data"))).toBe(false);
    const { status, out } = await init({}, ...argv("--name", "Hospital", "--data", at("data")));
    expect([status, JSON.parse(out).data_dir]).toEqual([0, at("data")]);
    expect(readFileSync(at("shruti.toml"), "utf8")).toBe(text());
    expect(await orgs()).toMatchObject([{ name: "Hospital", id: JSON.parse(out).organization_id }]);
    expect((await init({}, ...argv("--name", "Hospital"))).status).toBe(5);
  });

  test("can be repeated with --unless-exists: organization, project and key are made unless they are there", async () => {
    const again = argv("--name", "Hospital", "--unless-exists");
    const first = JSON.parse((await init({}, ...again)).out) as Record<string, string | null>;
    expect([first.key, (await orgs()).length]).toEqual([null, 1]);
    const keyFile = at("ward.key");
    const ward = [...again, "--project-name", "Ward 3", "--key-name", "ward", "--key-file", keyFile];
    const made = JSON.parse((await init({}, ...ward)).out) as Record<string, string | null>;
    expect([made.organization_id, made.key]).toEqual([first.organization_id ?? "", null]);
    expect(made.project_id).not.toBe(first.project_id);
    const key = readFileSync(keyFile, "utf8");
    expect(key).toMatch(/^shr_\w{24}_\w{49}\n$/);
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(JSON.parse((await init({}, ...ward)).out)).toEqual(made);
    expect(readFileSync(keyFile, "utf8")).toBe(key);
    // Names are compared as they are stored, without spaces at their ends.
    const spaced = ["--name", " Hospital ", "--project-name", "Ward 3 ", "--key-name", " ward"];
    expect(JSON.parse((await init({}, ...argv("--unless-exists", ...spaced))).out)).toEqual(made);
    for (const _ of [1, 2]) await runCaptured(["orgs", "create", "Twin", ...argv()], {});
    expect((await init({}, ...argv("--unless-exists", "--name", "Twin"))).status).toBe(5);
    // A key that would be written over another file is not made.
    const other = [...again, "--key-name", "other", "--key-file", keyFile];
    expect((await init({}, ...other)).status).toBe(5);
    const keys = JSON.parse((await runCaptured(["keys", "list", ...argv()], {})).out) as { name: string }[];
    expect(keys.map(({ name }) => name).sort()).toEqual(["first", "ward"]);
  });

  test("with a mistake stops init, and nothing is made", async () => {
    writeFileSync(at("wrong.toml"), '[storage]\ndata_dri = "./x"\n');
    expect(await init({}, "--config", at("wrong.toml"))).toMatchObject({ status: 2, out: "" });
    expect(readdirSync(at("")).sort()).toEqual(["data", "shruti.toml", "ward.key", "wrong.toml"]);
  });
});

test("a database of an older version is left to the server that a service manager starts, and changed by nothing", async () => {
  const [dataDir, config] = [join(folder, "older"), join(folder, "older.toml")];
  mkdirSync(dataDir);
  writeFileSync(config, `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n`);
  const sqlite = new SqliteDatabase(join(dataDir, "shruti.db"), { create: true });
  migrate(sqlite, MIGRATIONS.slice(0, 3));
  sqlite.close(true);
  const before = readFileSync(join(dataDir, "shruti.db"));
  const again = (...more: string[]) =>
    init({}, "--config", config, "--unless-exists", "--key-file", join(folder, "older.key"), ...more);
  expect(await again("--service")).toMatchObject({
    status: 0,
    out: "",
    err: expect.stringContaining("has version 3 (transcriptions by state). The server upgrades it"),
  });
  // Without a server to come, and for programs that need the IDs, it is an error.
  for (const more of [[], ["--service", "--json"]]) expect((await again(...more)).status).toBe(6);
  expect(readdirSync(dataDir)).toEqual(["shruti.db"]);
  expect(readFileSync(join(dataDir, "shruti.db")).equals(before)).toBe(true);
  expect(existsSync(join(folder, "older.key"))).toBe(false);
});

test("the last line names what comes next: with a service manager, no server to start", async () => {
  const next = async (name: string, ...more: string[]) =>
    (await init({}, "--data", join(folder, name), "--config", join(folder, `${name}.toml`), ...more)).err;
  expect(await next("alone")).toMatch(
    /Next: shruti credit grant --org org_\w+ --paise \d+, then shruti serve\.$/m,
  );
  expect(await next("service", "--service")).toMatch(/Next: shruti credit grant --org org_\w+ --paise \d+$/m);
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
