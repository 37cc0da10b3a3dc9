import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BuildFacts } from "../executable/parts.ts";
import { createApiKeyService } from "../services/api-keys.ts";
import { databasePath, openDatabase } from "../store/database.ts";
import { insertUsageEvent } from "../store/usage.ts";
import { closeForgotten } from "../testing/kits/forgotten-connections.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { runCaptured } from "../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-cli-"));
const dataDir = join(folder, "data");
const clock = manualClock();
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml") };

beforeAll(() => {
  mkdirSync(dataDir);
  writeFileSync(
    environment.SHRUTI_CONFIG,
    `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n[metrics]\ntoken = "geheim"\n`,
  );
  openDatabase(databasePath(dataDir)).close();
});
afterAll(() => rmSync(folder, { recursive: true }));

const run = (...argv: string[]) => runIn(environment, ...argv);

const runIn = (env: Record<string, string>, ...argv: string[]) => runCaptured(argv, env, clock);

/** Runs a command that must succeed, and reads its JSON. */
async function json<T = Record<string, unknown>>(...argv: string[]): Promise<T> {
  return jsonIn(environment, ...argv);
}

async function jsonIn<T = Record<string, unknown>>(
  env: Record<string, string>,
  ...argv: string[]
): Promise<T> {
  const { status, out, err } = await runIn(env, ...argv, "--json");
  expect({ status, err }).toEqual({ status: 0, err: "" });
  return JSON.parse(out) as T;
}

async function newOrganization(): Promise<string> {
  return (await run("orgs", "create", "Physics")).out.trim();
}

