import { expect, test } from "bun:test";
import { lstatSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { replaceKeeping, restoreBackup, writeBackup } from "./backup.ts";
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

test("a crash in the middle of a restore leaves the old database in its place", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-restore-"));
  const [copy = "", path = "", kept = ""] = ["copy", "shruti.db", "kept"].map((name) => join(folder, name));
  writeFileSync(copy, "new");
  writeFileSync(path, "old");
  const crash = () => {
    throw new Error("killed");
  };
  expect(() => replaceKeeping(copy, path, kept, crash)).toThrow("killed");
  expect(readFileSync(path, "utf8")).toBe("old");
  rmSync(kept);
  replaceKeeping(copy, path, kept);
  expect([readFileSync(path, "utf8"), readFileSync(kept, "utf8")]).toEqual(["new", "old"]);
  writeFileSync(copy, "newer");
  expect(() => replaceKeeping(copy, path, kept)).toThrow("exists already");
  expect(readFileSync(path, "utf8")).toBe("new");
  rmSync(folder, { recursive: true });
});
