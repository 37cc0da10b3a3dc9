import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  lchownSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { bandNormModel, emptyModel, SEGMENTATION_METADATA } from "../testing/makers/onnx-makers.ts";
import { type Installation, install, until } from "./kit.ts";
import { mappedFiles, processesFrom } from "./processes.ts";
import { samplePath } from "./samples.ts";

/**
 * Tests `sudo shruti …` on the data directory of a service with its own user. The service can use everything that root's
 * commands write, and no file of that directory ever runs with root's rights.
 */

const USER = 65_534;
const isRoot = process.getuid?.() === 0;
let installation: Installation;

beforeAll(async () => {
  if (!isRoot) return;
  installation = await install({ default: "carried" });
  for (const folder of [installation.folder, join(installation.folder, "program")]) chmodSync(folder, 0o755);
  for (const name of ["", ...readdirSync(installation.dataDir)]) {
    chownSync(join(installation.dataDir, name), USER, USER);
  }
}, 300_000);
afterAll(async () => installation?.remove());

/** Lists the files of the data directory that do not belong to its owner. */
function strangers(): string[] {
  return readdirSync(installation.dataDir, { recursive: true, encoding: "utf8" }).filter(
    (name) => lstatSync(join(installation.dataDir, name)).uid !== USER,
  );
}

/** Returns the real, effective, saved and file system's user of a process. */
function usersOf(pid: number): number[] {
  const line = /^Uid:\s+(.+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
  return line.split(/\s+/).map(Number);
}

/** Returns all users of the processes that have native code of the data directory, until work has ended. */
async function nativeUsersUntil(work: Promise<unknown>): Promise<number[]> {
  const users = new Set<number>();
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    for (const pid of processesFrom(installation.folder)) {
      try {
        const isNative = mappedFiles(pid).some((file) => file.startsWith(`${installation.dataDir}/native/`));
        for (const user of isNative ? usersOf(pid) : []) users.add(user);
      } catch {
        // The process has ended.
      }
    }
    await Bun.sleep(10);
  }
  await over;
  return [...users];
}

test.skipIf(!isRoot)(
  "root's commands leave a data directory that its own user can serve (needs root)",
  async () => {
    const { command, json, organizationId } = installation;
    // The first command that needs the embedded files writes them to the disk.
    const made = { speaker: bandNormModel(), segmentation: emptyModel(SEGMENTATION_METADATA) };
    for (const [kind, bytes] of Object.entries(made)) {
      const file = join(installation.folder, `${kind}.onnx`);
      writeFileSync(file, bytes);
      await command("models", "add", "--kind", kind, file);
    }
    expect(readdirSync(join(installation.dataDir, "native"))).toHaveLength(1);
    expect(strangers()).toEqual([]);
    expect((await command("doctor")).out).toContain(`looked at as its owner, user ${USER}`);
    expect(strangers()).toEqual([]);
    const weights = join(import.meta.dir, "../../models/demo.bin");
    const trial = json("models", "add", weights, "--id", "mine", "--language", "en");
    expect(await nativeUsersUntil(trial)).toEqual([USER]);
    await json("credit", "grant", "--org", organizationId, "--paise", "5");
    const backup = join(installation.folder, "backup.db");
    await json("backup", backup);
    expect(lstatSync(backup).uid).toBe(0);
    const { previous } = await json<{ previous: string }>("restore", backup);
    rmSync(previous);
    expect(strangers()).toEqual([]);
    const recording = join(installation.folder, "call.wav");
    copyFileSync(samplePath("01-en"), recording);
    const said = await command("transcribe", "--language", "en", recording);
    expect(said).toMatchObject({ code: 0, err: expect.stringContaining(`running as user ${USER}`) });
    // A command of root that runs meanwhile makes the log, which is root's for an instant.
    const log = join(installation.dataDir, "shruti.db-wal");
    writeFileSync(log, "", { mode: 0o600 });
    const given = Bun.sleep(300).then(() => chownSync(log, USER, USER));
    const server = await (await installation.serve()).ready();
    await given;
    expect(usersOf(server.pid)).toEqual([USER, USER, USER, USER]);
    expect(server.log()).toContain("continues as the owner of the data directory");
    const api = server.api();
    expect((await api.call<{ data: { id: string }[] }>("GET", "/v1/models")).body.data[0]?.id).toBe("mine");
    await json("models", "add", weights, "--id", "second", "--language", "hi");
    await until("the running server has it", async () => {
      const { body } = await api.call<{ data: { id: string }[] }>("GET", "/v1/models");
      return body.data.some(({ id }) => id === "second");
    });
    await json("credit", "grant", "--org", organizationId, "--paise", "5");
    expect(await server.stop()).toBe(0);
    expect(strangers()).toEqual([]);
    // The owner is not who the database's file says, because a link may be there.
    const database = join(installation.dataDir, "shruti.db");
    renameSync(database, `${database}.real`);
    symlinkSync(backup, database);
    lchownSync(database, USER, USER);
    expect((await command("doctor")).out).toContain(`looked at as its owner, user ${USER}`);
    renameSync(`${database}.real`, database);
  },
  120_000,
);

test.skipIf(!isRoot)(
  "doctor finds what the service's user may not use, and weights that have changed (needs root)",
  async () => {
    const { command, dataDir } = installation;
    const at = (name: string) => join(dataDir, name);
    chownSync(at("uploads"), 0, 0);
    chownSync(at("shruti.db"), 0, 0);
    chmodSync(at("shruti.db"), 0o600);
    const weights = at("models/mine.bin");
    const file = openSync(weights, "r+");
    writeSync(file, "x", statSync(weights).size - 1_000);
    closeSync(file);
    const { code, out } = await command("doctor");
    expect(code).toBe(1);
    const bad = out.split("\n").filter((line) => line.startsWith("BAD"));
    expect(bad).toEqual(
      expect.arrayContaining([
        expect.stringContaining(`${at("uploads")} cannot be written (EACCES): no recording can be received`),
        expect.stringContaining(`user ${USER} may not read and write ${at("shruti.db")} (EACCES)`),
        expect.stringMatching(/^BAD {2}engine {5}mine: the SHA-256 is /),
      ]),
    );
    for (const name of ["uploads", "shruti.db"]) chownSync(at(name), USER, USER);
    await command("models", "default", "second");
    // It is not the default now, so nothing loads it.
    expect((await command("doctor")).out).toMatch(/^BAD {2}model {6}mine: the SHA-256 is /m);
    await command("models", "remove", "mine", "--yes");
    const repaired = await command("doctor");
    expect(repaired.out).not.toContain("BAD  data");
    expect(repaired.out).not.toContain("SHA-256 is");
  },
  120_000,
);