describe("usage of the command line", () => {
  const wrong: [string, string[], string][] = [
    ["an unknown command", ["sing"], "unknown command 'sing'"],
    ["an unknown verb", ["orgs", "sing"], "unknown command 'sing'"],
    ["a noun alone", ["orgs"], "Usage: shruti orgs"],
    ["nothing", [], "Usage: shruti"],
    ["an unknown option", ["orgs", "list", "--loud"], "unknown option '--loud'"],
    ["a missing option", ["credit", "show"], "--org <id>' not specified"],
    ["a missing argument", ["orgs", "create"], "missing required argument 'name'"],
    ["an argument too many", ["orgs", "list", "x"], "too many arguments"],
    [
      "an amount that is not a whole number",
      ["credit", "grant", "--org", "x", "--paise", "1.5"],
      "It is a whole number\n",
    ],
    ["a grant of nothing", ["credit", "grant", "--org", "org_x", "--paise", "0"], "positive amount"],
    ["a negative grant", ["credit", "grant", "--org", "org_x", "--paise", "-5"], "--correction"],
    [
      "a duration that is not valid",
      ["keys", "create", "--project", "p", "--name", "n", "--expires", "90"],
      "90d",
    ],
    ["a day that does not exist", ["usage", "export", "--org", "x", "--from", "2026-02-30"], "2026-11-21"],
    ["a format that does not exist", ["usage", "export", "--org", "x", "--format", "xml"], "csv, json"],
    ["a config file that does not exist", ["--config", "/nowhere.toml", "orgs", "list"], "cannot be read"],
    [
      "a language the model lacks",
      ["transcribe", "/nowhere.wav", "--language", "xx"],
      "does not support the language",
    ],
    [
      "a result and a record at once",
      ["transcriptions", "show", "tr_x", "--format", "srt", "--json"],
      "not both",
    ],
    [
      "a capability that is only announced",
      ["transcribe", "/nowhere.wav", "--language", "auto"],
      "language.auto",
    ],
    [
      "two files with one target",
      ["transcribe", "/a/x.wav", "/b/x.flac", "--output", "/nowhere"],
      "/nowhere/x.txt",
    ],
    ["a weight out of bounds", ["orgs", "set", "x", "--weight", "0"], "from 1 to 1000"],
  ];
  for (const [name, argv, message] of wrong) {
    test(`${name} is wrong usage`, async () => {
      const { status, out, err } = await run(...argv);
      expect(err).toContain(message);
      expect({ status, out }).toEqual({ status: 2, out: "" });
    });
  }

  // A file where a folder is needed, or the reverse: a sentence with the path, and nothing is made.
  const file = () => environment.SHRUTI_CONFIG;
  const names = () =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => !/-(shm|wal)$/.test(name))
      .sort();
  test.each<[string, () => string[], string]>([
    [
      "init --data",
      () => ["--config", join(folder, "new.toml"), "init", "--data", file()],
      "is a file, not a folder",
    ],
    [
      "init --data below it",
      () => ["--config", join(folder, "new.toml"), "init", "--data", join(file(), "x")],
      "a part of this path is a file",
    ],
    [
      "init --config below it",
      () => ["--config", join(file(), "new.toml"), "init", "--data", join(folder, "new")],
      "is a file, not a folder",
    ],
    ["backup", () => ["backup", join(file(), "x.db")], "is not a folder"],
    ["backup --all", () => ["backup", join(file(), "x.tar"), "--all"], "is not a folder"],
    ["backup --to", () => ["backup", "--to", file()], "a part of this path is a file"],
    ["bundle keygen", () => ["bundle", "keygen", join(file(), "k")], "is not a folder"],
    [
      "a key",
      () => ["bundle", "verify", file(), "--key", join(file(), "k")],
      "a part of this path is a file",
    ],
  ])("%s with a file in the place of a folder, or the reverse", async (_, args, message) => {
    const before = names();
    const { status, out, err } = await run(...args());
    expect({ status, out }).toEqual({ status: 2, out: "" });
    expect(err).toMatch(/^error: [^\n]+\n$/);
    expect(err).toContain(message);
    expect(names()).toEqual(before);
  });

  // An escape sequence, its one-byte form, a line of its own, and text that is turned.
  const HOSTILE = "a\u001b[2J\u009b2J\nerror: forged\r\u202eb";
  test.each([
    ["a command", [HOSTILE]],
    ["an option", ["orgs", "list", `--${HOSTILE}`]],
    ["an argument", ["orgs", "show", HOSTILE]],
    ["a choice", ["usage", "export", "--format", HOSTILE]],
    ["a config file", ["--config", `/nowhere/${HOSTILE}`, "orgs", "list"]],
    ["a recording", ["transcribe", "--language", "en", join(folder, `${HOSTILE}.wav`)]],
    ["a model", ["models", "add", `/nowhere/${HOSTILE}`]],
    ["a key", ["bundle", "verify", "/nowhere/x", "--key", `/nowhere/${HOSTILE}`]],
    ["a backup", ["backup", "verify", `/nowhere/${HOSTILE}`]],
    ["a receipt", ["receipts", "verify", `/nowhere/${HOSTILE}`]],
  ])("%s with control characters in its name does not control the terminal", async (_, argv) => {
    const { status, out, err } = await run(...argv);
    expect(status).not.toBe(0);
    expect(err).toContain("a?[2J?2J");
    expect(out + err).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u);
  });

  test("names with control characters are escaped in JSON and replaced elsewhere", async () => {
    const { id } = await json<{ id: string }>("orgs", "create", "a\u202eb\u2066");
    const { out } = await run("orgs", "show", id, "--json");
    expect(out).toContain(String.raw`"a\u202eb\u2066"`);
    expect((await run("orgs", "show", id)).out).toContain("a?b?");
  });

  test("help ends with status 0", async () => {
    for (const argv of [["--help"], ["help"], ["orgs", "--help"], ["help", "credit"]]) {
      const { status, out, err } = await run(...argv);
      expect({ status, err }).toEqual({ status: 0, err: "" });
      expect(out).toContain("Usage: shruti");
    }
  });

  const missing: string[][] = [
    ["orgs", "show", "org_none"],
    ["orgs", "disable", "org_none"],
    ["orgs", "set", "org_none", "--weight", "2"],
    ["projects", "show", "prj_none"],
    ["projects", "create", "Lab", "--org", "org_none"],
    ["projects", "list", "--org", "org_none"],
    ["keys", "create", "--project", "prj_none", "--name", "n"],
    ["keys", "list", "--project", "prj_none"],
    ["keys", "list", "--org", "org_none"],
    ["keys", "revoke", "key_none"],
    ["credit", "grant", "--org", "org_none", "--paise", "5"],
    ["credit", "show", "--org", "org_none"],
    ["credit", "ledger", "--org", "org_none"],
    ["usage", "export", "--org", "org_none"],
    ["restore", "/nowhere.db"],
    ["bundle", "keygen", "/nowhere/key.pem"],
    ["transcriptions", "cancel", "tr_none", "--yes"],
    ["models", "add", "/nowhere.bin"],
  ];
  for (const argv of missing) {
    test(`${argv.join(" ")} finds nothing`, async () => {
      const { status, out, err } = await run(...argv);
      expect({ status, out }).toEqual({ status: 4, out: "" });
      expect(err).toMatch(/^error: [^\n]+\n$/);
    });
  }

  test("without a database, commands say what to do and create none; the server does the same", async () => {
    const empty = join(folder, "empty");
    for (const argv of [["orgs", "list"], ["serve"]]) {
      const { status, err } = await runIn({ SHRUTI_STORAGE_DATA_DIR: empty }, ...argv);
      expect(status).toBe(4);
      expect(err).toContain("shruti init");
    }
    expect(readdirSync(folder)).not.toContain("empty");
  });

  test("--config goes before or after the command", async () => {
    for (const argv of [
      ["--config", environment.SHRUTI_CONFIG, "orgs", "list"],
      ["orgs", "list", "--config", environment.SHRUTI_CONFIG],
    ]) {
      expect((await runIn({}, ...argv)).status).toBe(0);
    }
  });
});

