import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Header } from "tar";
import { newId } from "../../lib/ids.ts";
import { silentLog } from "../../lib/log.ts";
import { openDatabase } from "../../store/database.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../../testing/boxes/small-disk.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { createProjectIn } from "../../testing/makers/small-database.ts";
import { kindOfBackup, openBackup, refuseOther } from "./backup-reader.ts";
import { restoreAll } from "./backup-restore.ts";
import { verifyAll } from "./backup-verify.ts";
import { type BackupTarget, backUpEverything, lastBackup } from "./backups.ts";

const root = mkdtempSync(join(tmpdir(), "shruti-backups-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const CONFIG =
  '# our config\n[metrics]\ntoken = "hidden" # rotated in May\n# token = "older"\n[log]\nlevel = "debug"\n';
const clock = manualClock();
let dataDir: string;
let configPath: string;
let uploads: { id: string; bytes: Buffer }[];
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(root, "t-"));
  dataDir = join(folder, "data");
  configPath = join(folder, "shruti.toml");
  writeFileSync(configPath, CONFIG);
  mkdirSync(join(dataDir, "uploads"), { recursive: true });
  const database = openDatabase(join(dataDir, "shruti.db"));
  const { organizationId, projectId, uploadId } = createProjectIn(database);
  database.sqlite.run("DELETE FROM uploads WHERE id = ?", [uploadId]);
  uploads = [0, 1, 511, 512, 513, 3_000_000].map((size) => {
    const bytes = randomBytes(size);
    const id = newId("upload", Date.now());
    database.sqlite.run(
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, sha256, token_hash, created_at, expires_at)
       VALUES (?, ?, ?, 'complete', ?, ?, '', 0, 0)`,
      [id, organizationId, projectId, size, sha256(bytes)],
    );
    writeFileSync(pathOf(id), bytes);
    return { id, bytes };
  });
  // An upload that waits for bytes, and one whose recording is deleted: neither has a file in the backup.
  for (const [state, deletedAt] of [
    ["allocated", null],
    ["complete", 1],
  ] as const) {
    database.sqlite.run(
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at, deleted_at)
       VALUES (?, ?, ?, ?, 5, '', 0, 0, ?)`,
      [newId("upload", Date.now()), organizationId, projectId, state, deletedAt],
    );
  }
  database.close();
  mkdirSync(join(dataDir, "models/several"), { recursive: true });
  writeFileSync(join(dataDir, "models/tiny.bin"), "weights");
  writeFileSync(join(dataDir, "models/tiny.toml"), manifest("tiny", sha256(Buffer.from("weights"))));
  writeFileSync(join(dataDir, "models/several/model.onnx"), "part");
  writeFileSync(join(dataDir, "models/.unfinished"), "no part of a backup");
});

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");
const pathOf = (id: string) => join(dataDir, "uploads", id);
const manifest = (id: string, hash: string) =>
  `id = "${id}"\nname = "Tiny"\nversion = "1"\nsha256 = "${hash}"\nlicence = "none"\nsource = "test"\n\n[[languages]]\ncode = "hi"\nmodes = ["native"]\n`;

const config = () => testConfig({ storage: { data_dir: dataDir, reserve_bytes: 0 } });
function backUp(target: BackupTarget, more: { weights?: boolean; secrets?: boolean } = {}) {
  clock.advance(1_000);
  return backUpEverything(
    {
      ...{ config: config(), configPath, clock, environment: { SHRUTI_LOG_LEVEL: "warn", PATH: "/bin" } },
      weights: more.weights ?? false,
      secrets: more.secrets ?? false,
    },
    target,
  );
}
function last() {
  const database = openDatabase(join(dataDir, "shruti.db"));
  try {
    return lastBackup(database.store);
  } finally {
    database.close();
  }
}
const store = () => join(folder, "store");
const toStore = (keep?: number) => backUp({ store: store(), keep });
const archive = () => join(folder, "all.tar");
const newest = () => {
  const names = readdirSync(join(store(), "backups")).sort();
  return join(store(), "backups", names.at(-1) ?? "");
};
const restore = (path: string, to: string) =>
  restoreAll(path, {
    ...{ config: testConfig({ storage: { data_dir: to } }), dataDir: to, clock, log: silentLog },
  });
