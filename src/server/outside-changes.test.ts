import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLog } from "../lib/log.ts";
import { databasePath, openDatabase } from "../store/database.ts";
import { watchOutsideChanges } from "./outside-changes.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

test("a write by another process is reported once; a failed check is logged and repeated", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-outside-"));
  closing.push(() => rmSync(folder, { recursive: true }));
  const [database, other] = [databasePath(folder), databasePath(folder)].map((path) => openDatabase(path));
  if (!database || !other) throw new Error("no database");
  closing.push(database.close, other.close);
  const errors: string[] = [];
  const log = openLog("error", "json", (line) => void errors.push(line));
  let calls = 0;
  const onChange = () => {
    calls++;
    if (calls === 1) throw new Error("the store cannot be read");
  };
  const watch = watchOutsideChanges(database, log, onChange, 1);
  closing.push(watch.stop);
  database.sqlite.run("CREATE TABLE own (n)");
  await Bun.sleep(20);
  expect(calls).toBe(0);
  other.sqlite.run("CREATE TABLE foreign_one (n)");
  while (calls < 2) await Bun.sleep(1);
  await Bun.sleep(20);
  expect(calls).toBe(2);
  expect(errors).toEqual([expect.stringContaining("the store cannot be read")]);
});
