import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { programEnvironment } from "../testing/rules/test-variables.ts";
import { type Installation, install, until } from "./kit.ts";
import { descendantsOf } from "./processes.ts";

/** Commands of an admin with unsuitable files, and the permissions of the files that they write. */

let installation: Installation;
let folder: string;
beforeAll(async () => {
  installation = await install();
  folder = installation.folder;
}, 300_000);
afterAll(() => installation?.remove());

const at = (name: string) => join(folder, name);

test("status --watch shows the status again and again, as lines of JSON and for people", async () => {
  const watch = async (...argv: string[]) => {
    const child = Bun.spawn(
      [join(folder, "program/shruti"), "--config", at("shruti.toml"), "status", "--watch", ...argv],
      { env: programEnvironment(), stdout: "pipe" },
    );
    let printed = "";
    for await (const part of child.stdout) {
      printed += Buffer.from(part).toString();
      if (printed.split("\n").filter((line) => line.includes("running")).length > 2) break;
    }
    child.kill("SIGINT");
    await child.exited;
    return printed;
  };
  const [first = ""] = (await watch("--json")).split("\n");
  expect(JSON.parse(first)).toMatchObject({ running: false, transcriptions: {} });
  expect(await watch()).toMatch(/^running {2}no\nqueue {4}empty\nrunning/);
}, 60_000);

test("a backup into a folder that does not exist names the folder", async () => {
  const { code, err } = await installation.command("backup", at("nowhere/shruti.db"));
  expect({ code, err }).toEqual({ code: 4, err: `error: there is no folder ${at("nowhere")}\n` });
});

describe("a named pipe where a file is expected is refused at once", () => {
  const fifo = () => {
    const path = at("pipe");
    rmSync(path, { force: true });
    Bun.spawnSync(["mkfifo", path]);
    return path;
  };
  const COMMANDS: [name: string, argv: (pipe: string) => string[]][] = [
    ["model", (pipe) => ["models", "add", pipe]],
    ["speaker weights", (pipe) => ["models", "add", "--kind", "segmentation", pipe]],
    ["backup", (pipe) => ["restore", pipe]],
    ["recording", (pipe) => ["transcribe", "--language", "en", pipe]],
  ];
  for (const [name, argv] of COMMANDS) {
    test(`as a ${name}`, async () => {
      const { code, err } = await installation.command(...argv(fifo()));
      expect(code).toBeOneOf([1, 2]);
      expect(err).toMatch(/^error: .+\n$/m);
    }, 20_000);
  }

  test("as a config file, database or manifest", async () => {
    const path = fifo();
    const run = async (env: Record<string, string>, ...argv: string[]) => {
      const child = Bun.spawn([join(folder, "program/shruti"), ...argv], {
        env,
        cwd: folder,
        stderr: "pipe",
      });
      return { code: await child.exited, err: await child.stderr.text() };
    };
    const reason = "it is a named pipe, not a regular file";
    expect(await run({ SHRUTI_CONFIG: path }, "config", "check")).toMatchObject({
      code: 2,
      err: expect.stringContaining(reason),
    });
    const data = at("with-pipe");
    mkdirSync(data);
    Bun.spawnSync(["mkfifo", join(data, "shruti.db")]);
    expect(await run({ SHRUTI_STORAGE_DATA_DIR: data }, "orgs", "list")).toMatchObject({
      code: 1,
      err: expect.stringContaining(reason),
    });
    const manifest = join(installation.dataDir, "models/odd.toml");
    mkdirSync(join(installation.dataDir, "models"), { recursive: true });
    Bun.spawnSync(["mkfifo", manifest]);
    const listed = await installation.command("models", "list");
    rmSync(manifest);
    expect(listed).toMatchObject({ code: 0, err: expect.stringContaining(reason) });
  }, 20_000);
});