const problemOf = (work: Promise<unknown>) =>
  work.then(
    () => "none",
    (error: Error) => error.message,
  );
const run = (cwd: string, ...command: string[]) => {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd });
  return { exitCode, text: `${stdout}${stderr}` };
};
const verdicts = async (path: string) =>
  (await verifyAll(path)).map((one) => ("problem" in one ? one.problem : "ok"));

function expectRestored(to: string): void {
  for (const { id, bytes } of uploads) expect(readFileSync(join(to, "uploads", id)).equals(bytes)).toBe(true);
  expect(readdirSync(to).filter((name) => name.includes("unfinished"))).toEqual([]);
}

const FORMS: [name: string, make: () => Promise<string>][] = [
  [
    "an archive",
    async () => {
      await backUp({ file: archive() }, { weights: true });
      return archive();
    },
  ],
  [
    "an unpacked archive",
    async () => {
      await backUp({ file: archive() }, { weights: true });
      expect(run(folder, "tar", "-xf", archive()).exitCode).toBe(0);
      return join(folder, "shruti-backup");
    },
  ],
  [
    "a store",
    async () => {
      await backUp({ store: store(), keep: undefined }, { weights: true });
      return store();
    },
  ],
];

describe.each(FORMS)("%s", (_name, make) => {
  test("is verified, and restored on a machine that has nothing", async () => {
    const path = await make();
    expect(await verdicts(path)).toEqual(["ok"]);
    const to = join(folder, "other");
    const restored = await restore(path, to);
    expectRestored(to);
    expect(restored.missingRecordings).toEqual({ count: 0, first: [] });
    expect(restored.missingModels).toEqual([]);
    expect(restored.configText).toBe(
      '# our config\n[metrics]\ntoken = "" # rotated in May\n[log]\nlevel = "debug"\n',
    );
    expect(restored.verified.description.config).toEqual({
      path: configPath,
      emptied: ["metrics.token"],
      variables: ["SHRUTI_LOG_LEVEL"],
    });
    expect(readdirSync(join(to, "models")).sort()).toEqual(["several", "tiny.bin", "tiny.toml"]);
    expect(statSync(join(to, "shruti.db")).mode & 0o777).toBe(0o600);
    // A second time: everything is there, and the database from before is kept.
    const again = await restore(path, to);
    expect([again.written, again.kept]).toEqual([0, uploads.length + 3]);
    expect(again.previousPath).toStartWith(join(to, "shruti.db.before-"));
  });

  test("a byte that changed in any file is found, and nothing is restored", async () => {
    const path = await make();
    const small = uploads[3];
    const damaged =
      statSync(path).isFile() || existsSync(join(path, "backup.json"))
        ? path
        : join(path, "objects", sha256(small?.bytes ?? "").slice(0, 2), sha256(small?.bytes ?? ""));
    if (statSync(path).isFile()) changeByte(damaged, readFileSync(path).indexOf(small?.bytes ?? ""));
    else if (damaged === path) changeByte(join(path, "uploads", small?.id ?? ""), 7);
    else changeByte(damaged, 7);
    expect(await verdicts(path)).toEqual([`uploads/${small?.id} is damaged: its SHA-256 is another`]);
    const to = join(folder, "other");
    expect(await problemOf(restore(path, to))).toContain("is damaged");
    expect(readdirSync(to)).toEqual(["serve.lock"]);
  });
});

