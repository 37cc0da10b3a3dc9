import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Backups of everything under load, restored on a machine that has nothing. */

let installation: Installation;
let server: RunningServer;
let other: Installation | undefined;
beforeAll(async () => {
  installation = await install();
  server = await (await installation.serve()).ready();
}, 300_000);
afterAll(async () => {
  await other?.remove();
  await installation?.remove();
});

type Verdict = { ok: boolean; backups: { ok: boolean; problem?: string }[] };
type Restored = {
  recordings: number;
  missing_recordings: { count: number; first?: string[] };
  missing: string[];
};

/** Empties an installation: what remains is the executable. */
function emptied(one: Installation): Installation {
  rmSync(one.dataDir, { recursive: true });
  rmSync(one.configPath);
  return one;
}

test("a backup under load is restored elsewhere in one command, and work continues there", async () => {
  const api = server.api();
  const short = await uploaded(api, sampleBytes("01-en"));
  const done = await api.start({ audio: { upload_id: short }, language: "en" });
  await reached(api, done.body.id);
  const { text } = await api.result(done.body.id);
  const long = await uploaded(api, concatenated(["12-en-long"], 8));
  const unfinished: string[] = [];
  for (let count = 0; count < 2; count += 1) {
    unfinished.push((await api.start({ audio: { upload_id: long }, language: "en" })).body.id);
  }
  // Clients send, start and delete recordings for as long as backups are made.
  let isOver = false;
  const traffic = Promise.all(
    [1, 2, 3].map(async () => {
      while (!isOver) {
        const id = await uploaded(api, sampleBytes("02-hi"));
        const { body } = await api.start({ audio: { upload_id: id }, language: "hi" });
        if (Math.random() < 0.5) await api.cancel(body.id);
        await api.transcribe(sampleBytes("01-en"), { language: "en" }).catch(() => {});
      }
    }),
  );
  const store = join(installation.folder, "store");
  const archive = join(installation.folder, "all.tar");
  await installation.output("backup", archive, "--all");
  for (let count = 0; count < 3; count += 1)
    await installation.output("backup", "--to", store, "--keep", "2");
  isOver = true;
  await traffic;
  const verdict = await installation.json<Verdict>("backup", "verify", store);
  expect(verdict).toMatchObject({ ok: true, backups: [{ ok: true }, { ok: true }] });
  const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
  expect(Number(/^shruti_backup_age_seconds (\S+)$/m.exec(metrics)?.[1])).toBeLessThan(120);

  other = emptied(await install());
  for (const path of [archive, store]) {
    if (existsSync(other.dataDir)) emptied(other);
    const restored = await other.json<Restored>("restore", path, "--data", other.dataDir);
    // The backup before it has made the key that signs backups, and secrets are only copied where that is asked for.
    expect(restored).toMatchObject({
      missing_recordings: { count: 0 },
      missing: [expect.stringContaining("signing-key.pem")],
      signature: { by: "other_key" },
    });
    expect(await other.output("credit", "audit")).toContain("the ledger holds");
    const there = await (await other.serve()).ready();
    const client = there.api(installation.key);
    expect((await client.result(done.body.id)).text).toBe(text);
    for (const id of unfinished)
      expect((await reached(client, id, ["completed"], 120_000)).state).toBe("completed");
    const again = await client.start({ audio: { upload_id: short }, language: "en" });
    expect((await reached(client, again.body.id)).state).toBe("completed");
    expect((await client.result(again.body.id)).text).toBe(text);
    expect(await other.output("credit", "audit")).toContain("the ledger holds");
    expect(there.log()).not.toContain("the file of an upload is gone");
    expect(await there.stop()).toBe(0);
  }
  expect(text.length).toBeGreaterThan(10);
}, 300_000);