describe("organizations, projects, keys", () => {
  test("an organization is created, shown, changed, disabled and enabled", async () => {
    const created = await json<{ id: string }>("orgs", "create", "Physics", "--price", "2500");
    expect(created).toMatchObject({
      name: "Physics",
      disabled: false,
      price_paise_per_audio_hour: 2500,
      max_queued: null,
      effective: { price_paise_per_audio_hour: 2500, max_queued: 1000 },
      credit: { balance_paise: 0, reserved_paise: 0, available_paise: 0 },
      created_at: "2026-11-21T04:05:06.789Z",
    });
    const { id } = created;
    await run("orgs", "set", id, "--price", "default", "--daily-spend-limit", "500", "--weight", "4");
    expect(await json("orgs", "show", id)).toMatchObject({
      price_paise_per_audio_hour: null,
      daily_spend_limit_paise: 500,
      weight: 4,
      effective: { price_paise_per_audio_hour: 3000, daily_spend_limit_paise: 500 },
    });
    expect(await json("orgs", "disable", id)).toMatchObject({ disabled: true });
    expect((await run("orgs", "show", id)).out).toContain("disabled");
    expect(await json("orgs", "enable", id)).toMatchObject({ disabled: false, disabled_at: null });
    expect((await run("orgs", "set", id)).status).toBe(2);
    const listed = await json<{ id: string }[]>("orgs", "list");
    expect(listed.map((organization) => organization.id)).toContain(id);
    expect((await run("orgs", "list")).out).toContain(id);
  });

  test("a key is printed alone, once, and works until it is revoked", async () => {
    const project = await json<{ id: string }>("projects", "create", "Lab", "--org", await newOrganization());
    expect(await json("projects", "show", project.id)).toEqual(project);
    const { out, err } = await run(
      ...["keys", "create", "--project", project.id, "--name", "ci"],
      ...["--scopes", "usage:read, models:read", "--expires", "90d"],
    );
    expect(out).toMatch(/^shr_\w{24}_\w{49}\n$/);
    expect(err).toContain("not shown again");
    const key = out.trim();
    const listed = await json<{ id: string; expires_at: string }[]>("keys", "list", "--project", project.id);
    expect(listed).toMatchObject([
      {
        name: "ci",
        state: "active",
        scopes: ["models:read", "usage:read"],
        expires_at: "2027-02-19T04:05:06.789Z",
      },
    ]);
    const table = (await run("keys", "list", "--project", project.id)).out;
    for (const text of [JSON.stringify(listed), table]) expect(text).not.toContain(key.slice(30));

    const database = openDatabase(databasePath(dataDir));
    const server = createApiKeyService({ database, clock });
    expect(server.authenticate(`Bearer ${key}`).projectId).toBe(project.id);
    expect(await json("keys", "revoke", listed[0]?.id ?? "")).toMatchObject({ state: "revoked" });
    server.forgetCached();
    expect(() => server.authenticate(`Bearer ${key}`)).toThrow("missing or invalid");
    server.close();
    database.close();
    expect(await json("keys", "list", "--project", project.id)).toMatchObject([{ state: "revoked" }]);
    expect(
      (await run("keys", "create", "--project", project.id, "--name", "x", "--scopes", "all")).status,
    ).toBe(2);
  });
});

