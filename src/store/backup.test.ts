import { expect, test } from "bun:test";
import { lstatSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { restoreBackup, writeBackup } from "./backup.ts";
import { openDatabase } from "./database.ts";

test("a restore does not write through a link at the path of its copy", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-restore-"));
  const path = join(folder, "shruti.db");
  const database = openDatabase(path);
  writeBackup(database, join(folder, "backup.db"));
  database.close();
  const bystander = join(folder, "bystander");
  writeFileSync(bystander, "mine");
  symlinkSync(bystander, `${path}.${process.pid}.restoring`);
  expect(restoreBackup(join(folder, "backup.db"), path, "now", () => {})).toBe(`${path}.before-now`);
  expect(readFileSync(bystander, "utf8")).toBe("mine");
  expect(lstatSync(path).isFile()).toBe(true);
  openDatabase(path).close();
  rmSync(folder, { recursive: true });
});
