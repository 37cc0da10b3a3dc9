import { Database as SqliteDatabase } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../lib/log.ts";
import { auditHash, exportAudit, recordAct } from "../store/audit-log.ts";
import { type Database, databasePath, openDatabase, transaction } from "../store/database.ts";
import { GENESIS_HASH } from "../store/ledger.ts";
import { closeForgotten } from "../testing/kits/forgotten-connections.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { runCaptured } from "../testing/kits/run-cli.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { AUDIT_HEADS_FILE, holdsNewestHead, signAuditHead } from "./audit-heads.ts";
import { backUpDatabase } from "./backups/database-backup.ts";
import { restoreDatabase } from "./backups/database-restore.ts";

/** What is found of an attack on the audit log by a person who can write to the database alone, and what is not. */

const clock = manualClock();
let dataDir: string;
let database: Database | undefined;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "shruti-audit-heads-"));
  database = openDatabase(databasePath(dataDir));
});
afterEach(() => {
  close();
  rmSync(dataDir, { recursive: true });
});

const heads = () => join(dataDir, AUDIT_HEADS_FILE);
const linesOf = () => readFileSync(heads(), "utf8").split("\n").filter(Boolean);
const opened = () => {
  database ??= openDatabase(databasePath(dataDir));
  return database;
};

function close(): void {
  database?.close();
  database = undefined;
}

function record(count: number): void {
  clock.advance(1000);
  transaction(opened().store, (tx) => {
    for (let index = 0; index < count; index++)
      recordAct(tx, { action: "organization.disable", object: `org_${index}` }, clock.now());
  });
}

const sign = (reason: "start" | "day" = "day") => signAuditHead(opened().store, dataDir, reason, clock.now());

