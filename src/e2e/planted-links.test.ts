import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { type CommandOutcome, type Installation, install } from "./kit.ts";

/**
 * The service's user replaces files and folders of the data directory, and of a store of backups, by links to root's. For
 * each path that a command of root writes, the command runs with a link there: nothing of root's is changed, made or shown.
 */

const USER = 65_534;
const isRoot = process.getuid?.() === 0;
const SECRET = "only root may read this";

let installation: Installation;
/** Paths below the installation's folder. */
const at = (...names: string[]) => join(installation.folder, ...names);
const weights = join(import.meta.dir, "../../models/demo.bin");

/** A way to work, from the state after `init`, or after the commands of `before`. */
type Scenario = {
  before?: () => string[][];
  commands: () => string[][];
  /** Its files are tried with all links at once, because the commands take long and no link ends them. */
  isTogether?: true;
};

const FLEET = ["fleet", "init", "--nats", "tls://n.example:4222", "--base-url", "https://s.example:8443"];
const ADD = ["models", "add", weights, "--id", "mine", "--language", "en", "--no-trial"];
const SCENARIOS: Record<string, Scenario> = {
  "a purge": { commands: () => [["orgs", "purge", installation.organizationId, "--yes"]] },
  "a purge that reaches a store": {
    before: () => [["backup", "--to", at("store")]],
    commands: () => [["orgs", "purge", installation.organizationId, "--yes"]],
  },
  "a copy of the database": { commands: () => [["backup", at("out/copy.db")]] },
  "an archive of everything": { commands: () => [["backup", "--all", "--with-secrets", at("out/all.tar")]] },
  "a store of backups": {
    before: () => [["backup", "--to", at("store")]],
    commands: () => [["backup", "--to", at("store"), "--keep", "1"]],
  },
  "a new store of backups": { commands: () => [["backup", "--to", at("store")]] },
  "a restore of everything": { commands: () => [["restore", at("saved/all.tar"), "--yes"]] },
  "a restore of the database": { commands: () => [["restore", at("saved/copy.db"), "--yes"]] },
  "a new fleet": { commands: () => [FLEET], isTogether: true },
  "a fleet": {
    before: () => [FLEET],
    commands: () => [
      ["fleet", "add", "w1", "--output", at("out/w1")],
      ["fleet", "list"],
      ["fleet", "remove", "w1", "--yes"],
    ],
  },
  "a new model": { commands: () => [ADD] },
  models: {
    before: () => [ADD],
    commands: () => [
      ["models", "list"],
      ["models", "verify"],
      ["bundle", "create", at("out/carry.tar"), "--key", at("saved/key"), "--models", "mine"],
      ["models", "remove", "mine", "--yes"],
    ],
  },
  "a bundle": {
    commands: () => [
      ["bundle", "install", at("saved/carry.tar"), "--key", at("saved/key.pub"), "--no-trial"],
    ],
  },
};

beforeAll(async () => {
  if (!isRoot) return;
  installation = await install();
  const { folder, command, dataDir } = installation;
  for (const path of [folder, at("program")]) chmodSync(path, 0o755);
  mkdirSync(at("saved"), { mode: 0o700 });
  // What needs root's own rights besides: files that only root may read.
  await command("backup", at("saved/copy.db"));
  await command("backup", "--all", "--with-secrets", at("saved/all.tar"));
  await command("bundle", "keygen", at("saved/key"));
  await command(...ADD);
  await command("bundle", "create", at("saved/carry.tar"), "--key", at("saved/key"), "--models", "mine");
  await command("models", "remove", "mine");
  for (const name of ["native", "embedded-models", "models"])
    rmSync(join(dataDir, name), { recursive: true, force: true });
  await command("receipts", "key");
  cpSync(dataDir, at("saved/data"), { recursive: true });
}, 300_000);
afterAll(async () => installation?.remove());

/** Brings the installation to the state from which a scenario begins, and keeps that for `reset`. */
async function begin({ before }: Scenario): Promise<void> {
  rmSync(at("saved/state"), { recursive: true, force: true });
  cpSync(at("saved/data"), at("saved/state/data"), { recursive: true });
  mkdirSync(at("saved/state/store"));
  reset();
  for (const args of before?.() ?? []) expect(await installation.command(...args)).toMatchObject({ code: 0 });
  for (const name of ["data", "store"]) cpSync(at(name), at("saved/state", name), { recursive: true });
}

/** Brings the installation back to that state. Data directory and store belong to the service's user. */
function reset(): void {
  for (const name of ["data", "store", "out", "root"]) rmSync(at(name), { recursive: true, force: true });
  for (const name of ["data", "store"]) cpSync(at("saved/state", name), at(name), { recursive: true });
  mkdirSync(at("out"));
  mkdirSync(at("root/folder"), { recursive: true });
  for (const name of ["root/file", "root/folder/file"]) writeFileSync(at(name), SECRET, { mode: 0o600 });
  chmodSync(at("root"), 0o700);
  giveToUser();
}

