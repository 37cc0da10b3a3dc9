import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-storage-"));
const data = join(folder, "data");
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml") };
const run = (...argv: string[]) => runCaptured(argv, environment);
const json = async (...argv: string[]) => JSON.parse((await run(...argv, "--json")).out);
let ids: { organization_id: string; project_id: string };
let other: { organization: string; project: string };

beforeAll(async () => {
  ids = JSON.parse((await run("init", "--data", data, "--json")).out);
  const organization = (await run("orgs", "create", "Physics")).out.trim();
  const project = (await run("projects", "create", "calls", "--org", organization)).out.trim();
  other = { organization, project };
});
afterAll(() => rmSync(folder, { recursive: true }));

let recordings: { old: string; inUse: string; new: string; other: string };
const fileOf = (id: string) => join(data, "uploads", id);

beforeEach(() => {
  mkdirSync(join(data, "uploads"), { recursive: true });
  const database = openDatabase(join(data, "shruti.db"));
  database.sqlite.run("PRAGMA foreign_keys = OFF");
  database.sqlite.run("DELETE FROM results");
  database.sqlite.run("DELETE FROM transcriptions");
  database.sqlite.run("DELETE FROM uploads");
  const insert = (owner: typeof other, ageDays: number, state: string) => {
    const at = Date.now() - ageDays * 86_400_000;
    const [upload, transcription] = [newId("upload", at), newId("transcription", at)];
    database.sqlite.run(
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, space_bytes, token_hash, created_at, expires_at,
         finished_at)
       VALUES (?, ?, ?, 'complete', 1500, 1500, '', ?, ?, ?)`,
      [upload, owner.organization, owner.project, at, at, at],
    );
    writeFileSync(fileOf(upload), Buffer.alloc(1500));
    database.sqlite.run(
      `INSERT INTO transcriptions (id, organization_id, project_id, upload_id, entrance, model_id, model_version, language,
         mode, timestamps, diarization, channel_mode, state, created_at, finished_at, duration_ms, channels,
         price_paise_per_audio_hour, reserved_paise)
       VALUES (?, ?, ?, ?, 'asynchronous', 'demo', '1', 'hi', 'native', 'segment', 0, 'mix', ?, ?, ?, 1000, 1, 0, 0)`,
      [
        transcription,
        owner.organization,
        owner.project,
        upload,
        state,
        at,
        state === "completed" ? at : null,
      ],
    );
    if (state === "completed")
      database.sqlite.run("INSERT INTO results (transcription_id, result, created_at) VALUES (?, '{}', ?)", [
        transcription,
        at,
      ]);
    return upload;
  };
  const first = { organization: ids.organization_id, project: ids.project_id };
  recordings = {
    old: insert(first, 100, "completed"),
    inUse: insert(first, 100, "queued"),
    new: insert(first, 1, "completed"),
    other: insert(other, 100, "completed"),
  };
  database.close();
});

describe("shruti storage", () => {
  test("shows organizations and kinds of files", async () => {
    for (const folder of ["work", "incoming"]) mkdirSync(join(data, folder), { recursive: true });
    const { organizations, kinds, free_bytes } = await json("storage");
    // The database is named as such, not by the log that is beside it; what is in two folders, by their folder.
    const placeOf = (kind: string) => kinds.find((one: { kind: string }) => one.kind === kind)?.path;
    expect([placeOf("database"), placeOf("work"), placeOf("recordings")]).toEqual([
      ...[join(data, "shruti.db"), data, join(data, "uploads")],
    ]);
    expect(organizations).toMatchObject([
      {
        ...{ name: "default", recordings: 3, recording_bytes: 4500, transcripts: 2, transcript_bytes: 4 },
        ...{ stored_bytes: 4500, max_stored_bytes: expect.any(Number) },
      },
      { name: "Physics", recordings: 1, recording_bytes: 1500, transcripts: 1, transcript_bytes: 2 },
    ]);
    const used = Object.fromEntries(
      kinds.map(({ kind, bytes }: { kind: string; bytes: number }) => [kind, bytes]),
    );
    expect(used.recordings).toBe(6000);
    expect(used.database).toBeGreaterThan(100_000);
    expect(free_bytes).toBeGreaterThan(0);
    const { out } = await run("storage");
    expect(out).toMatch(/^default +3 +4\.5 kB +4\.5 kB +\d[\d.]* [kMG]B +2 +4 B$/m);
    expect(out).toMatch(/^recordings +4 +6\.0 kB/m);
  });
});

describe("shruti storage prune", () => {
  const left = () =>
    Object.entries(recordings).flatMap(([name, id]) => (existsSync(fileOf(id)) ? [name] : []));

  test("needs --yes, and --dry-run removes nothing", async () => {
    expect(await run("storage", "prune", "--older-than", "90d")).toMatchObject({
      status: 2,
      err: expect.stringContaining("--yes"),
    });
    expect((await run("storage", "prune", "--older-than", "90d", "--yes", "--dry-run")).status).toBe(2);
    expect((await run("storage", "prune", "--yes")).status).toBe(2);
    const { would_remove } = await json("storage", "prune", "--older-than", "90d", "--dry-run");
    expect(would_remove).toMatchObject([
      { recordings: 1, recording_bytes: 1500, transcripts: 0 },
      { recordings: 1, recording_bytes: 1500, transcripts: 0 },
    ]);
    expect(left()).toEqual(["old", "inUse", "new", "other"]);
  });

  test("removes what --dry-run counts, and not what unfinished work needs", async () => {
    const { removed } = await json("storage", "prune", "--older-than", "90d", "--yes");
    expect(removed).toEqual({ recordings: 2, transcripts: 0 });
    expect(left()).toEqual(["inUse", "new"]);
    const acts = await json("audit", "list", "--action", "upload.delete");
    expect(acts.map(({ object }: { object: string }) => object).sort()).toEqual(
      [recordings.old, recordings.other].sort(),
    );
    expect(acts[0]).toMatchObject({ source: "command_line", via: "storage prune" });
  });

  test("of one organization, by its name; and transcripts", async () => {
    await json("storage", "prune", "--older-than", "90d", "--org", "Physics", "--yes");
    expect(left()).toEqual(["old", "inUse", "new"]);
    expect((await run("storage", "prune", "--older-than", "90d", "--org", "Nobody", "--yes")).status).toBe(4);
    const { removed } = await json("storage", "prune", "--older-than", "12h", "--kind", "all", "--yes");
    expect(removed).toEqual({ recordings: 0, transcripts: 3 });
    expect(left()).toEqual(["inUse"]);
    expect((await json("storage")).organizations).toMatchObject([{ recordings: 1, transcripts: 0 }]);
  });
});

test("a project has periods of its own", async () => {
  const set = await json("projects", "set", ids.project_id, "--audio-days", "7", "--transcript-days", "0");
  expect(set).toMatchObject({ audio_days: 7, transcript_days: 0 });
  expect((await run("projects", "show", ids.project_id)).out).toContain("Recordings are kept   7 days\n");
  const back = await json("projects", "set", "default", "--audio-days", "default");
  expect(back).toMatchObject({ audio_days: null, transcript_days: 0, default_language: null });
  const tamil = await json("projects", "set", ids.project_id, "--default-language", "ta");
  expect(tamil).toMatchObject({ transcript_days: 0, default_language: "ta" });
  expect((await run("projects", "show", ids.project_id)).out).toContain("Default language      ta\n");
  expect((await run("projects", "set", ids.project_id, "--default-language", "Tamil")).status).toBe(2);
  expect(await json("projects", "set", ids.project_id, "--default-language", "default")).toMatchObject({
    default_language: null,
  });
  expect((await run("projects", "show", "default")).out).toContain("30 days (default)");
  expect((await run("projects", "set", "default")).status).toBe(2);
  expect((await run("projects", "set", "default", "--audio-days", "-1")).status).toBe(2);
});