describe("a backup", () => {
  test("cannot be read by other users at any moment while it is written", async () => {
    const sqlite = new SqliteDatabase(join(installation.dataDir, "shruti.db"));
    // Large enough that its copying can be observed.
    sqlite
      .query(
        "INSERT INTO settings (name, value, updated_at) VALUES ('filling', json_quote(hex(randomblob(?))), 0)",
      )
      .run(40_000_000);
    sqlite.close();
    const umask = process.umask(0);
    const seen = new Map<string, number>();
    let isWritten = false;
    const watching = (async () => {
      while (!isWritten) {
        for (const name of readdirSync(folder).filter((each) => each.startsWith("watched.db"))) {
          const found = statSync(at(name), { throwIfNoEntry: false });
          if (found) seen.set(name.replace(/\d+/, "N"), (seen.get(name) ?? 0) | (found.mode & 0o777));
        }
        await Bun.sleep(1);
      }
    })();
    try {
      await installation.output("backup", at("watched.db"));
    } finally {
      process.umask(umask);
      isWritten = true;
    }
    await watching;
    expect(seen.get("watched.db.N.partial")).toBe(0o600);
    expect([...new Set(seen.values())]).toEqual([0o600]);
    const again = new SqliteDatabase(join(installation.dataDir, "shruti.db"));
    again.run("DELETE FROM settings WHERE name = 'filling'");
    again.close();
    rmSync(at("watched.db"));
  }, 60_000);

  const HOSTILE: [name: string, sql: string, reason: string][] = [
    [
      "a trigger",
      "CREATE TRIGGER evil AFTER INSERT ON uploads BEGIN DELETE FROM api_keys; END",
      "it has a trigger evil that is not this program's",
    ],
    [
      "a ledger without its trigger",
      "DROP TRIGGER ledger_refuses_delete",
      "its trigger ledger_refuses_delete is missing",
    ],
    [
      "an identifier that is a path",
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at)
       SELECT '../../victim', organization_id, id, 'complete', 1, '', 0, 0 FROM projects`,
      'uploads.id holds "../../victim"',
    ],
    [
      "money that was never granted",
      "UPDATE organizations SET balance_paise = balance_paise + 1",
      "its ledger does not hold",
    ],
  ];
  for (const [name, sql, reason] of HOSTILE) {
    test(`with ${name} is refused, and everything stays as it was`, async () => {
      const file = at("hostile.db");
      rmSync(file, { force: true });
      await installation.output("backup", file);
      const sqlite = new SqliteDatabase(file);
      sqlite.run("PRAGMA foreign_keys = OFF");
      sqlite.run(sql);
      sqlite.close();
      const database = join(installation.dataDir, "shruti.db");
      Bun.gc(true);
      const before = { bytes: readFileSync(database), names: readdirSync(installation.dataDir) };
      const { code, err } = await installation.command("restore", file);
      expect(code).toBe(2);
      expect(err).toContain(reason);
      expect(readFileSync(database).equals(before.bytes)).toBe(true);
      expect(readdirSync(installation.dataDir)).toEqual(before.names);
    });
  }

  test("is restored when an admin has changed nothing in it", async () => {
    const file = at("good.db");
    await installation.output("backup", file);
    copyFileSync(file, at("again.db"));
    await installation.output("restore", at("again.db"));
    expect((await installation.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
  });
});

test("status fails and says so where no server runs; a mistyped variable is refused", async () => {
  const plain = await installation.command("status");
  expect(plain).toMatchObject({ code: 1, err: expect.stringContaining("no server runs on") });
  const asJson = await installation.command("status", "--json");
  expect(asJson.code).toBe(1);
  expect(JSON.parse(asJson.out)).toMatchObject({ running: false });
  const child = Bun.spawnSync([join(folder, "program/shruti"), "config", "check"], {
    env: { SHRUTI_SEVER_LISTEN: "127.0.0.1:1" },
    cwd: folder,
  });
  expect(child.exitCode).toBe(2);
  expect(child.stderr.toString()).toContain("did you mean SHRUTI_SERVER_LISTEN?");
});

test("worker processes receive none of the program's secrets, and a log that cannot be written does not end the server", async () => {
  const config = at("own.toml");
  writeFileSync(config, readFileSync(installation.configPath));
  const server = Bun.spawn([join(folder, "program/shruti"), "serve", "--config", config], {
    cwd: folder,
    env: {
      HOME: folder,
      PATH: process.env.PATH ?? "",
      CUDA_VISIBLE_DEVICES: "0",
      SHRUTI_SERVER_LISTEN: "127.0.0.1:0",
      SHRUTI_METRICS_TOKEN: "geheim",
      SERVICE_PASSWORD: "geheim",
    },
    stdout: "ignore",
    stderr: Bun.file("/dev/full"),
  });
  try {
    await until("it runs", async () => (await installation.command("status")).code === 0, 30_000);
    await until("it has workers", () => descendantsOf(server.pid).length > 0, 30_000);
    for (const pid of descendantsOf(server.pid)) {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      expect(environment).not.toContain("geheim");
      expect(
        environment
          .split("\0")
          .flatMap((line) => line.split("=")[0] || [])
          .sort(),
      ).toEqual([
        "CUDA_VISIBLE_DEVICES",
        "HOME",
        "NODE_CHANNEL_FD",
        "NODE_CHANNEL_SERIALIZATION_MODE",
        "PATH",
      ]);
    }
  } finally {
    server.kill("SIGTERM");
  }
  expect(await server.exited).toBe(0);
}, 60_000);
