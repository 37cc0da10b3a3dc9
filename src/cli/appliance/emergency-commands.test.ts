import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

/** A config with a mistake must not stop the commands that close a door, free space or show what is there. */

const folder = mkdtempSync(join(tmpdir(), "shruti-emergency-"));
const path = join(folder, "shruti.toml");
const dataDir = join(folder, "data");
const environment = { SHRUTI_CONFIG: path, SHRUTI_LOG_LEVEL: "silent" };
const ids = { key: "", organization: "" };
const storage = `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n`;

beforeAll(async () => {
  const made = await runCaptured(["init", "--config", path, "--data", dataDir, "--json"], {});
  ids.organization = JSON.parse(made.out).organization_id;
  ids.key = JSON.parse((await runCaptured(["keys", "list", "--json"], environment)).out)[0].id;
});
afterAll(() => rmSync(folder, { recursive: true }));

function runWith(source: string, argv: string[], more: Record<string, string> = {}) {
  writeFileSync(path, source);
  return runCaptured(argv, { ...environment, ...more });
}

describe("a mistake in the config", () => {
  const mistakes: [name: string, source: string][] = [
    ["an unknown section", `${storage}[servr]\nlisten = "127.0.0.1:1"\n`],
    ["a value of the wrong kind", `${storage}[limits]\nmax_queue_per_project = "many"\n`],
    ["a text without its end, behind it", `${storage}[server]\nlisten = "127.0.0.1:1\n`],
    ["a text without its end, before it", `[server]\nlisten = "127.0.0.1:1\n${storage}`],
  ];
  test.each(mistakes)("%s: an emergency command names it and does its work", async (_, source) => {
    const revoked = await runWith(source, ["keys", "revoke", ids.key]);
    expect(revoked).toMatchObject({ status: 0 });
    expect(revoked.err).toStartWith(`warning: ${path}:`);
    expect(revoked.err).toContain("the mistakes in the config are ignored");
    const listed = await runWith(source, ["keys", "list", "--json"]);
    expect(JSON.parse(listed.out)[0].revoked_at).not.toBeNull();
  });

  test.each<[words: string[], status: number]>([
    [["orgs", "disable"], 0],
    [["orgs", "enable"], 2],
    [["console", "--end-sessions"], 0],
    [["console"], 2],
    [["storage"], 0],
    // No server runs.
    [["status"], 1],
    [["status", "--ready"], 1],
    [["backup", join(folder, "copy.db")], 0],
    [["backup", join(folder, "copy.tar"), "--all"], 2],
    [["serve"], 2],
  ])("%j ends with %i", async (words, status) => {
    const argv = words[0] === "orgs" ? [...words, ids.organization] : words;
    const { err, ...outcome } = await runWith(`${storage}[servr]\nx = 1\n`, argv);
    expect(outcome).toMatchObject({ status });
    expect(err).toContain(`${path}:3: unknown section [servr]`);
  });

  const unknown: [name: string, source: string, more: Record<string, string>][] = [
    ["the section is mistyped", storage.replace("storage", "storge"), {}],
    ["the name is mistyped", storage.replace("data_dir", "data_dr"), {}],
    ["the mistake is in its line", storage.replace(/"\n$/, "\n"), {}],
    ["there are two such sections", `${storage}${storage}`, {}],
    ["a variable is mistyped", storage, { SHRUTI_STORAGE_DATADIR: "/elsewhere" }],
  ];
  test.each(unknown)(
    "%s: the command does nothing, because the data directory may be another",
    async (_, source, more) => {
      const { status, err } = await runWith(source, ["orgs", "disable", ids.organization], more);
      expect({ status, err }).toEqual({ status: 2, err: expect.stringContaining("SHRUTI_STORAGE_DATA_DIR") });
      const named = await runWith(source, ["orgs", "list", "--json"], {
        ...more,
        SHRUTI_STORAGE_DATA_DIR: dataDir,
      });
      expect(named.status).toBe(0);
      expect(JSON.parse(named.out)[0].id).toBe(ids.organization);
    },
  );

  test("doctor reports the mistakes, and examines the rest", async () => {
    // Its speed is measured in a moment.
    const demo = { SHRUTI_MODELS_DEFAULT: "demo" };
    const { status, out } = await runWith(`${storage}[servr]\nx = 1\n`, ["doctor"], demo);
    expect(status).toBe(1);
    expect(out).toContain(`BAD  config     ${path}:3: unknown section [servr]`);
    expect(out).toContain(`ok   data       ${dataDir}`);
    const lost = await runWith(storage.replace("storage", "storge"), ["doctor"], demo);
    expect({ status: lost.status, hasData: lost.out.includes("data ") }).toEqual({
      status: 1,
      hasData: false,
    });
  }, 60_000);
});

test("doctor reports a database that cannot be read, and examines the rest", async () => {
  writeFileSync(path, storage);
  const database = openDatabase(databasePath(dataDir));
  database.sqlite.run("ALTER TABLE settings RENAME TO moved");
  try {
    const { status, out } = await runCaptured(["doctor"], environment);
    expect(status).toBe(1);
    expect(out).toMatch(/^BAD {2}database {3}.*no such table/m);
    expect(out).toMatch(/^(ok |BAD) {2}engine /m);
  } finally {
    database.sqlite.run("ALTER TABLE moved RENAME TO settings");
    database.close();
  }
}, 60_000);

test.skipIf(process.geteuid?.() !== 0)(
  "a config that this user may not read ends with 7, and names sudo (needs root)",
  async () => {
    writeFileSync(path, storage);
    for (const words of [
      ["orgs", "list"],
      ["keys", "revoke", ids.key],
      ["serve"],
      ["doctor"],
      ["config", "check"],
    ]) {
      // Root may read every file, so this process is another user for a moment.
      process.seteuid?.(65_534);
      const { status, err } = await runCaptured(words, environment).finally(() => process.seteuid?.(0));
      expect({ status, err }).toEqual({
        status: 7,
        err: expect.stringContaining("may not read the config file (EACCES); run the command with sudo"),
      });
    }
  },
);

/** Runs a command as another user for good, in a process of its own whose code was loaded before. */
function runAsNobody(words: readonly string[]): { status: number | null; err: string } {
  const script = `
    const { runCaptured } = await import(${JSON.stringify(join(import.meta.dir, "../../testing/kits/run-cli.ts"))});
    await runCaptured(["version"], {});
    await import(${JSON.stringify(join(import.meta.dir, "../../services/admin.ts"))});
    process.setuid(65_534);
    const { status, err } = await runCaptured(${JSON.stringify(words)}, ${JSON.stringify(environment)});
    console.error(err);
    process.exit(status);`;
  const child = Bun.spawnSync([process.execPath, "-e", script], { cwd: folder });
  return { status: child.exitCode, err: child.stderr.toString() };
}

test.skipIf(process.geteuid?.() !== 0)(
  "a data directory that this user may not use ends with 7, and names sudo (needs root)",
  () => {
    writeFileSync(path, storage);
    chmodSync(path, 0o644);
    chmodSync(folder, 0o755);
    const expected = { status: 7, err: expect.stringContaining("run the command with sudo") };
    for (const words of [
      ["orgs", "list"],
      ["status", "--ready"],
    ])
      expect(runAsNobody(words)).toEqual(expected);
    chmodSync(dataDir, 0o755);
    for (const words of [
      ["orgs", "list"],
      ["keys", "revoke", ids.key],
    ])
      expect(runAsNobody(words)).toEqual(expected);
  },
);
