import { createPublicKey, type KeyObject } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, open } from "node:fs/promises";
import { join } from "node:path";
import type { DeletionReceipt } from "../domain/receipt.ts";
import { currentActor } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import { syncPath } from "../lib/durable-files.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { newId } from "../lib/ids.ts";
import { toTimestamp } from "../lib/time.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { insertReceipt, listUnmirrored, markMirrored, type ReceiptRow } from "../store/receipts.ts";
import { openApplianceKey } from "./signed/appliance-key.ts";
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
  /** Reads the receipts of the file that the appliance's key has signed, oldest first. */
  readMirror(): AsyncGenerator<{ document: DeletionReceipt; signed: string }>;
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
      // It begins on a new line, because a crash may have cut the last one.
      await appendFile(path, `\n${rows.map(({ signed }) => `${signed}\n`).join("")}`, { mode: 0o600 });
      if (isNew) giveToOwner(path);
      await syncPath(path);
      const ids = rows.map(({ id }) => id);
      transaction(database.store, (tx) => markMirrored(tx, ids, clock.now()));
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
    async *readMirror() {
      if (!existsSync(path)) return;
      const own = createPublicKey(key());
      const file = await open(path);
      try {
        for await (const line of file.readLines()) {
          try {
            yield { document: verifyDocument<DeletionReceipt>(line, own).document, signed: line };
          } catch {
            // A line that a crash has cut, or that another key has signed, deletes nothing.
          }
        }
      } finally {
        await file.close();
      }
    },
  };
}