describe("money", () => {
  test("grants and corrections appear in the ledger, and the audit is sound", async () => {
    const org = await newOrganization();
    expect(await json("credit", "grant", "--org", org, "--paise", "123456", "--note", "Q1")).toMatchObject({
      kind: "grant",
      amount_paise: 123456,
      note: "Q1",
      credit: { balance_paise: 123456, available_paise: 123456 },
    });
    expect((await run("credit", "show", "--org", org)).out).toContain("₹1,234.56 (123456 paise)");
    const correct = ["credit", "grant", "--org", org, "--correction", "--paise"];
    expect((await run(...correct, "-56")).err).toContain("--note");
    expect((await run(...correct, "-56", "--note", "typo")).out).toContain("₹1,234.00");
    expect((await run(...correct, "-123401", "--note", "typo")).status).toBe(1);
    const entries = await json<{ sequence: number }[]>("credit", "ledger", "--org", org);
    expect(entries).toMatchObject([{ amount_paise: -56 }, { amount_paise: 123456 }]);
    const page = await run("credit", "ledger", "--org", org, "--limit", "1");
    expect(page.err).toContain(`--after ${entries[0]?.sequence}`);
    expect(await json("credit", "ledger", "--org", org, "--after", `${entries[0]?.sequence}`)).toHaveLength(
      1,
    );

    const report = await json<{ head: { sequence: number; hash: string } }>("credit", "audit");
    expect(report).toMatchObject({ ok: true, problem_count: 0, problems: [] });
    const anchor = `${report.head.sequence}:${report.head.hash}`;
    expect((await run("credit", "audit", "--anchor", anchor)).status).toBe(0);
    const forged = await run("credit", "audit", "--anchor", `${report.head.sequence}:${"0".repeat(64)}`);
    expect(forged.status).toBe(1);
    expect(forged.out).toContain("anchor: ");
  });

  test("usage is exported by days of the billing time zone, as CSV and JSON", async () => {
    // These events have no ledger entries, so they are not in the database that another test audits.
    const usageDir = join(folder, "usage");
    const env = { SHRUTI_STORAGE_DATA_DIR: usageDir };
    const database = openDatabase(databasePath(usageDir));
    const org = (await runIn(env, "orgs", "create", "Physics")).out.trim();
    const event = {
      organizationId: org,
      projectId: "prj_x",
      modelId: '=cmd|"x"',
      state: "completed",
    } as const;
    const more = { audioMs: 1500, billedMs: 3000, channels: 2, amountPaise: 3 };
    // In Kolkata these are 23:59:59.999 on the 20th, 0:00 on the 21st and 0:00 on the 22nd.
    const midnight = Date.UTC(2026, 10, 20, 18, 30);
    for (const [n, at] of [midnight - 1, midnight, midnight + 86_400_000].entries()) {
      insertUsageEvent(database.store, { ...event, ...more, transcriptionId: `tr_${org}_${n}` }, at);
    }
    database.close();
    const day = ["usage", "export", "--org", org, "--from", "2026-11-21", "--to", "2026-11-21"];
    const csv = (await runIn(env, ...day)).out.split("\r\n");
    expect(csv[0]).toBe(
      "id,created_at,organization_id,project_id,transcription_id,model,state,audio_seconds,billed_seconds,channels,amount_paise",
    );
    expect(csv[1]?.slice(csv[1].indexOf(","))).toBe(
      `,2026-11-20T18:30:00.000Z,${org},prj_x,tr_${org}_1,"'=cmd|""x""",completed,1.5,3,2,3`,
    );
    expect(csv.slice(2)).toEqual([""]);
    const events = await jsonIn<{ created_at: string }[]>(env, ...day);
    expect(events.map((e) => e.created_at)).toEqual(["2026-11-20T18:30:00.000Z"]);
    const all = await jsonIn<unknown[]>(env, "usage", "export", "--org", org);
    expect(all).toHaveLength(3);
    const until = await jsonIn<unknown[]>(
      env,
      "usage",
      "export",
      "--org",
      org,
      "--to",
      "2026-11-21T00:00:00+05:30",
    );
    expect(until).toHaveLength(1);
    expect(await jsonIn<unknown[]>(env, "usage", "export", "--org", org, "--from", "2026-12-01")).toEqual([]);
    const backwards = await runIn(
      env,
      "usage",
      "export",
      "--org",
      org,
      "--from",
      "2026-11-22",
      "--to",
      "2026-11-21",
    );
    expect(backwards.status).toBe(2);
  });
});