function changeByte(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

describe("the archive", () => {
  test("is opened by tar, and sha256sum agrees", async () => {
    const made = await backUp({ file: archive() });
    expect(made).toMatchObject({ recordings: uploads.length, missing: { count: 0 }, damaged: { count: 0 } });
    expect(run(folder, "tar", "-xf", archive())).toEqual({ exitCode: 0, text: "" });
    const plain = join(folder, "shruti-backup");
    expect(run(plain, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")).toEqual({
      exitCode: 0,
      text: "",
    });
    expect(readdirSync(join(plain, "models"))).toEqual(["tiny.toml"]);
    expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([]);
    expect(statSync(archive()).mode & 0o777).toBe(0o600);
    expect(readFileSync(archive(), "latin1")).not.toContain("hidden");
    expect(await problemOf(backUp({ file: archive() }))).toContain("exists already");
  });

  test("keeps secrets where they are asked for", async () => {
    await backUp({ file: archive() }, { secrets: true });
    expect((await restore(archive(), join(folder, "other"))).configText).toBe(CONFIG);
  });

  test("that ends anywhere too early is refused", async () => {
    await backUp({ file: archive() });
    const { size } = statSync(archive());
    for (const bytes of [size - 1, size - 512, size - 1025, size - 2048, 300_000, 5_000, 1024]) {
      const cut = join(folder, "cut.tar");
      copyFileSync(archive(), cut);
      truncateSync(cut, bytes);
      expect(await verdicts(cut)).toEqual(["it ends early: it was not copied, or not written, to its end"]);
    }
  });

  test("of a killed backup to the same file is removed by the next one", async () => {
    const gone = Bun.spawnSync(["true"]).pid;
    for (const ending of ["", ".db", ".list"]) writeFileSync(`${archive()}.${gone}.partial${ending}`, "half");
    writeFileSync(`${archive()}.${process.ppid}.partial`, "of a running process");
    await backUp({ file: archive() });
    expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([
      `all.tar.${process.ppid}.partial`,
    ]);
  });
});

/** Builds an archive of the given entries, with the right list at its end unless one is given. */
function forged(
  entries: { path: string; body?: string; type?: "File" | "SymbolicLink"; link?: string }[],
): string {
  const path = join(folder, "forged.tar");
  rmSync(path, { force: true });
  for (const { path: name, body = "", type = "File", link = "" } of entries) {
    const block = Buffer.alloc(512);
    const bytes = Buffer.from(body);
    new Header({
      path: name,
      size: bytes.length,
      mode: 0o644,
      type,
      linkpath: link,
      mtime: new Date(),
    }).encode(block);
    appendFileSync(path, Buffer.concat([block, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]));
  }
  appendFileSync(path, Buffer.alloc(1024));
  return path;
}

describe("a hostile archive is refused, and nothing is written", () => {
  let description: string;
  beforeAll(() => {
    description = JSON.stringify({
      ...{ format: 1, layout: "files", created_at: "now", version: "1", host: "h", data_dir: "/" },
      config: { path: null, emptied: [], variables: [] },
      ...{ models: { weights: true, installed: [] }, keys_left_out: [], backends: [] },
    });
  });
  const head = () => ({ path: "shruti-backup/backup.json", body: description });
  const list = (...files: [name: string, body: string][]) => ({
    path: "shruti-backup/SHA256SUMS",
    body: files.map(([name, body]) => `${sha256(body)}  ${name}\n`).join(""),
  });
  const evil = "evil";
  const named = (name: string) => [
    head(),
    { path: `shruti-backup/${name}`, body: evil },
    list(["backup.json", description], [name, evil]),
  ];
  const CASES: [name: string, entries: () => Parameters<typeof forged>[0], message: string][] = [
    [
      "a link",
      () => [head(), { path: "shruti-backup/uploads/x", type: "SymbolicLink", link: "/etc/passwd" }, list()],
      "not a regular file",
    ],
    ["a path upwards", () => named("../../evil"), "unusable line"],
    ["a path upwards below uploads", () => named("uploads/../../evil"), "unusable line"],
    [
      "an absolute path",
      () => [head(), { path: "/etc/evil", body: evil }, list()],
      "outside of shruti-backup/",
    ],
    [
      "another folder",
      () => [head(), { path: "other/evil", body: evil }, list()],
      "outside of shruti-backup/",
    ],
    ["a name that is not one of a backup", () => named("work/evil"), "unusable line"],
    [
      "a file twice",
      () => [head(), head(), list(["backup.json", description], ["backup.json", description])],
      "not in order",
    ],
    [
      "a file that is not listed",
      () => [head(), { path: "shruti-backup/shruti.toml" }, list(["backup.json", description])],
      "where the archive has",
    ],
    [
      "a file after the list",
      () => [head(), list(["backup.json", description]), { path: "shruti-backup/shruti.toml" }],
      "comes after SHA256SUMS",
    ],
    ["no database", () => [head(), list(["backup.json", description])], "it lacks shruti.db"],
    ["a database that is none", () => named("shruti.db"), "is not a valid backup"],
    [
      "another format",
      () => [{ path: "shruti-backup/backup.json", body: '{"format": 2}' }, list()],
      "a newer program may be needed",
    ],
    [
      "no description",
      () => [{ path: "shruti-backup/shruti.db" }, list()],
      "it lacks SHA256SUMS or backup.json",
    ],
  ];
  test.each(CASES)("%s", async (_name, entries, message) => {
    const path = forged(entries());
    const before = readdirSync(root, { recursive: true }).length;
    const to = join(folder, "other");
    expect(await problemOf(restore(path, to))).toContain(message);
    expect(existsSync(to) ? readdirSync(to) : ["serve.lock"]).toEqual(["serve.lock"]);
    const made = existsSync(to) ? 2 : 0;
    expect(readdirSync(root, { recursive: true }).length).toBe(before + made);
  });

  test("links in a plain folder are not followed", async () => {
    await backUp({ file: archive() });
    run(folder, "tar", "-xf", archive());
    const path = join(folder, "shruti-backup/uploads", uploads[2]?.id ?? "");
    rmSync(path);
    symlinkSync(pathOf(uploads[2]?.id ?? ""), path);
    expect(await problemOf(restore(join(folder, "shruti-backup"), join(folder, "other")))).toContain(
      "is a link",
    );
  });
});

describe("the store", () => {
  test("holds each recording once, and reads only what is new", async () => {
    const first = await toStore();
    const second = await toStore();
    const objects = uploads.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const written = (made: unknown) => (made as { written: number }).written;
    expect(written(first) - written(second)).toBe(objects + manifest("tiny", sha256("weights")).length);
    expect(await verdicts(store())).toEqual(["ok", "ok"]);
    // The same size and time: this file is not read again. Another time: it is.
    const { id = "", bytes = Buffer.alloc(0) } = uploads[4] ?? {};
    const { atime, mtime } = statSync(pathOf(id));
    writeFileSync(pathOf(id), Buffer.alloc(bytes.length));
    utimesSync(pathOf(id), atime, mtime);
    expect((await toStore()).damaged.count).toBe(0);
    utimesSync(pathOf(id), atime, new Date(mtime.getTime() + 5_000));
    expect((await toStore()).damaged).toEqual({ count: 1, first: [id] });
  });

  test("takes the earlier copy of a recording whose bytes have changed, in every backup from then on", async () => {
    await toStore();
    const { id = "", bytes = Buffer.alloc(0) } = uploads[5] ?? {};
    changeByte(pathOf(id), 2_000_000);
    for (const _ of [1, 2]) {
      expect(await toStore()).toMatchObject({
        ...{ damaged: { count: 1, first: [id] }, unreadable: { count: 0 }, lacking: { count: 0 } },
        ...{ recordings: uploads.length, written: expect.any(Number) },
      });
      expect(last()).toMatchObject({ lacking: { count: 0 }, faulty: { count: 1, first: [id] } });
      expect(readFileSync(join(newest(), "SHA256SUMS"), "utf8")).toContain(`${sha256(bytes)}  uploads/${id}`);
    }
    expect(readdirSync(join(store(), "objects"), { recursive: true })).not.toContain(
      sha256(readFileSync(pathOf(id))),
    );
    expect(await verdicts(store())).toEqual(["ok", "ok", "ok"]);
    await restore(store(), join(folder, "other"));
    expectRestored(join(folder, "other"));
  });

  test("keeps the newest backups, and removes what only older ones need", async () => {
    await toStore();
    const { id = "", bytes = Buffer.alloc(0) } = uploads[5] ?? {};
    const database = openDatabase(join(dataDir, "shruti.db"));
    database.sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = ?", [id]);
    database.close();
    rmSync(pathOf(id));
    const object = join(store(), "objects", sha256(bytes).slice(0, 2), sha256(bytes));
    await toStore(2);
    expect(existsSync(object)).toBe(true);
    const made = await toStore(2);
    expect("removed" in made && made.removed.length).toBe(1);
    expect(existsSync(object)).toBe(false);
    expect(await verdicts(store())).toEqual(["ok", "ok"]);
  });

  test("after a kill it has the old backups, and the next one removes what is left", async () => {
    await toStore();
    mkdirSync(join(store(), "backups/.0123456789ab.unfinished"));
    writeFileSync(join(store(), "backups/.0123456789ab.unfinished/shruti.db"), "half");
    writeFileSync(join(store(), "objects/.0123456789ab.unfinished"), "half");
    expect(await verdicts(store())).toEqual(["ok"]);
    await toStore();
    expect(
      readdirSync(store(), { recursive: true }).filter((name) => String(name).includes("unfinished")),
    ).toEqual([]);
    expect(await verdicts(store())).toEqual(["ok", "ok"]);
  });

  test("its README makes a plain folder without the program", async () => {
    await toStore();
    const text = readFileSync(join(store(), "README.txt"), "utf8");
    const script = (/( {4}cd backups[\s\S]*)\n\nThe database/.exec(text)?.[1] ?? "").replaceAll(
      "backups/TIME",
      `backups/${newest().split("/").at(-1)}`,
    );
    const { exitCode, text: said } = run(store(), "bash", "-euc", script);
    expect([exitCode, said]).toEqual([0, expect.stringContaining(`uploads/${uploads[5]?.id}: OK`)]);
    const to = join(folder, "other");
    cpSync(join(store(), "plain"), join(folder, "plain"), { recursive: true });
    rmSync(join(store(), "objects"), { recursive: true });
    expect(await problemOf(restore(join(folder, "plain"), to))).toBe("none");
    expectRestored(to);
  });

  test("two at once: the second is refused", async () => {
    const both = await Promise.all([problemOf(toStore()), problemOf(toStore())]);
    expect(both.sort().join()).toBe(`Another backup to ${store()} is running.,none`);
  });

  test("one of several backups can be restored, and a damaged list is found", async () => {
    await toStore();
    const older = newest();
    await toStore();
    changeByte(join(newest(), "SHA256SUMS"), 3);
    const found = await verdicts(store());
    expect(found).toEqual(["ok", expect.stringMatching(/is damaged|is missing|unusable line/)]);
    const to = join(folder, "other");
    await restore(older, to);
    expectRestored(to);
  });
});

describe("recordings", () => {
  test("that are deleted while the backup is made are left out; lost and damaged ones are named", async () => {
    const [, deleted = "", lost = "", damaged = ""] = uploads.map(({ id }) => id);
    rmSync(pathOf(lost));
    writeFileSync(pathOf(damaged), "other");
    // Removed after the copy of the database: the live database knows that, the copy does not.
    const original = statSync(pathOf(deleted));
    expect(original.isFile()).toBe(true);
    const work = backUp({ file: archive() });
    const database = openDatabase(join(dataDir, "shruti.db"));
    database.sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = ?", [deleted]);
    database.close();
    rmSync(pathOf(deleted));
    const made = await work;
    expect(made).toMatchObject({
      ...{ deletedMeanwhile: 1, recordings: uploads.length - 2 },
      ...{ missing: { count: 1, first: [lost] }, damaged: { count: 1, first: [damaged] } },
      lacking: { count: 2, first: [lost, damaged].sort().map((id) => `uploads/${id}`) },
    });
    expect(last()).toMatchObject({ lacking: { count: 2 }, faulty: { count: 2, first: [lost, damaged] } });
    const restored = await restore(archive(), join(folder, "other"));
    expect(restored.missingRecordings.first.sort()).toEqual([deleted, lost].sort());
  });
});

const KNOWN = ["stored_sha256", "sha256"] as const;
describe.each(KNOWN)("a recording of which only %s is known", (known) => {
  const ids = () => uploads.map(({ id }) => id);
  beforeEach(() => {
    const database = openDatabase(join(dataDir, "shruti.db"));
    const other = KNOWN.find((each) => each !== known);
    database.sqlite.run(`UPDATE uploads SET stored_sha256 = sha256`);
    database.sqlite.run(`UPDATE uploads SET ${other} = NULL`);
    database.close();
  });

  test("is compared with it; damaged ones are in the backup as they are, which is incomplete", async () => {
    const [, changed = ""] = ids();
    changeByte(pathOf(changed), 0);
    for (const make of [toStore, toStore, () => backUp({ file: archive() })])
      expect(await make()).toMatchObject({
        ...{ recordings: uploads.length, damaged: { count: 1, first: [changed] } },
        ...{ lacking: { count: 1, first: [`uploads/${changed}`] }, unreadable: { count: 0 } },
      });
    for (const path of [archive(), newest()]) {
      const [one] = await verifyAll(path);
      expect(one).toMatchObject({ verified: { lacking: { first: [`uploads/${changed}`] } } });
      const to = join(folder, `from-${path === newest() ? "store" : "archive"}`);
      await restore(path, to);
      expect(readFileSync(join(to, "uploads", changed)).equals(readFileSync(pathOf(changed)))).toBe(true);
    }
  });
});

test("an upload whose verification runs is not called damaged: its client may have promised other bytes", async () => {
  const [, id = ""] = uploads.map((upload) => upload.id);
  const database = openDatabase(join(dataDir, "shruti.db"));
  database.sqlite.run("UPDATE uploads SET state = 'verifying' WHERE id = ?", [id]);
  database.close();
  changeByte(pathOf(id), 0);
  expect(await toStore()).toMatchObject({ damaged: { count: 0 }, recordings: uploads.length });
});

/** Makes three recordings unreadable: a folder, a link, and a file that is cut off while it is read. */
async function backUpUnreadable(
  target: BackupTarget,
): Promise<{ bad: string[]; made: Awaited<ReturnType<typeof backUp>> }> {
  const [, asFolder = "", asLink = "", cut = ""] = uploads.map(({ id }) => id);
  for (const id of [asFolder, asLink, cut]) rmSync(pathOf(id));
  mkdirSync(pathOf(asFolder));
  symlinkSync("/etc/hostname", pathOf(asLink));
  // A hole: large, and nothing on the disk.
  writeFileSync(pathOf(cut), "");
  truncateSync(pathOf(cut), 200_000_000);
  let isOver = false;
  const work = backUp(target).finally(() => {
    isOver = true;
  });
  const written = () =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /partial$|unfinished$/.test(entry.name))
      .reduce(
        (sum, { parentPath, name }) =>
          sum + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0),
        0,
      );
  while (!isOver && written() < 30_000_000) await new Promise((resolve) => setImmediate(resolve));
  expect(isOver).toBe(false);
  truncateSync(pathOf(cut), 1_000_000);
  return { bad: [asFolder, asLink, cut], made: await work };
}

