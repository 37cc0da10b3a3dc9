import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, type Store } from "./database.ts";
import { createGroupCommit } from "./group-commit.ts";
import { settings } from "./schema.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-group-"));
const database = openDatabase(join(folder, "shruti.db"));
const { sqlite } = database;
const other = openDatabase(join(folder, "shruti.db"));
afterAll(() => {
  other.close();
  database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => void sqlite.run("DELETE FROM settings"));

const insert = (name: string) => (tx: Store) => {
  tx.insert(settings).values({ name, value: 1, updatedAt: 0 }).run();
  return name;
};
const names = () =>
  other.store
    .select()
    .from(settings)
    .all()
    .map(({ name }) => name);
/** Counts what another connection sees as changes of the file. */
const version = () =>
  other.sqlite.query<{ data_version: number }, []>("PRAGMA data_version").get()?.data_version ?? 0;

describe("a group commit", () => {
  test("resolves after the commit, with the value", async () => {
    expect(await createGroupCommit(database).run(insert("a"))).toBe("a");
    expect(names()).toEqual(["a"]);
  });

  test("makes one transaction of writes that come together, sixteen at most", async () => {
    const group = createGroupCommit(database);
    const before = version();
    const all = Array.from({ length: 20 }, (_, index) => group.run(insert(String(index))));
    expect(version()).toBe(before + 1);
    expect(names()).toHaveLength(16);
    await Promise.all(all);
    expect(version()).toBe(before + 2);
    expect(names()).toHaveLength(20);
  });

  test("rolls back the write that throws, and keeps the others", async () => {
    const group = createGroupCommit(database);
    const outcomes = await Promise.allSettled([
      group.run(insert("a")),
      group.run((tx) => {
        insert("b")(tx);
        throw new Error("no b");
      }),
      group.run(insert("a")),
      group.run(insert("c")),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
    expect(names().sort()).toEqual(["a", "c"]);
  });

  test("rejects every write of a transaction that cannot be written, and works again afterwards", async () => {
    const group = createGroupCommit(database);
    sqlite.run("PRAGMA query_only = ON");
    const outcomes = await Promise.allSettled([group.run(insert("a")), group.run(insert("b"))]);
    sqlite.run("PRAGMA query_only = OFF");
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(names()).toEqual([]);
    await group.run(insert("a"));
    expect(names()).toEqual(["a"]);
  });
});
