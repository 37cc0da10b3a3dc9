import { expect, test } from "bun:test";
import { insertChunks, listFirstEnded } from "./chunks.ts";
import { openDatabase } from "./database.ts";

test("chunks with an outcome are listed from a position on, up to the first that waits, across slices", () => {
  const { store, sqlite, close } = openDatabase(":memory:");
  // The chunks belong to no transcription here.
  sqlite.run("PRAGMA foreign_keys = OFF");
  const chunk = { channel: 0, startMs: 0, endMs: 1000, speechMs: 1000, regions: [] };
  insertChunks(store, "tr_1", Array<typeof chunk>(2500).fill(chunk), 0);
  sqlite.run("UPDATE chunks SET state = 'failed' WHERE position <> 2100");
  const positions = (from: number) => listFirstEnded(store, "tr_1", from).map(({ position }) => position);
  const upTo = (from: number, end: number) => Array.from({ length: end - from }, (_, n) => from + n);
  for (const from of [0, 1, 999, 1000, 1001, 2000, 2099]) expect(positions(from)).toEqual(upTo(from, 2100));
  expect(positions(2100)).toEqual([]);
  expect(positions(2101)).toEqual(upTo(2101, 2500));
  expect(positions(2500)).toEqual([]);
  close();
});