describe.each([
  ["an archive", () => ({ file: archive() }), () => archive()],
  ["a store", () => ({ store: store(), keep: undefined }), () => store()],
] as [string, () => BackupTarget, () => string][])(
  "recordings that cannot be read, in %s",
  (_form, target, path) => {
    test("are named, everything else is there, and it is never called complete", async () => {
      const { bad, made } = await backUpUnreadable(target());
      const names = bad.map((id) => `uploads/${id}`);
      expect(made).toMatchObject({ recordings: uploads.length - 3, lacking: { count: 3, first: names } });
      expect(made.unreadable).toEqual({
        count: 3,
        first: [
          expect.stringMatching(new RegExp(`^${bad[0]} \\(.*not a regular file\\)$`)),
          expect.stringMatching(new RegExp(`^${bad[1]} \\(.*is a link.*\\)$`)),
          `${bad[2]} (the file ends early)`,
        ],
      });
      const [outcome] = await verifyAll(path());
      expect(outcome).toMatchObject({ verified: { lacking: { count: 3, first: names } } });
      const to = join(folder, "other");
      const restored = await restore(path(), to);
      expect(restored.missingRecordings.first.sort()).toEqual([...bad].sort());
      for (const { id, bytes } of uploads.filter((one) => !bad.includes(one.id)))
        expect(readFileSync(join(to, "uploads", id)).equals(bytes)).toBe(true);
      const database = openDatabase(join(dataDir, "shruti.db"));
      expect(lastBackup(database.store)?.lacking).toEqual({ count: 3, first: names });
      database.close();
    }, 60_000);
  },
);

