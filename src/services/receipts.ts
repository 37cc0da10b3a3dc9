import { createPublicKey, type KeyObject } from "node:crypto";
import { appendFileSync, existsSync } from "node:fs";
import { appendFile, open, stat } from "node:fs/promises";
import { join } from "node:path";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { currentActor } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import { syncPath, syncPathNow } from "../lib/durable-files.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { newId } from "../lib/ids.ts";
import { sha256Hex } from "../lib/sha256.ts";
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
import { openApplianceKey } from "./signed/appliance-key.ts";
import { isReceipt } from "./signed/receipt.ts";
import { signDocument, verifyDocument } from "./signed/signed-documents.ts";

export type ReceiptDeps = { database: Database; clock: Clock; dataDir: string };
/** A deletion, without what the service fills in. */
export type Deletion = Pick<DeletionReceipt, "deleted" | "recording" | "transcript" | "removed">;

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

export const DELETIONS_FILE = "deletions.jsonl";
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
      const isNew = !existsSync(path);
      await appendFile(path, textOf(rows), { mode: 0o600 });
      if (isNew) giveToOwner(path);
      await syncPath(path);
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
      const own = createPublicKey(key());
      const start = await knownBytes(path, findSetting(database.store, SETTING_NAMES.mirroredReceipts));
      const file = await open(path);
      try {
        for await (const line of file.readLines({ start })) {
          const id = idIn(line);
          // Before the signature, which takes much longer.
          if (id === undefined || hasReceipt(database.store, id)) continue;
          const document = receiptIn(line, own);
          if (document !== undefined) yield { document, signed: line };
        }
      } finally {
        await file.close();
      }
    },
  };
}

/** Renders lines of the file. They begin on a new line, because a crash may have cut the last one. */
const textOf = (rows: readonly Pick<ReceiptRow, "signed">[]) =>
  `\n${rows.map(({ signed }) => `${signed}\n`).join("")}`;

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
    const isNew = !existsSync(path);
    appendFileSync(path, textOf(rows), { mode: 0o600 });
    if (isNew) giveToOwner(path);
    syncPathNow(path);
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

/** Returns the receipt in a line; undefined for one that another key has signed, which deletes nothing, and for evidence. */
function receiptIn(line: string, key: KeyObject): DeletionReceipt | undefined {
  try {
    const { document } = verifyDocument(line, key);
    return isReceipt(document) ? document : undefined;
  } catch {
    return undefined;
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
 * The beginning of the file whose receipts the database has: each is a row before it gets into the file. `tail` is the
 * SHA-256 of the last bytes of the beginning, by which it is recognised: the file may be another one.
 */
type Beginning = { bytes: number; tail: string };

const TAIL_BYTES = 4096;

/** Describes all that is in the file now. */
async function beginningOf(path: string): Promise<Beginning> {
  const { size: bytes } = await stat(path);
  return { bytes, tail: await hashBefore(path, bytes) };
}

/** Returns how many bytes of the file need not be read; 0 where it is not the file that the database knows. */
async function knownBytes(path: string, known: unknown): Promise<number> {
  const { bytes = 0, tail } = (known ?? {}) as Partial<Beginning>;
  const isThere = Number.isSafeInteger(bytes) && bytes > 0 && (await stat(path)).size >= bytes;
  return isThere && (await hashBefore(path, bytes)) === tail ? bytes : 0;
}

/** Hashes the last bytes before a position of the file. */
async function hashBefore(path: string, end: number): Promise<string> {
  const file = await open(path);
  try {
    const start = Math.max(0, end - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    return sha256Hex(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}
