import { afterEach, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import { type Database, openDatabase, type Store, transaction } from "./database.ts";
import { type Placeholders, prepared, preparedFor } from "./prepared.ts";
import { settings } from "./schema.ts";

const open: Database[] = [];
afterEach(() => {
  for (const database of open.splice(0)) database.close();
});

/** Opens a database whose settings have one value, and a prepared look-up that counts how often it is built. */
function openOne(value: string): Database {
  const database = openDatabase(":memory:");
  open.push(database);
  database.store.insert(settings).values({ name: "n", value, updatedAt: 0 }).run();
  return database;
}

function countedLookUp() {
  let built = 0;
  const statement = prepared((store: Store) => {
    built++;
    return store
      .select({ value: settings.value })
      .from(settings)
      .where(eq(settings.name, sql.placeholder("name")))
      .prepare();
  });
  return { find: (store: Store) => statement(store).get({ name: "n" })?.value, built: () => built };
}

test("a statement is built once for each database, also for its transactions and those inside them", () => {
  const [first, second] = [openOne("1"), openOne("2")];
  const { find, built } = countedLookUp();
  expect(find(first.store)).toBe("1");
  transaction(first.store, (tx) => {
    expect(find(tx)).toBe("1");
    transaction(tx, (inner) => expect(find(inner)).toBe("1"));
  });
  expect(built()).toBe(1);
  expect([find(second.store), find(first.store), find(second.store), built()]).toEqual(["2", "1", "2", 2]);
});

test("a statement that was built in a transaction that failed serves its database", () => {
  const { store } = openOne("1");
  const { find, built } = countedLookUp();
  const fail = () =>
    transaction(store, (tx) => {
      tx.update(settings).set({ value: "changed" }).run();
      expect(find(tx)).toBe("changed");
      throw new Error("rolled back");
    });
  expect(fail).toThrow("rolled back");
  expect([find(store), built()]).toEqual(["1", 1]);
});

test("a row's own columns are written, with one statement for each set of them", () => {
  const { store } = openOne("1");
  let built = 0;
  type Row = { name?: string | undefined; value?: unknown; updatedAt?: number };
  const change = preparedFor((store: Store, values: Placeholders<Row>) => {
    built++;
    return store
      .update(settings)
      .set(values)
      .where(eq(settings.name, sql.placeholder("old")))
      .returning()
      .prepare();
  });
  const run = (row: Row) => change(store, row).get({ ...row, old: "n" });
  expect(run({ value: { list: [1] } })).toEqual({ name: "n", value: { list: [1] }, updatedAt: 0 });
  expect(run({ value: "2", updatedAt: 5 })).toEqual({ name: "n", value: "2", updatedAt: 5 });
  expect(run({ updatedAt: 6, value: "3", name: undefined })).toEqual({ name: "n", value: "3", updatedAt: 6 });
  expect(run({ value: "4" })).toEqual({ name: "n", value: "4", updatedAt: 6 });
  expect(built).toBe(2);
});
