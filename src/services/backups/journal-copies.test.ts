import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../lib/ids.ts";
import { silentLog } from "../../lib/log.ts";
import { keyFingerprint } from "../../lib/signatures.ts";
import { createJournalUpkeep } from "../../server/journal-upkeep.ts";
import { recordAct } from "../../store/audit-log.ts";
import { type Database, openDatabase, transaction } from "../../store/database.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { mirrorClosings } from "../journal/closings.ts";
import { readLines } from "../journal/journal-file.ts";
import { createReceiptService, takeReceipts } from "../receipts.ts";
import { openApplianceKey } from "../signed/appliance-key.ts";
import { createJournalCopier, knownUntilIn } from "./journal-copies.ts";

/** The copies of the files of deletions and closings in the folders of backups. */

let folder: string;
let database: Database;
let deps: ReturnType<typeof dependencies>;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-journal-"));
  mkdirSync(join(folder, "data"));
  mkdirSync(join(folder, "store/backups"), { recursive: true });
  database = openDatabase(join(folder, "data/shruti.db"));
  deps = dependencies();
});
afterEach(() => {
  database.close();
  rmSync(folder, { recursive: true });
});

function dependencies() {
  const config = testConfig({ backup: { to: join(folder, "store") } });
  return { database, clock: manualClock(), config, dataDir: join(folder, "data"), log: silentLog };
}
const copy = (name: string) => join(folder, "store/journal", name);
const own = (name: string) => readFileSync(join(folder, "data", name), "utf8");

async function deleteOne(): Promise<string> {
  const receipts = createReceiptService(deps);
  const id = newId("transcription", deps.clock.now());
  transaction(database.store, (tx) => {
    const deleted = { kind: "transcription", id, organization_id: "org_1" } as const;
    receipts.write(tx, { deleted, recording: null, transcript: null, removed: null });
  });
  await receipts.mirror();
  return id;
}

function disable(id: string): void {
  transaction(database.store, (tx) =>
    recordAct(tx, { action: "organization.disable", object: id }, deps.clock.now()),
  );
  mirrorClosings(deps);
}

test("only what is new is copied, and a copy that was removed is written again", async () => {
  const copier = createJournalCopier(deps);
  const first = await deleteOne();
  disable("org_2");
  expect(await copier.copy()).toEqual({ reached: [join(folder, "store")], failed: [] });
  expect(readFileSync(copy("deletions.jsonl"), "utf8")).toBe(`\n${own("deletions.jsonl")}`);
  expect(readFileSync(copy("closings.jsonl"), "utf8")).toBe(`\n${own("closings.jsonl")}`);
  // What is in the copy is not written again: here it is not the same any more.
  writeFileSync(copy("deletions.jsonl"), "cut in the mid");
  const second = await deleteOne();
  await copier.copy();
  const text = readFileSync(copy("deletions.jsonl"), "utf8");
  const found = [text.includes(first), text.includes(second), text.startsWith("cut in the mid\n")];
  expect(found).toEqual([false, true, true]);
  rmSync(copy("deletions.jsonl"));
  await copier.copy();
  expect([...readLines(copy("deletions.jsonl"))]).toHaveLength(2);
  // Another file beside the database, as after a move to another machine.
  writeFileSync(join(folder, "data/deletions.jsonl"), `${"another ".repeat(2000)}\n`);
  await copier.copy();
  expect([...readLines(copy("deletions.jsonl"))]).toHaveLength(3);
});

test("a folder says until when its copies are complete, also when nothing was deleted, and only a trusted key counts", async () => {
  const copier = createJournalCopier(deps);
  const trusted = new Set([keyFingerprint(openApplianceKey(deps.dataDir))]);
  await copier.copy();
  expect(knownUntilIn(join(folder, "store/journal"), trusted)).toBe(deps.clock.now());
  deps.clock.advance(60_000);
  await copier.copy();
  expect(knownUntilIn(join(folder, "store/journal"), trusted)).toBe(deps.clock.now() - 60_000);
  deps.clock.advance(5 * 60_000);
  await copier.copy();
  expect(knownUntilIn(join(folder, "store/journal"), trusted)).toBe(deps.clock.now());
  expect(knownUntilIn(join(folder, "store/journal"), new Set(["another"]))).toBeUndefined();
  writeFileSync(copy("known.json"), readFileSync(copy("known.json"), "utf8").replace("2026", "2027"));
  expect(knownUntilIn(join(folder, "store/journal"), trusted)).toBeUndefined();
  expect(knownUntilIn(join(folder, "nowhere"), trusted)).toBeUndefined();
});

test("a server copies by itself, also once a folder is there again", async () => {
  rmSync(join(folder, "store"), { recursive: true });
  const upkeep = createJournalUpkeep(deps, 20);
  upkeep.start();
  try {
    const id = await deleteOne();
    await Bun.sleep(100);
    expect(existsSync(join(folder, "store"))).toBe(false);
    mkdirSync(join(folder, "store/backups"), { recursive: true });
    const hasCopy = () =>
      existsSync(copy("deletions.jsonl")) && readFileSync(copy("deletions.jsonl"), "utf8").includes(id);
    await until("it is copied", hasCopy);
  } finally {
    await upkeep.stop();
  }
});

test("a damaged copy gives what is whole in it: each receipt of a trusted key once", async () => {
  await deleteOne();
  await deleteOne();
  await createJournalCopier(deps).copy();
  const [first = "", second = ""] = [...readLines(copy("deletions.jsonl"))];
  const garbage = Buffer.from([0xff, 0xfe, 0x00, 0x0a]);
  writeFileSync(copy("deletions.jsonl"), `${first.slice(0, 50)}\n`);
  appendFileSync(copy("deletions.jsonl"), garbage);
  appendFileSync(copy("deletions.jsonl"), `${"x".repeat(300_000)}\n${second}\n${second}\n`);
  appendFileSync(copy("deletions.jsonl"), `${first.replace("tr_", "up_")}\n`);
  const trusted = new Set([keyFingerprint(openApplianceKey(deps.dataDir))]);
  mkdirSync(join(folder, "there"));
  expect(takeReceipts(join(folder, "there"), join(folder, "store/journal"), trusted, () => false)).toBe(1);
  expect([...readLines(join(folder, "there/deletions.jsonl"))]).toEqual([second]);
  expect(takeReceipts(join(folder, "there"), join(folder, "store/journal"), trusted, () => true)).toBe(0);
  expect(takeReceipts(join(folder, "there"), join(folder, "store/journal"), new Set(), () => false)).toBe(0);
});
