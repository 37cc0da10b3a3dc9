import { expect, test } from "bun:test";
import { billedMsOf, CHANNEL_MODES } from "../domain/transcription.ts";
import { chargePaise } from "../lib/money.ts";
import { BILLED_MS, chargeSql } from "./billed-time.ts";
import { openDatabase } from "./database.ts";
import { transcriptions } from "./schema.ts";

test("the rules in code and in SQL agree on every channel mode", () => {
  const database = openDatabase(":memory:");
  // The rule reads three columns, so a table with only these is enough.
  database.sqlite.run("DROP TABLE transcriptions");
  database.sqlite.run(
    "CREATE TABLE transcriptions (duration_ms INTEGER, channel_mode TEXT, channels INTEGER)",
  );
  const insert = database.sqlite.query("INSERT INTO transcriptions VALUES (?, ?, ?)");
  for (const channelMode of CHANNEL_MODES)
    for (const channels of [1, 2, 8])
      for (const durationMs of [0, 1, 3_600_001]) insert.run(durationMs, channelMode, channels);
  const rows = database.store
    .select({
      durationMs: transcriptions.durationMs,
      channelMode: transcriptions.channelMode,
      channels: transcriptions.channels,
      billedMs: BILLED_MS,
    })
    .from(transcriptions)
    .all();
  database.close();
  expect(rows).toHaveLength(18);
  expect(rows.map((row) => row.billedMs)).toEqual(rows.map(billedMsOf));
  expect(
    rows.find((row) => row.channelMode === "separate" && row.channels === 8 && row.durationMs === 1),
  ).toEqual({
    durationMs: 1,
    channelMode: "separate",
    channels: 8,
    billedMs: 8,
  });
});

test("the charge in code and in SQL is the same", () => {
  const database = openDatabase(":memory:");
  const query = database.sqlite.query<{ paise: number }, [number, number]>(
    `SELECT ${chargeSql("?1", "?2")} AS paise`,
  );
  for (const price of [0, 1, 3000, 3_599_999, 3_600_001, 1_000_000_000])
    for (const ms of [0, 1, 999, 3_599_999, 3_600_000, 28_800_000_000])
      expect([price, ms, query.get(price, ms)?.paise]).toEqual([price, ms, chargePaise(price, ms)]);
  database.close();
});
