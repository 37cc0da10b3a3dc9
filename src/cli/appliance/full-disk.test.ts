import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { ballastState } from "../../services/ballast.ts";
import { hasServer, lockDataDir } from "../../services/data-dir-lock.ts";
import { audioFilePath } from "../../store/audio-files.ts";
import { databasePath, openDatabase, transaction } from "../../store/database.ts";
import { insertUpload } from "../../store/uploads.ts";
import { fillDisk, mayMountDisks, mountSmallDisk, unmountDisk } from "../../testing/boxes/small-disk.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { insertEndpoint } from "../../webhooks/event-rows.ts";

/** What an admin can do while the disk of the data directory is full to the last byte. */

const folder = mkdtempSync(join(tmpdir(), "shruti-full-cli-"));
const disk = join(folder, "disk");
const dataDir = join(disk, "data");
const config = join(folder, "shruti.toml");
const environment = { SHRUTI_CONFIG: config, SHRUTI_LOG_LEVEL: "silent" };
const MIB = 1024 * 1024;
const ids = { organization: "", key: "", uploads: [] as string[], endpoint: newId("webhookEndpoint", 1) };

const run = (...argv: string[]) => runCaptured(argv, environment);
const filler = (n: number) => join(disk, `filler-${n}`);
let fillers = 0;
const fill = () => fillDisk(filler(fillers++));
function makeSpace(): void {
  while (fillers > 0) rmSync(filler(--fillers), { force: true });
}
const freeBytes = () => {
  const { bavail, bsize } = statfsSync(disk);
  return bavail * bsize;
};

const mayMount = mayMountDisks();

beforeAll(async () => {
  mkdirSync(disk);
  if (!mayMount) return;
  expect(mountSmallDisk(disk, 128)).toBe(true);
  const made = await runCaptured(["init", "--config", config, "--data", dataDir, "--json"], {});
  const { organization_id: organizationId, project_id: projectId } = JSON.parse(made.out);
  ids.organization = organizationId;
  ids.key = JSON.parse((await run("keys", "list", "--json")).out)[0].id;
  const database = openDatabase(databasePath(dataDir));
  mkdirSync(join(dataDir, "uploads"), { mode: 0o700 });
  transaction(database.store, (tx) => {
    insertEndpoint(tx, {
      ...{ organizationId, projectId, id: ids.endpoint, url: "http://127.0.0.1:1/", secret: "whsec_eA==" },
      createdAt: 1,
    });
    for (let n = 1; n <= 3; n++) {
      const id = newId("upload", n);
      ids.uploads.push(id);
      insertUpload(tx, {
        ...{ organizationId, projectId, id, state: "complete", bytes: 5 * MIB, tokenHash: "", createdAt: 1 },
        ...{ expiresAt: 2, finishedAt: 1, durationMs: 1000, channels: 1, sampleRateHz: 16_000 },
      });
      writeFileSync(audioFilePath(dataDir, id), new Uint8Array(5 * MIB));
    }
  });
  database.close();
});
afterAll(() => {
  unmountDisk(disk);
  rmSync(folder, { recursive: true, force: true });
});

describe.skipIf(!mayMount)("on a full disk (needs root on Linux)", () => {
  test("init has made the ballast", async () => {
    expect(existsSync(join(dataDir, "ballast"))).toBe(true);
    const kinds = JSON.parse((await run("storage", "--json")).out).kinds as { kind: string; bytes: number }[];
    expect(kinds.find(({ kind }) => kind === "ballast")?.bytes).toBe(8 * MIB);
  });

  const commands: [words: () => string[], status?: number][] = [
    [() => ["keys", "revoke", ids.key]],
    [() => ["keys", "list"]],
    [() => ["orgs", "disable", ids.organization]],
    [() => ["webhooks", "disable", ids.endpoint]],
    [() => ["webhooks", "remove", ids.endpoint]],
    [() => ["console"]],
    [() => ["console", "--end-sessions"]],
    [() => ["storage"]],
    // No server runs.
    [() => ["status"], 1],
    [() => ["backup", join(folder, "copy.db")]],
    [() => ["backup", join(folder, "copy.tar"), "--all"]],
    [() => ["backup", "--to", join(folder, "store")]],
    [() => ["uploads", "delete", ids.uploads[0] ?? ""]],
    [() => ["storage", "prune", "--older-than", "1d", "--yes"]],
    [() => ["orgs", "purge", ids.organization, "--yes"]],
  ];
  test.each(commands.map(([words, status = 0]) => [words().slice(0, 2).join(" "), words, status] as const))(
    "%s works, again and again",
    async (_, words, status) => {
      for (let n = 0; n < (words()[0] === "console" ? 3 : 1); n++) {
        fill();
        expect(freeBytes()).toBe(0);
        expect(await run(...words())).toMatchObject({ status });
        makeSpace();
        // The next command that may use the ballast fills it again; where a server runs, the server does.
        expect((await run("console", "--end-sessions")).status).toBe(0);
        expect(ballastState(dataDir).bytes).toBe(8 * MIB);
      }
    },
    30_000,
  );

  test("a running server that cannot write its status file is reported as running", async () => {
    const lock = lockDataDir(dataDir);
    expect(hasServer(dataDir)).toBe(true);
    const shown = await run("status", "--json");
    expect([shown.status, JSON.parse(shown.out).running]).toEqual([0, true]);
    expect((await run("status")).out).toContain("running  yes; its status file is old or missing");
    lock.release();
    expect(hasServer(dataDir)).toBe(false);
    expect((await run("status")).status).toBe(1);
  });

  test("a backup that the database cannot note counts as made, with a warning", async () => {
    const other = new SqliteDatabase(databasePath(dataDir));
    rmSync(join(dataDir, "ballast"));
    fill();
    try {
      const file = join(folder, "unrecorded.db");
      const made = await run("backup", file, "--json");
      expect([made.status, JSON.parse(made.out).recorded]).toEqual([0, false]);
      expect(made.err).toContain("warning: the backup is whole, and the audit log has no entry of it");
      expect((await run("backup", "verify", file)).status).toBe(0);
      const store = await run("backup", "--to", join(folder, "store"), "--json");
      expect([store.status, JSON.parse(store.out).recorded]).toEqual([0, false]);
    } finally {
      makeSpace();
      other.close();
    }
  });

  test("without a ballast, the message says what to do", async () => {
    fill();
    const { status, err } = await run("console");
    makeSpace();
    expect(status).toBe(1);
    expect(err).toMatch(/full.*; `shruti storage` shows what it is used for/);
  });
});