test("a killed backup leaves the old ones or a whole new one, and a backup of a used folder is refused", async () => {
  const store = join(installation.folder, "killed");
  await installation.output("backup", "--to", store);
  const archive = join(installation.folder, "killed.tar");
  for (let round = 0; round < 20; round += 1) {
    const args = round % 2 === 0 ? ["--to", store] : [archive, "--all"];
    const child = Bun.spawn(
      [join(installation.folder, "program/shruti"), "backup", ...args, "--config", installation.configPath],
      { stdout: "ignore", stderr: "ignore", env: { SHRUTI_SERVER_LISTEN: "127.0.0.1:0" } },
    );
    await Bun.sleep(30 + Math.random() * 250);
    child.kill("SIGKILL");
    await child.exited;
    if (existsSync(archive)) {
      expect((await installation.json<Verdict>("backup", "verify", archive)).ok).toBe(true);
      rmSync(archive);
    }
  }
  expect((await installation.json<Verdict>("backup", "verify", store)).ok).toBe(true);
  await installation.output("backup", "--to", store, "--keep", "1");
  await installation.output("backup", archive, "--all");
  expect((await installation.json<Verdict>("backup", "verify", store)).backups).toHaveLength(1);
  const left = [store, join(store, "backups"), join(store, "objects"), installation.folder].flatMap((path) =>
    readdirSync(path).filter((name) => /unfinished|partial|needed/.test(name)),
  );
  expect(left).toEqual([]);
  expect(await installation.command("restore", archive)).toMatchObject({ code: 5 });
}, 120_000);

test("a recording that cannot be read: the backup continues, names it, ends with 9, and is never verified as complete", async () => {
  const bytes = sampleBytes("02-hi");
  const [bad, good] = [await uploaded(server.api(), bytes), await uploaded(server.api(), bytes)];
  const place = join(installation.dataDir, "uploads", bad);
  renameSync(place, `${place}.away`);
  mkdirSync(place);
  const archive = join(installation.folder, "incomplete.tar");
  const made = await installation.command("backup", archive, "--all");
  expect({ ...made }).toMatchObject({ code: 9, err: expect.stringContaining("it lacks 1 of its files") });
  expect(made.err).toContain(`${bad} (`);
  const store = join(installation.folder, "incomplete");
  const stored = await installation.command("backup", "--to", store, "--json");
  expect({ ...stored, out: JSON.parse(stored.out) }).toMatchObject({
    ...{ code: 9, out: { complete: false, lacking: { count: 1, first: [`uploads/${bad}`] } } },
  });
  for (const path of [archive, store]) {
    const verified = await installation.command("backup", "verify", path);
    expect({ ...verified }).toMatchObject({ code: 9, out: expect.stringContaining("incomplete, ") });
    expect(verified.out).toContain(`uploads/${bad}`);
    const { code, out } = await installation.command("backup", "verify", path, "--json");
    expect([code, JSON.parse(out).ok, JSON.parse(out).backups[0].ok]).toEqual([9, false, false]);
  }
  other = emptied(await install());
  const restored = JSON.parse(
    await other.output("restore", archive, "--data", other.dataDir, "--json"),
  ) as Restored;
  expect(restored.missing_recordings).toEqual({ count: 1, first: [bad] });
  expect(readFileSync(join(other.dataDir, "uploads", good)).equals(bytes)).toBe(true);
  await other.remove();
  // Once it can be read again, the backup is complete.
  rmdirSync(place);
  renameSync(`${place}.away`, place);
  expect((await installation.command("backup", "--to", store, "--keep", "1")).code).toBe(0);
  expect((await installation.command("backup", "verify", store)).code).toBe(0);
}, 120_000);

test("a recording whose bytes have changed: the backup takes its earlier copy, or names it as lacking", async () => {
  const bytes = sampleBytes("02-hi");
  const id = await uploaded(server.api(), bytes);
  const place = join(installation.dataDir, "uploads", id);
  const store = join(installation.folder, "changed");
  expect((await installation.command("backup", "--to", store)).code).toBe(0);
  writeFileSync(place, Buffer.from(bytes).fill(0, 5_000, 5_001));
  const stored = await installation.command("backup", "--to", store);
  expect({ ...stored }).toMatchObject({ code: 9, err: expect.stringContaining("recordings are damaged") });
  expect(stored.err).toContain("the backup has their copies of the backup before");
  expect((await installation.json<Verdict>("backup", "verify", store)).ok).toBe(true);
  const archive = join(installation.folder, "changed.tar");
  const made = await installation.command("backup", archive, "--all");
  expect({ ...made }).toMatchObject({ code: 9, err: expect.stringContaining(id) });
  const verified = await installation.command("backup", "verify", archive);
  expect({ ...verified }).toMatchObject({
    code: 9,
    out: expect.stringContaining(`it lacks 1: uploads/${id}`),
  });
  writeFileSync(place, bytes);
  expect((await installation.command("backup", "--to", store, "--keep", "1")).code).toBe(0);
}, 120_000);

