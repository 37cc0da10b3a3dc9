import type { KeyObject } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { currentActor } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import { appendLines, appendLinesNow } from "../lib/durable-files.ts";
import { newId } from "../lib/ids.ts";
import { toTimestamp } from "../lib/time.ts";
import { type Database, databasePath, openAnyVersion, type Store, transaction } from "../store/database.ts";
import {
  hasReceipt,
  insertReceipt,
  listUnmirrored,
  listUnmirroredOnce,
  markMirrored,
  type ReceiptRow,
} from "../store/receipts.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../store/settings.ts";
import {
  beginningOf,
  DELETIONS_FILE,
  knownBytes,
  readLines,
  readTrusted,
  trustedKeys,
} from "./journal/journal-file.ts";
import { openApplianceKey } from "./signed/appliance-key.ts";
import { isReceipt } from "./signed/receipt.ts";
import { signDocument } from "./signed/signed-documents.ts";

export type ReceiptDeps = { database: Database; clock: Clock; dataDir: string };
/** A deletion, without what the service fills in. */
export type Deletion = Pick<
  DeletionReceipt,
  "deleted" | "recording" | "transcript" | "removed" | "not_reached"
>;

/**
 * Signed receipts of deletions. They are also the memory of what must stay deleted: a file beside the database holds
 * them, from which a restored, older database learns of later deletions.
 */
export type ReceiptService = {
  /** Writes a receipt in the transaction of the deletion. `mirror` follows after the transaction. */
  write(tx: Store, deletion: Deletion): ReceiptRow;
  /** Brings the receipts that the file does not have yet into the file, and the file to the disk. */
  mirror(): Promise<void>;
  /**
   * Reads the receipts of the file that the database does not have and the appliance's key has signed, oldest first. What
   * the database is known to have is not read again, so that a start takes no longer after years of deletions.
   */
  readUnknown(): AsyncGenerator<{ document: DeletionReceipt; signed: string }>;
};

const BATCH = 500;

export function createReceiptService({ database, clock, dataDir }: ReceiptDeps): ReceiptService {
  const path = join(dataDir, DELETIONS_FILE);
  let privateKey: KeyObject | undefined;
  const key = () => {
    privateKey ??= openApplianceKey(dataDir);
    return privateKey;
  };
  let writing: Promise<void> = Promise.resolve();

  async function append(): Promise<void> {
    for (;;) {
      const rows = listUnmirrored(database.store, BATCH);
      if (rows.length === 0) return;
      await appendLines(path, signedOf(rows));
      const ids = rows.map(({ id }) => id);
      const known = await beginningOf(path);
      transaction(database.store, (tx) => {
        markMirrored(tx, ids, clock.now());
        putSetting(tx, SETTING_NAMES.mirroredReceipts, known, clock.now());
      });
    }
  }

  return {
    write(tx, deletion) {
      const nowMs = clock.now();
      const { source, name } = currentActor();
      const id = newId("receipt", nowMs);
      const document: DeletionReceipt = {
        ...{ object: "deletion_receipt", id, created_at: toTimestamp(nowMs), by: { source, name } },
        ...deletion,
      };
      const row = {
        ...{ id, object: deletion.deleted.id, organizationId: deletion.deleted.organization_id },
        ...{ createdAt: nowMs, signed: JSON.stringify(signDocument(document, key())), mirroredAt: null },
      };
      insertReceipt(tx, row);
      return row;
    },
    mirror() {
      // One after the other: two at once would write the same lines.
      writing = writing.then(append, append);
      return writing;
    },
    async *readUnknown() {
      if (!existsSync(path)) return;
      const trusted = trustedKeys(dataDir, database.store);
      const start = await knownBytes(path, findSetting(database.store, SETTING_NAMES.mirroredReceipts));
      for (const line of readLines(path, start)) {
        const id = idIn(line);
        // Before the signature, which takes much longer.
        if (id === undefined || hasReceipt(database.store, id)) continue;
        const document = readTrusted(line, trusted);
        if (isReceipt(document)) yield { document, signed: line };
      }
    },
  };
}

const signedOf = (rows: readonly Pick<ReceiptRow, "signed">[]) => rows.map(({ signed }) => signed);

/**
 * Brings receipts that only the database of a data directory has into the file beside it, before another database takes
 * its place: a command that was killed right after a deletion has not written them. A line may be there twice
 * afterwards. A database that cannot be read has none to give.
 *
 * @throws the system's error when the file cannot be written
 */
export function saveReceipts(dataDir: string): void {
  const path = join(dataDir, DELETIONS_FILE);
  for (let after = ""; ; ) {
    const rows = readUnmirrored(databasePath(dataDir), after);
    const last = rows.at(-1);
    if (last === undefined) return;
    appendLinesNow(path, signedOf(rows));
    after = last.id;
  }
}

function readUnmirrored(path: string, after: string): Pick<ReceiptRow, "id" | "signed">[] {
  try {
    const { sqlite } = openAnyVersion(path);
    try {
      return listUnmirroredOnce(sqlite, after, BATCH);
    } finally {
      sqlite.close();
    }
  } catch {
    return [];
  }
}

/** Returns the identifier of the receipt in a line; undefined for a line that a crash has cut. */
function idIn(line: string): string | undefined {
  try {
    const id: unknown = JSON.parse(line)?.document?.id;
    return typeof id === "string" ? id : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Brings receipts from a copy of the file, in a folder of backups, into the file of a data directory, as far as a restored
 * database does not have them.
 *
 * @param trusted fingerprints of the keys whose lines count
 * @param hasReceiptOf reports whether the restored database has a receipt
 * @returns how many
 * @throws the system's error when the file cannot be written
 */
export function takeReceipts(
  dataDir: string,
  folder: string,
  trusted: ReadonlySet<string>,
  hasReceiptOf: (id: string) => boolean,
): number {
  const [from, to] = [join(folder, DELETIONS_FILE), join(dataDir, DELETIONS_FILE)];
  const taken = new Set<string>();
  let lines: string[] = [];
  const write = () => {
    appendLinesNow(to, lines);
    lines = [];
  };
  for (const line of readLines(from)) {
    const id = idIn(line);
    if (id === undefined || taken.has(id) || hasReceiptOf(id) || !isReceipt(readTrusted(line, trusted)))
      continue;
    taken.add(id);
    lines.push(line);
    if (lines.length >= BATCH) write();
  }
  write();
  return taken.size;
}