test("an archive without recordings that could not be read is whole for tar and sha256sum", async () => {
  await backUpUnreadable({ file: archive() });
  expect(run(folder, "tar", "-xf", archive()).exitCode).toBe(0);
  const { exitCode, text } = run(join(folder, "shruti-backup"), "sha256sum", "-c", "SHA256SUMS");
  expect([exitCode, text]).toEqual([0, expect.stringContaining("without.json: OK")]);
  // Without the note about what it lacks, the list does not fit any more.
  rmSync(join(folder, "shruti-backup/without.json"));
  expect(await verdicts(join(folder, "shruti-backup"))).toEqual([
    expect.stringContaining("without.json is missing"),
  ]);
}, 60_000);

test("a store keeps the copy of a recording that is lost or cannot be read any more", async () => {
  await toStore(1);
  const [, lost = "", unreadable = "", other = ""] = uploads.map(({ id }) => id);
  for (const id of [lost, unreadable, other]) rmSync(pathOf(id));
  mkdirSync(pathOf(unreadable));
  for (let n = 0; n < 2; n++) {
    const made = await toStore(1);
    expect(made).toMatchObject({
      ...{ recordings: uploads.length, lacking: { count: 0 } },
      ...{ missing: { count: 2, first: [lost, other] }, unreadable: { count: 1 } },
    });
  }
  expect(await verifyAll(store())).toMatchObject([{ verified: { lacking: undefined } }]);
  expect(await problemOf(restore(store(), join(folder, "other")))).toBe("none");
  expectRestored(join(folder, "other"));
});

