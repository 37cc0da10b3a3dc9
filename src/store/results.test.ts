import { afterAll, expect, test } from "bun:test";
import type { TranscriptionResult } from "../domain/result.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { openDatabase } from "./database.ts";
import { findResult, hashOfResult, insertResult, packResult } from "./results.ts";

const { store, sqlite, close } = openDatabase(":memory:");
sqlite.run("PRAGMA foreign_keys = OFF");
afterAll(close);

test.each([0, 1, 200, 201, 5_000])("a result with %d segments is stored as its JSON text", async (count) => {
  const segments = Array.from({ length: count }, (_, index) => ({
    ...{ index, startMs: index * 10, endMs: index * 10 + 9, text: `"नमस्ते" \ud800 ${index}`, language: "hi" },
    confidence: 1 / (index + 3),
    ...(index % 2 === 0 ? {} : { speaker: "speaker_1" }),
  }));
  const result: TranscriptionResult = {
    ...{ status: "partial", durationMs: 12_345.678, channels: 1, languages: ["hi"] },
    ...{ text: segments.map(({ text }) => text).join(" "), segments, warnings: ["low_volume"] },
    gaps: [{ startMs: 1, endMs: 2, reason: "time_limit" }],
  };
  const id = `tr_${count}`;
  const packed = await packResult(result);
  expect(packed.status).toBe("partial");
  insertResult(store, id, packed, 1);
  const json = JSON.stringify(result);
  expect(
    sqlite
      .query(
        "SELECT typeof(result) AS type, result AS json, created_at AS at FROM results WHERE transcription_id = ?",
      )
      .get(id),
  ).toEqual({ type: "text", json, at: 1 });
  expect(findResult(store, id)).toEqual(result);
  expect(hashOfResult(store, id)).toBe(sha256Hex(json));
  expect(hashOfResult(store, "tr_none")).toBeUndefined();
});