/** Changes the database as a person does who can write to its file: without triggers. */
function attack(change: (sqlite: SqliteDatabase) => void): void {
  close();
  const sqlite = new SqliteDatabase(databasePath(dataDir));
  const triggers = sqlite
    .query<{ name: string; sql: string }, []>("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
    .all();
  for (const { name } of triggers) sqlite.run(`DROP TRIGGER ${name}`);
  change(sqlite);
  for (const { sql } of triggers) sqlite.run(sql);
  sqlite.close();
}

/** Computes the whole chain again, so that it is right in itself. */
function rechain(sqlite: SqliteDatabase): void {
  let previousHash = GENESIS_HASH;
  const entries = [...exportAudit(opened().store)];
  close();
  for (const [index, entry] of entries.entries()) {
    const sequence = index + 1;
    const hash = auditHash({ ...entry, sequence, previousHash });
    sqlite.run("UPDATE audit_log SET sequence = ?, previous_hash = ?, hash = ? WHERE sequence = ?", [
      sequence,
      previousHash,
      hash,
      entry.sequence,
    ]);
    previousHash = hash;
  }
}

async function verify(...options: string[]) {
  close();
  const environment = { SHRUTI_STORAGE_DATA_DIR: dataDir };
  const { status, out } = await runCaptured(["audit", "verify", "--json", ...options], environment, clock);
  const { problems, newest_signed_head: newest, not_proven: notProven } = JSON.parse(out);
  return { status, problems, newest: newest?.sequence, notProven } as {
    status: number;
    problems: string[];
    newest: number | undefined;
    notProven: string[];
  };
}

const ATTACKS: Record<string, { change: (sqlite: SqliteDatabase) => void; problems: RegExp }> = {
  "its end removed": {
    change: (sqlite) => void sqlite.run("DELETE FROM audit_log WHERE sequence > 3"),
    problems: /^entry 5 is not the one with the hash signed at 2026.*: the log ends at entry 3$/,
  },
  "all of it removed": {
    change: (sqlite) => void sqlite.run("DELETE FROM audit_log"),
    problems: /^entry 5 is not the one with the hash signed at 2026/,
  },
  "the copy of the head in the database removed as well": {
    change: (sqlite) => {
      sqlite.run("DELETE FROM audit_log");
      sqlite.run("DELETE FROM settings");
    },
    problems: /^entry 5 is not the one with the hash signed at 2026/,
  },
  "an entry changed and all hashes computed again": {
    change: (sqlite) => {
      sqlite.run("UPDATE audit_log SET object = 'org_other' WHERE sequence = 2");
      rechain(sqlite);
    },
    problems: /^entry 5 is not the one with the hash signed at 2026/,
  },
  "an entry removed and all hashes computed again": {
    change: (sqlite) => {
      sqlite.run("DELETE FROM audit_log WHERE sequence = 2");
      rechain(sqlite);
    },
    problems: /^entry 5 is not the one with the hash signed at 2026/,
  },
};

describe("a signed head", () => {
  test("is proof up to its entry, and what comes later is named as not proven", async () => {
    record(5);
    const head = sign();
    expect(statSync(heads()).mode & 0o777).toBe(0o600);
    expect(await verify()).toMatchObject({ status: 0, problems: [], newest: 5 });
    record(2);
    const { status, notProven } = await verify("--anchor", `${head?.sequence}:${head?.hash}`);
    expect({ status, notProven }).toEqual({
      status: 0,
      notProven: ["that the entries after 5 are all, and as they were written: no signed head is newer"],
    });
    expect((await verify()).notProven[1]).toContain("no person has removed the newest signed heads together");
  });

  test.each(Object.entries(ATTACKS))("finds a log with %s", async (_what, { change, problems }) => {
    record(5);
    sign();
    record(2);
    attack(change);
    expect(holdsNewestHead(opened().store, dataDir)).toBe(false);
    const verified = await verify();
    expect(verified.status).toBe(1);
    expect(verified.problems).toEqual([expect.stringMatching(problems)]);
  });

  test("is still missed after the log has grown again and was signed again", async () => {
    record(5);
    sign();
    attack((sqlite) => void sqlite.run("DELETE FROM audit_log WHERE sequence > 3"));
    record(4);
    sign();
    const { status, problems } = await verify();
    expect({ status, count: problems.length }).toEqual({ status: 1, count: 1 });
    expect(problems[0]).toStartWith("entry 5 is not the one with the hash signed at");
  });

  test("of another key, or a line that was made up or cut, proves nothing and is named", async () => {
    record(3);
    sign();
    const [line = ""] = linesOf();
    appendFileSync(heads(), `${line.replace('"entry":3', '"entry":9')}\n{}\n${line.slice(0, 300)}`);
    record(1);
    sign();
    expect(linesOf()).toHaveLength(5);
    const { status, newest, notProven } = await verify();
    expect({ status, newest }).toEqual({ status: 0, newest: 4 });
    expect(notProven.at(-1)).toStartWith("what 3 lines of audit-heads.jsonl say");
  });

  test("lacks where nothing was signed, which is said", async () => {
    expect((await verify()).notProven).toHaveLength(1);
    record(3);
    const { status, newest, notProven } = await verify();
    expect({ status, newest }).toEqual({ status: 0, newest: undefined });
    expect(notProven[0]).toStartWith("that the end of the log is there");
  });

  test("is written once for each entry, and the file stays small", () => {
    record(1);
    for (let index = 0; index < 5; index++) sign("start");
    expect(linesOf()).toHaveLength(1);
    // As after very many starts.
    writeFileSync(heads(), `${linesOf()[0]}\n`.repeat(2_000));
    record(1);
    sign();
    expect(linesOf()).toHaveLength(501);
    expect(statSync(heads()).mode & 0o777).toBe(0o600);
  });

  test("is not written through a link", () => {
    record(1);
    writeFileSync(join(dataDir, "target"), "");
    symlinkSync(join(dataDir, "target"), heads());
    expect(() => sign()).toThrow("ELOOP");
    expect(readFileSync(join(dataDir, "target"), "utf8")).toBe("");
  });
});

describe("a restore", () => {
  const config = () => testConfig({ storage: { data_dir: dataDir, reserve_bytes: 0 } });
  const restore = async (file: string) => {
    close();
    await closeForgotten(databasePath(dataDir));
    clock.advance(1000);
    return restoreDatabase({ config: config(), clock, log: silentLog, confirmKeys: true }, file);
  };

  test("begins a new log: heads of later entries are not missed, and those that are signed afterwards are", async () => {
    record(3);
    sign();
    close();
    backUpDatabase({ config: config(), clock }, join(dataDir, "backup.db"));
    expect(await verify()).toMatchObject({ status: 0, newest: 4 });
    record(5);
    sign();
    const { previousPath = "" } = await restore(join(dataDir, "backup.db"));
    expect(await verify()).toMatchObject({ status: 0, problems: [], newest: 4 });
    expect(holdsNewestHead(opened().store, dataDir)).toBe(true);
    record(2);
    sign("start");
    expect(await verify()).toMatchObject({ status: 0, newest: 6 });
    attack((sqlite) => void sqlite.run("DELETE FROM audit_log WHERE sequence > 5"));
    expect(await verify()).toMatchObject({ status: 1 });
    // The database from before the restore comes back.
    await restore(previousPath);
    expect(await verify()).toMatchObject({ status: 0, problems: [] });
  });

  test("whose note the key has not signed does not begin a new log", async () => {
    record(5);
    sign();
    close();
    // Its write-ahead log is in the file once no connection is left.
    await closeForgotten(databasePath(dataDir));
    copyFileSync(databasePath(dataDir), join(dataDir, "copy.db"));
    await restore(join(dataDir, "copy.db"));
    expect(await verify()).toMatchObject({ status: 0 });
    attack((sqlite) => {
      sqlite.run("DELETE FROM audit_log WHERE sequence > 2");
      sqlite.run("UPDATE settings SET value = replace(value, 'entry', 'entries') WHERE name = 'audit.base'");
    });
    expect(await verify()).toMatchObject({ status: 1 });
  });
});
