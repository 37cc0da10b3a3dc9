import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportAudit } from "../../store/audit-log.ts";
import { databasePath } from "../../store/database.ts";
import { findReceipts } from "../../store/receipts.ts";
import { findTranscription, type TranscriptionRow } from "../../store/transcriptions.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { begin, clientOf, until } from "../../testing/kits/scheduler-kit.ts";
import { DELETIONS_FILE } from "../journal/journal-file.ts";
import { createReceiptService } from "../receipts.ts";
import { createTranscriptionEndings } from "./transcription-endings.ts";

/** Deletions that are killed between the transaction and the removal of what it has marked, and then repeated. */

let testApp: TestApp;
let row: TranscriptionRow;
beforeEach(async () => {
  testApp = await openTestApp();
  const id = await begin(testApp);
  await until("it is completed", async () => (await clientOf(testApp).get(id)).state === "completed");
  row = found(id);
});
afterEach(() => testApp.close());

function found(id: string): TranscriptionRow {
  const transcription = findTranscription(testApp.app.database.store, id);
  if (!transcription) throw new Error(`there is no ${id}`);
  return transcription;
}

/** Deletes the content as a process does that is killed right after the transaction. */
async function deleteAndDie(): Promise<void> {
  const { app, clock, config, directory: dataDir } = testApp;
  const { database } = app;
  const killed = () => Promise.reject(new Error("killed"));
  const endings = createTranscriptionEndings({
    ...{ database, clock, config },
    uploads: { removeAudioFile: killed },
    receipts: createReceiptService({ database, clock, dataDir }),
    removeWorkingFiles: () => undefined,
  });
  mkdirSync(workFolder(), { recursive: true });
  writeFileSync(join(workFolder(), "peaks"), "left");
  await expect(endings.deleteById(row.id)).rejects.toThrow("killed");
  row = found(row.id);
}

const workFolder = () => join(testApp.directory, "work", row.id);
const recording = () => testApp.app.services.uploads.audioPath(row.uploadId);
const deletionsFile = () => join(testApp.directory, DELETIONS_FILE);
const logBytes = () => statSync(`${databasePath(testApp.directory)}-wal`).size;
const left = () => ({
  recording: existsSync(recording()),
  workFolder: existsSync(workFolder()),
  receiptIsWritten:
    existsSync(deletionsFile()) && readFileSync(deletionsFile(), "utf8").includes(`"${row.id}"`),
  textInLog: logBytes() > 0,
});

/** Runs a command beside the server. */
const command = (...argv: string[]) =>
  runCaptured(argv, { SHRUTI_STORAGE_DATA_DIR: testApp.directory, SHRUTI_STORAGE_RESERVE_BYTES: "0" });

describe("a deletion that was killed right after its transaction is completed when it is repeated", () => {
  const REPEATS: [by: string, repeat: () => Promise<void>][] = [
    [
      "a client",
      async () => {
        const { content_deleted_at } = await clientOf(testApp).remove(row.id);
        expect(Date.parse(content_deleted_at ?? "")).toBe(row.contentDeletedAt ?? Number.NaN);
      },
    ],
    [
      "a command",
      async () => {
        expect(await command("transcriptions", "delete", row.id)).toEqual({
          ...{ status: 0, err: "", out: `The content of ${row.id} is deleted.\n` },
        });
      },
    ],
  ];
  test.each(REPEATS)("by %s", async (_, repeat) => {
    await deleteAndDie();
    testApp.clock.advance(1_000);
    expect(left()).toEqual({ recording: true, workFolder: true, receiptIsWritten: false, textInLog: true });
    await repeat();
    expect(left()).toEqual({ recording: false, workFolder: false, receiptIsWritten: true, textInLog: false });
    // The repetition is not recorded as another deletion.
    const { store } = testApp.app.database;
    expect(found(row.id)).toEqual(row);
    expect(findReceipts(store, row.id)).toHaveLength(1);
    expect([...exportAudit(store)].filter(({ action }) => action === "transcription.delete")).toHaveLength(1);
  });
});

test("a deletion that is repeated leaves a recording that came back with a restored database", async () => {
  await deleteAndDie();
  testApp.app.database.sqlite.run("UPDATE uploads SET deleted_at = NULL");
  await clientOf(testApp).remove(row.id);
  expect(left()).toMatchObject({ recording: true, workFolder: false });
});

test("a command that repeats the deletion of an upload removes what a killed one has left", async () => {
  const bytes = readFileSync(recording());
  await command("uploads", "delete", row.uploadId);
  expect(existsSync(recording())).toBe(false);
  writeFileSync(recording(), bytes);
  expect(await command("uploads", "delete", row.uploadId)).toMatchObject({ status: 0, err: "" });
  expect(existsSync(recording())).toBe(false);
  expect(findReceipts(testApp.app.database.store, row.uploadId)).toHaveLength(1);
});