function giveToUser(): void {
  for (const name of ["data", "store"]) {
    chownSync(at(name), USER, USER);
    for (const path of readdirSync(at(name), { recursive: true, encoding: "utf8" }))
      lchownSync(join(at(name), path), USER, USER);
  }
}

/** Describes all files below a folder. */
function stateOf(folder: string): Map<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return new Map(
    ["", ...paths].map((path) => {
      const facts = lstatSync(join(folder, path));
      const { ino, mode, uid, size, mtimeMs } = facts;
      const text = facts.isFile() && size < 1000 ? readFileSync(join(folder, path), "utf8") : "";
      return [path, [facts.isDirectory() ? "folder" : "file", ino, mode, uid, size, mtimeMs, text].join(" ")];
    }),
  );
}

/** Names with a time, a number of a process or a random part. */
const CHANCE = /\d{4}-\d\d-\d\dT|objects\/..|native\/|\d\.restoring|unfinished/;

/** Lists what commands have made or changed. */
async function writtenBy(scenario: Scenario): Promise<Map<string, "file" | "folder">> {
  const written = new Map<string, "file" | "folder">();
  for (const args of scenario.commands()) {
    const before = ["data", "store"].map((name) => stateOf(at(name)));
    expect({ args, ...(await installation.command(...args)) }).toMatchObject({ code: 0 });
    for (const [index, name] of ["data", "store"].entries()) {
      const after = stateOf(at(name));
      for (const path of new Set([...after.keys(), ...(before[index]?.keys() ?? [])]))
        if (path !== "" && after.get(path) !== before[index]?.get(path)) {
          const state = after.get(path) ?? before[index]?.get(path) ?? "";
          if (!CHANCE.test(path))
            written.set(join(name, path), state.startsWith("folder") ? "folder" : "file");
        }
    }
  }
  return written;
}

/** Puts a link of the service's user in the place of a path. */
function plant(path: string, target: string): void {
  rmSync(at(path), { recursive: true, force: true });
  symlinkSync(at(target), at(path));
  lchownSync(at(path), USER, USER);
}

async function run(scenario: Scenario): Promise<CommandOutcome[]> {
  const outcomes: CommandOutcome[] = [];
  for (const args of scenario.commands()) outcomes.push(await installation.command(...args));
  return outcomes;
}

/** Runs a scenario with links at some paths. */
async function tryWith(scenario: Scenario, paths: readonly string[], target: string): Promise<void> {
  reset();
  for (const path of paths) if (!existsSync(at(path, ".."))) mkdirSync(at(path, ".."), { recursive: true });
  giveToUser();
  for (const path of paths) plant(path, target);
  const before = stateOf(at("root"));
  const said = (await run(scenario)).map(({ out, err }) => out + err).join("");
  expect({ paths, target, root: stateOf(at("root")) }).toEqual({ paths, target, root: before });
  expect(said).not.toContain(SECRET);
  expect(filesWith(SECRET)).toEqual([]);
}

describe.skipIf(!isRoot)("links that the service's user has planted (needs root)", () => {
  for (const [name, scenario] of Object.entries(SCENARIOS)) {
    test(`${name} follows none`, async () => {
      await begin(scenario);
      const written = [...(await writtenBy(scenario))];
      expect(written).not.toEqual([]);
      expect(strangers()).toEqual([]);
      const paths = (wanted: string) => written.filter(([, kind]) => kind === wanted).map(([path]) => path);
      reset();
      const isNew = (path: string) => !existsSync(at(path));
      const [made, changed] = [paths("file").filter(isNew), paths("file").filter((path) => !isNew(path))];
      const groups = (all: string[]) => (scenario.isTogether ? [all] : all.map((path) => [path]));
      for (const path of paths("folder")) await tryWith(scenario, [path], "root/folder");
      for (const group of [...groups(made), ...groups(changed)]) await tryWith(scenario, group, "root/file");
      for (const group of groups(made)) await tryWith(scenario, group, "root/new");
    }, 120_000);
  }
});

/** Lists what does not belong to the service's user. */
function strangers(): string[] {
  return ["data", "store"].flatMap((folder) =>
    readdirSync(at(folder), { recursive: true, encoding: "utf8" })
      .filter((path) => lstatSync(join(at(folder), path)).uid !== USER)
      .map((path) => join(folder, path)),
  );
}

/** Lists files outside of root's folder that have a text. */
function filesWith(text: string): string[] {
  return ["data", "store", "out"]
    .flatMap((folder) => filesBelow(at(folder)))
    .filter((path) => readFileSync(path).includes(text))
    .map((path) => relative(installation.folder, path));
}

/** Lists regular files, and follows no link. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : [];
  });
}