describe("config and version", () => {
  test("config check, show and defaults print what they should", async () => {
    expect((await run("config", "check")).out).toBe(`${environment.SHRUTI_CONFIG}: ok\n`);
    for (const argv of [
      ["config", "show"],
      ["config", "show", "--json"],
    ]) {
      const { out } = await run(...argv);
      expect(out).toContain(dataDir);
      expect(out).not.toContain("geheim");
    }
    expect((await run("config", "defaults")).out).toContain("price_paise_per_audio_hour = 3000");
  });

  test("a config file that cannot be used is wrong usage, and the message names its line", async () => {
    const path = join(folder, "wrong.toml");
    writeFileSync(path, '[billing]\ntimezone = "Asia/Nowhere"\n');
    const zone = await run("config", "check", "--config", path);
    expect(zone).toMatchObject({ status: 2, out: "" });
    expect(zone.err).toContain("Asia/Nowhere");
    writeFileSync(path, "[billing]\n\nprice = 3\n");
    expect((await run("config", "check", "--config", path)).err).toStartWith(
      `error: ${path}:3: unknown setting billing.price; Shruti`,
    );
  });

  test("config check reports every mistake, in the file and in what its settings name, also as JSON", async () => {
    const path = join(folder, "many.toml");
    writeFileSync(
      path,
      `[storage]\ndata_dir = "${dataDir}"\n[engine]\ndevice = "tpu"\n[server]\ntls_cert = "none.pem"\ntls_key = "none.pem"\ntrusted_proxies = ["home"]\n`,
    );
    const expected = [
      `${path}:4: engine.device must be one of`,
      "server.trusted_proxies: ",
      `server.tls_cert: ${join(folder, "none.pem")} cannot be read`,
    ];
    const text = await run("config", "check", "--config", path);
    expect(text).toMatchObject({ status: 2, out: "" });
    const lines = text.err.trimEnd().split("\n");
    expect(lines.length).toBe(expected.length);
    for (const [index, start] of expected.entries()) expect(lines[index]).toStartWith(`error: ${start}`);
    const json = await run("config", "check", "--json", "--config", path);
    expect(json.status).toBe(2);
    const { ok, config, problems } = JSON.parse(json.out);
    expect({ ok, config, count: problems.length }).toEqual({ ok: false, config: path, count: 3 });
    expect(problems[0].place).toBe(`${path}:4`);
  });

  const unusable: [string, string][] = [
    ["SHRUTI_SERVER_LISTEN", "127.0.0.1:65536"],
    ["SHRUTI_STORAGE_DATA_DIR", ""],
    ["SHRUTI_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.0/8,foo"],
    ["SHRUTI_WEBHOOKS_CA_FILE", "/nowhere.pem"],
    ["SHRUTI_SERVER_TLS_CERT", "/nowhere.pem"],
  ];
  for (const [name, value] of unusable) {
    test(`${name}=${value} is refused by the config check and by the server alike`, async () => {
      for (const argv of [["config", "check"], ["serve"]]) {
        const environmentWith = { SHRUTI_SERVER_LISTEN: "127.0.0.1:0", ...environment, [name]: value };
        const { status, out, err } = await runIn(environmentWith, ...argv);
        expect({ status, out }).toEqual({ status: 2, out: "" });
        expect(err).toMatch(/error: [^\n]+\n$/);
      }
    });
  }

  test("version prints the version", async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dir, "../../package.json"), "utf8"));
    const { processor_code: code } = (await json("version")) as unknown as BuildFacts;
    const limits = code.complete ? "" : ` (built for one machine: ${code.names.join(", ")})`;
    expect((await run("version")).out).toBe(`shruti ${version}${limits}\n`);
    expect((await run("--version")).out).toBe(`${version}\n`);
    expect(await json("version")).toMatchObject({ version });
  });
});

