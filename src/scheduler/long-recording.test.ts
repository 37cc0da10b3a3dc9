import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../lib/clock.ts";
import { CHUNKS_AT_ONCE, countChunks, insertChunks } from "../store/chunks.ts";
import { databasePath, openDatabase } from "../store/database.ts";
import { createGroupCommit } from "../store/group-commit.ts";
import { hashOfResult } from "../store/results.ts";
import { parseSrt, parseVtt } from "../testing/answers/subtitle-parsers.ts";
import type { TestAppOptions } from "../testing/kits/open-test-app.ts";
import { begin, clientOf, forever, until } from "../testing/kits/scheduler-kit.ts";
import { createScriptedEngine } from "../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";
import { createRowCheckpoint } from "./row-checkpoint.ts";

/** A recording with more chunks than a slice of them. */

const open = testAppOpener();

const CHUNK_MS = 5_000;
const COUNT = 2 * CHUNKS_AT_ONCE + 500;
/** Positions of a chunk without text and of one whose first attempts failed, in different slices. */
const [LOST, REPEATED] = [CHUNKS_AT_ONCE + 7, 2 * CHUNKS_AT_ONCE + 3];
const NEVER = new AbortController().signal;

const newChunks = Array.from({ length: COUNT }, (_, n) => ({
  ...{ channel: 0, startMs: n * CHUNK_MS, endMs: (n + 1) * CHUNK_MS, speechMs: CHUNK_MS },
  regions: [{ startSample: n * CHUNK_MS * 16, endSample: (n + 1) * CHUNK_MS * 16 }],
}));

/** Counts the turns of the event loop during some work. */
async function turnsDuring<T>(work: () => Promise<T>): Promise<{ turns: number; outcome: T }> {
  let turns = 0;
  const count = () => {
    turns++;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  try {
    return { outcome: await work(), turns };
  } finally {
    clearImmediate(timer);
  }
}

/** Opens the program on a folder. A decoder that is asked for never ends. */
function openOn(directory: string, more: TestAppOptions = {}) {
  const engine = createScriptedEngine();
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const config = { server: { drain_seconds: 0 } };
  return open({ directory, engine, config, creditPaise: 0, ...more });
}

/** Leaves a recording whose chunks have all ended and which has no result, as a kill before its end does. */
async function leaveRecognized(directory: string): Promise<{ id: string; key: string }> {
  const testApp = await openOn(directory, { creditPaise: 1_000_000 });
  const { app, key } = testApp;
  const id = await begin(testApp, { seconds: (COUNT * CHUNK_MS) / 1000, text: "एक" });
  const rowOf = () => app.services.transcriptions.find(id);
  await until("it is claimed", () => rowOf()?.state === "preparing");
  const { database } = app;
  const row = rowOf();
  if (!row) throw new Error("the transcription is gone");
  const checkpoint = createRowCheckpoint(database, row, createGroupCommit(database), systemClock);
  await checkpoint.savePreparation({ warnings: [], totalMs: COUNT * CHUNK_MS, chunks: newChunks }, NEVER);
  database.sqlite.run(
    `UPDATE chunks SET state = 'done', warnings = '[]', segments = json_array(json_object(
      'startMs', start_ms, 'endMs', end_ms, 'text', 'नमस्ते ' || position, 'language', 'hi', 'confidence', 0.9))`,
  );
  database.sqlite.run(
    "UPDATE chunks SET state = 'failed', segments = NULL, failures = 3, gap_reason = 'engine_error' WHERE position = ?",
    [LOST],
  );
  database.sqlite.run("UPDATE chunks SET failures = 2, crashes = 1 WHERE position = ?", [REPEATED]);
  await testApp.close();
  const work = join(directory, "work", id);
  mkdirSync(work, { recursive: true });
  writeFileSync(join(work, "mix.pcm"), "");
  return { id, key };
}

test("a recording with more chunks than a slice ends and is read while other work runs, and its chunks go", async () => {
  const directory = mkdtempSync(join(tmpdir(), "shruti-long-"));
  try {
    const { id, key } = await leaveRecognized(directory);
    const ending = await openOn(directory);
    const { transcriptions } = ending.app.services;
    await until("it has ended", () => transcriptions.find(id)?.state === "partial");
    const row = transcriptions.find(id);
    expect(row?.work).toMatchObject({ chunks: COUNT, ended: COUNT, gaps: 1, failures: 5, crashes: 1 });
    expect(row?.work?.troubled).toMatchObject([
      { startMs: LOST * CHUNK_MS, failures: 3, reason: "engine_error" },
      { startMs: REPEATED * CHUNK_MS, failures: 2, crashes: 1, reason: null },
    ]);
    expect((await clientOf(ending, key).usage()).data).toHaveLength(1);

    const said = newChunks.map((_, n) => `नमस्ते ${n}`).filter((_, n) => n !== LOST);
    const read = async (format: string) => {
      const path = `/v1/transcriptions/${id}/result?format=${format}`;
      const { turns, outcome } = await turnsDuring(() => ending.as(key)(path));
      return { turns, text: await outcome.text() };
    };
    const [json, srt, vtt, text] = [
      await read("json"),
      await read("srt"),
      await read("vtt"),
      await read("text"),
    ];
    const body = JSON.parse(json.text) as { text: string; segments: { text: string }[]; gaps: unknown[] };
    expect(body.segments.map((segment) => segment.text)).toEqual(said);
    expect(body.gaps).toHaveLength(1);
    const linesOf = (cues: readonly { lines: string[] }[]) => cues.map(({ lines }) => lines.join(" "));
    expect(linesOf(parseSrt(srt.text))).toEqual(said);
    expect(linesOf(parseVtt(vtt.text))).toEqual(said);
    expect(text.text).toBe(`${said.join(" ")}\n`);
    // Without pauses there would not be one turn.
    for (const { turns } of [json, srt, vtt]) expect(turns).toBeGreaterThan(4);
    const hash = hashOfResult(ending.app.database.store, id);
    await ending.close();

    // What a kill right after the end leaves: the chunks are there, and mean nothing.
    const database = openDatabase(databasePath(directory));
    database.sqlite.run("DELETE FROM chunks");
    insertChunks(database.store, id, newChunks, 0);
    database.close();
    const next = await openOn(directory);
    const { store } = next.app.database;
    await until("the chunks are gone", () => countChunks(store, id).chunks === 0);
    expect(next.app.services.transcriptions.find(id)).toEqual(row as NonNullable<typeof row>);
    expect(hashOfResult(store, id)).toBe(hash as string);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