/** The schedule's last time was missed. */
function makeBackupDue(): void {
  const sqlite = new SqliteDatabase(join(installation.dataDir, "shruti.db"));
  sqlite.run(`UPDATE settings SET value = json_set(value, '$.at_ms', 0) WHERE name = 'backup.last'`);
  sqlite.close();
}

test("the server makes the backups of its schedule, the missed one at its start", async () => {
  expect(await server.stop()).toBe(0);
  const store = join(installation.folder, "scheduled");
  mkdirSync(store);
  makeBackupDue();
  const { configPath } = installation;
  const text = await Bun.file(configPath).text();
  await Bun.write(
    configPath,
    text
      .replace(/^#?schedule = .*$/m, 'schedule = "0 3 1 1 *"')
      .replace(/^#?to = .*$/m, `to = ${JSON.stringify(store)}`),
  );
  server = await (await installation.serve()).ready();
  await until("a backup was made", () => server.log().includes("a backup was made"), 60_000);
  expect((await installation.json<Verdict>("backup", "verify", store)).ok).toBe(true);
  const [entry] = await installation.json<{ source: string; actor: string }[]>(
    ...["audit", "list", "--action", "database.backup", "--limit", "1"],
  );
  expect(entry).toMatchObject({ source: "server", actor: "shruti" });
  expect(await server.stop()).toBe(0);
}, 120_000);

test("a disk of backups that is not mounted is an error of the log, of status and of a metric", async () => {
  const store = join(installation.folder, "scheduled");
  renameSync(store, `${store}.away`);
  makeBackupDue();
  server = await (await installation.serve()).ready();
  await until("the backup failed", () => server.log().includes("the backup failed"), 60_000);
  expect(existsSync(store)).toBe(false);
  const status = await installation.json<{ backup: { problem: string } }>("status");
  expect(status.backup.problem).toContain("is its disk mounted?");
  const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
  expect(metrics).toMatch(/^shruti_backup_last_failed 1$/m);
  expect(metrics).toMatch(/^shruti_backup_failures_total 1$/m);
  expect(await server.stop()).toBe(0);
  const doctor = await installation.command("doctor");
  expect({ ...doctor }).toMatchObject({ code: 1, out: expect.stringContaining("BAD  backups") });
}, 120_000);

test("an incomplete backup of the schedule counts as made, and is an error of the log and a metric", async () => {
  const text = await Bun.file(installation.configPath).text();
  await Bun.write(installation.configPath, text.replace(/^to = .*$/m, 'to = "./scheduled-later"'));
  const [recording = ""] = readdirSync(join(installation.dataDir, "uploads"));
  // A start marks recordings that are gone as deleted. So this one is there, as a link, which no backup follows.
  const place = join(installation.dataDir, "uploads", recording);
  renameSync(place, join(installation.folder, "recording"));
  symlinkSync(join(installation.folder, "recording"), place);
  makeBackupDue();
  server = await (await installation.serve()).ready();
  await until("a backup was made", () => server.log().includes("a backup was made, and it is incomplete"));
  expect(server.log()).toContain(`uploads/${recording}`);
  const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
  expect(metrics).toMatch(/^shruti_backup_lacking_files 1$/m);
  expect(metrics).toMatch(/^shruti_backup_faulty_files 1$/m);
  expect(metrics).toMatch(/^shruti_backup_failures_total 0$/m);
  expect(await server.stop()).toBe(0);
}, 120_000);
