import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** Tests watched folders on the executable, which is killed while it works on their files. */

const KILLS = Number(process.env.SHRUTI_CRASH_KILLS ?? 3);
const FILES = 6;
const SAMPLE = "01-en";

let installation: Installation;
beforeEach(async () => {
  installation = await install();
}, 300_000);
afterEach(() => installation?.remove());

const at = (name: string) => join(installation.folder, name);

function configure(): void {
  for (const name of ["in", "old", "out", "bad"]) mkdirSync(at(name));
  const places = `path = "${at("in")}"\nmove_to = "${at("old")}"\nresults = "${at("out")}"\nfailures = "${at("bad")}"`;
  const rest =
    'after = "move"\ncomplete = "rename"\npoll_seconds = 1\nformats = ["json", "txt"]\nlanguage = "en"';
  appendFileSync(
    installation.configPath,
    `\n[[intake.folder]]\nproject = "${installation.projectId}"\n${places}\n${rest}\n`,
  );
}

/** Puts a recording into the folder as a writer does that renames its temporary file. */
function put(name: string, bytes: Uint8Array): void {
  writeFileSync(at(`in/.${name}`), bytes);
  renameSync(at(`in/.${name}`), at(`in/${name}`));
}

function counted(sql: string): number {
  const database = new Database(join(installation.dataDir, "shruti.db"), { readonly: true });
  try {
    return database.query<{ n: number }, []>(sql).get()?.n ?? 0;
  } finally {
    database.close();
  }
}

test(
  "each file has one transcription, one charge and one set of results, although the server is killed",
  async () => {
    configure();
    const sample = sampleBytes(SAMPLE);
    const perRound = Math.ceil(FILES / Math.max(1, KILLS));
    let files = 0;
    for (let round = 0; round < KILLS; round++) {
      for (let each = 0; each < perRound; each++) put(`call-${++files}.wav`, sample);
      put(`noise-${round}.wav`, new Uint8Array(1000));
      const server: RunningServer = await (await installation.serve()).ready();
      await Bun.sleep(Math.random() * 2_500);
      await server.kill();
    }
    const server = await (await installation.serve()).ready();
    await until("all files are in their folders", () => readdirSync(at("in")).length === 0, 240_000);
    await until(
      "all files have ended",
      () => counted("SELECT count(*) AS n FROM watched_files WHERE state NOT IN ('done', 'failed')") === 0,
      30_000,
    );
    expect(readdirSync(at("old"))).toHaveLength(files);
    expect(readdirSync(at("out"))).toHaveLength(2 * files);
    expect(readdirSync(at("bad"))).toHaveLength(2 * KILLS);
    const texts = readdirSync(at("out")).filter((name) => name.endsWith(".txt"));
    expect(new Set(texts.map((name) => readFileSync(at(`out/${name}`), "utf8"))).size).toBe(1);
    expect(counted("SELECT count(*) AS n FROM transcriptions")).toBe(files);
    expect(counted("SELECT count(*) AS n FROM ledger WHERE kind = 'charge'")).toBe(files);
    const [status] = await installation.json<{ done: number; failed: number; now: { problem: null } }[]>(
      "folder",
      "status",
    );
    expect(status).toMatchObject({ done: files, failed: KILLS, now: { problem: null } });
    expect((await installation.output("credit", "audit")).length).toBeGreaterThan(0);
    expect(await server.stop()).toBe(0);
  },
  600_000 + KILLS * 30_000,
);