test("without the config there is no backup", async () => {
  rmSync(configPath);
  mkdirSync(configPath);
  expect(await problemOf(toStore())).not.toBe("none");
  expect(readdirSync(join(store(), "backups"))).toEqual([]);
});

test("the time of the last backup is noted", async () => {
  const made = await toStore();
  const database = openDatabase(join(dataDir, "shruti.db"));
  expect(lastBackup(database.store)).toEqual({
    ...{ at_ms: clock.now(), path: made.path, files: made.files, bytes: made.bytes },
    ...{ lacking: { count: 0, first: [] }, faulty: { count: 0, first: [] } },
  });
  database.close();
});

test("keys of a fleet are named as missing, and copied with the secrets", async () => {
  mkdirSync(join(dataDir, "fleet"));
  writeFileSync(join(dataDir, "fleet/control.key"), "SUfleetkey");
  writeFileSync(join(dataDir, "signing-key.pem"), "SUfleetkey, too");
  await backUp({ file: archive() });
  const first = await restore(archive(), join(folder, "other"));
  expect(first.missingKeys).toEqual(["fleet/control.key", "signing-key.pem"]);
  expect(readFileSync(archive(), "latin1")).not.toContain("SUfleetkey");
  await backUp({ store: store(), keep: undefined }, { secrets: true });
  const second = await restore(store(), join(folder, "third"));
  expect(second.missingKeys).toEqual([]);
  const copied = join(folder, "third/fleet/control.key");
  expect(readFileSync(copied, "utf8")).toBe("SUfleetkey");
  expect(statSync(copied).mode & 0o777).toBe(0o600);
  // Keys of this machine are not replaced.
  writeFileSync(copied, "SUmine");
  expect((await restore(store(), join(folder, "third"))).otherFiles).toEqual(["fleet/control.key"]);
  expect(readFileSync(copied, "utf8")).toBe("SUmine");
});