describe("backup and restore", () => {
  test("a restore brings the backup back, and keeps the replaced database beside it", async () => {
    const before = await newOrganization();
    const file = join(folder, "backup.db");
    const server = openDatabase(databasePath(dataDir));
    expect(await json("backup", file)).toMatchObject({ file });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await run("backup", file)).status).toBe(5);
    const after = await newOrganization();

    const refused = await run("restore", file);
    expect(refused.status).toBe(5);
    expect(refused.err).toContain("stop the server");
    server.close();
    await closeForgotten(databasePath(dataDir));
    const restored = await json<{ previous: string }>("restore", file);
    expect(restored).toMatchObject({ ledger: { ok: true } });
    expect((await run("orgs", "show", before)).status).toBe(0);
    expect((await run("orgs", "show", after)).status).toBe(4);
    const previous = openDatabase(restored.previous);
    expect(previous.sqlite.query("SELECT id FROM organizations WHERE id = ?").get(after)).toEqual({
      id: after,
    });
    previous.close();
    expect(readdirSync(dataDir).filter((name) => /restoring|partial/.test(name))).toEqual([]);
  });

  test("a file that is not a backup is refused, and nothing changes", async () => {
    const org = await newOrganization();
    const text = join(folder, "text.db");
    writeFileSync(text, "no database at all");
    const foreign = join(folder, "foreign.db");
    const other = openDatabase(foreign);
    other.sqlite.run("DROP TABLE schema_migrations");
    other.close();
    await closeForgotten(databasePath(dataDir));
    for (const [file, reason] of [
      [text, "is not a valid backup"],
      [foreign, "it has no list of migrations"],
    ] as const) {
      const { status, err } = await run("restore", file);
      expect(status).toBe(2);
      expect(err).toContain(reason);
    }
    expect((await run("orgs", "show", org)).status).toBe(0);
  });
});