test("models without weights are named as missing", async () => {
  await backUp({ file: archive() });
  const { missingModels } = await restore(archive(), join(folder, "other"));
  expect(missingModels.map(({ id }) => id)).toEqual(["tiny"]);
  expect(existsSync(join(folder, "other/models"))).toBe(false);
});

test.skipIf(!mayMountDisks())(
  "on a full disk the store keeps its backups, and a restore changes nothing (needs root on Linux)",
  async () => {
    mkdirSync(store());
    expect(mountSmallDisk(store(), 5)).toBe(true);
    try {
      await toStore();
      writeFileSync(join(store(), "filler"), Buffer.alloc(1024 * 1024));
      const { id = "", bytes = Buffer.alloc(0) } = uploads[5] ?? {};
      writeFileSync(pathOf(id), Buffer.alloc(bytes.length, 1));
      utimesSync(pathOf(id), new Date(), new Date(Date.now() + 60_000));
      expect(await problemOf(toStore())).toMatch(/ENOSPC|space|full/);
      expect(await verdicts(store())).toEqual(["ok"]);
      expect(
        readdirSync(store(), { recursive: true }).filter((name) => String(name).includes("unfinished")),
      ).toEqual([]);
      const to = join(store(), "data");
      expect(await problemOf(restore(store(), to))).toMatch(/not enough space|ENOSPC/);
      expect(existsSync(join(to, "shruti.db"))).toBe(false);
    } finally {
      unmountDisk(store());
    }
  },
);

test("an open backup reads nothing beyond its files", async () => {
  await backUp({ file: archive() });
  const backup = openBackup(archive());
  const names = [...backup.files()].map(({ name }) => name);
  expect(names).toEqual([...names].sort());
  backup.close();
  renameSync(archive(), join(folder, "moved.tar"));
});

test("what is not a backup is refused in plain words", async () => {
  const gzip = join(folder, "strange.tar.gz");
  writeFileSync(gzip, Bun.gzipSync(new Uint8Array(randomBytes(3_000))));
  expect(() => refuseOther(gzip)).toThrow("it is packed by gzip: unpack it first");
  mkdirSync(join(folder, "empty"));
  expect(() => refuseOther(join(folder, "empty"))).toThrow(
    "it is a folder without a backup: it has neither backup.json nor backups/",
  );
  for (const path of [gzip, join(folder, "empty")])
    expect(await problemOf(restore(path, join(folder, "other")))).toBe("it is not a backup of everything");
  // Bytes in which a size of a tar archive cannot be read.
  const bytes = Buffer.alloc(2_048, 0xff);
  writeFileSync(join(folder, "bytes"), bytes);
  expect(kindOfBackup(join(folder, "bytes"))).toBe("other");
  expect(() => refuseOther(join(folder, "bytes"))).not.toThrow();
});
