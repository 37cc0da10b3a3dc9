import { rm } from "node:fs/promises";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { NotReached } from "../domain/receipt.ts";
import type { Clock } from "../lib/clock.ts";
import { toTimestamp } from "../lib/time.ts";
import { audioFilePath } from "../store/audio-files.ts";
import { recordAct } from "../store/audit-log.ts";
import { checkpoint, type Database, transaction } from "../store/database.ts";
import {
  findOrganization,
  listPurging,
  markPurged,
  markPurgeStarted,
  type OrganizationRow,
  requireOrganization,
} from "../store/organizations.ts";
import {
  listContentOf,
  listRecordingsOf,
  listUnfinishedOf,
  listUploadsOf,
  removeAccess,
} from "../store/purge.ts";
import { countDeletedSince } from "../store/receipts.ts";
import { findUpload } from "../store/uploads.ts";
import { type EarlierBackup, earlierBackups } from "./backups/known-backups.ts";
import { deleteUploadRecording } from "./deletions.ts";
import { type PurgedCopies, removeCopiesWith } from "./kept-copies.ts";
import type { ReceiptService } from "./receipts.ts";
import type { TranscriptionEndings } from "./transcriptions/transcription-endings.ts";

export type PurgeDeps = {
  database: Database;
  clock: Clock;
  dataDir: string;
  config: Pick<Config, "backup">;
  receipts: Pick<ReceiptService, "write" | "mirror">;
  transcriptions: Pick<TranscriptionEndings, "cancelById" | "deleteById">;
};

/**
 * Removes everything of an organization that leaves: keys, webhook endpoints and their events, unfinished work,
 * transcripts and recordings, also in the older databases beside the database. The organization's row, its projects, ledger, usage events, records of transcriptions and
 * uploads without content, receipts and the audit log stay, because accounting needs them.
 */
export type PurgeService = {
  /**
   * Purges an organization to the end. A purge that a crash has interrupted continues.
   *
   * @throws AppError `not_found`; `conflict` when it was purged before
   */
  purge(organizationId: string): Promise<Purged>;
  /**
   * Continues all purges that have begun and not ended. One that fails does not keep the others from their work.
   *
   * @param onFailure is called for each one that fails
   * @returns how many were completed
   */
  resume(onFailure: (organizationId: string, error: unknown) => void): Promise<number>;
};

export type Purged = {
  organization: OrganizationRow;
  /** Older databases beside the database, which held the organization's content. */
  copies: PurgedCopies;
  notReached: NotReached;
};

/** The receipt names the newest backups; the text stays small. */
const MAX_BACKUPS = 20;
const ELSEWHERE =
  "Backups and copies that others have made, and backups that were moved. What clients and receivers of webhooks keep. What browsers keep: the console forgets it when it finds that it is deleted.";

const BATCH = 200;

export function createPurgeService(deps: PurgeDeps): PurgeService {
  const { database, clock } = deps;
  const { store } = database;

  async function purge(id: string): Promise<Purged> {
    requireOrganization(store, id);
    const { isContinued, ...access } = transaction(store, (tx) => {
      const started = markPurgeStarted(tx, id, clock.now());
      return { isContinued: started === undefined, ...removeAccess(tx, id) };
    });
    await removeContent(deps, id);
    if (isContinued) await removeLeftFiles(deps, id);
    const copies = await removeCopiesWith(database.path, deps.dataDir, id);
    const notReached = notReachedOf(await earlierBackups(store, deps.config));
    const organization = transaction(store, (tx) => {
      const purged = markPurged(tx, id, clock.now());
      if (!purged) return requireOrganization(tx, id);
      const { transcriptions, recordings } = countDeletedSince(tx, id, purged.purgeStartedAt ?? 0);
      const removed = {
        ...{ ...access, transcriptions, uploads: recordings },
        database_copies: copies.removed.length,
      };
      const deleted = { kind: "organization", id, organization_id: id } as const;
      const nothing = { recording: null, transcript: null };
      const receipt = deps.receipts.write(tx, { deleted, ...nothing, removed, not_reached: notReached });
      const after = { ...removed, receipt: receipt.id };
      recordAct(tx, { action: "organization.purge", object: id, organizationId: id, after }, clock.now());
      return purged;
    });
    return { organization, copies, notReached };
  }

  async function purgeAndMirror(id: string): Promise<Purged> {
    const row = findOrganization(store, id);
    const endedAt = row?.purgedAt ?? undefined;
    const isOver = row !== undefined && endedAt !== undefined;
    const purged = isOver
      ? { organization: row, copies: { removed: [], kept: [] }, notReached: notReachedOf([]) }
      : await purge(id);
    // Also when it has ended before: a kill may have come right after the last transaction.
    await deps.receipts.mirror();
    // SQLite overwrites the deleted content in the database file only when the write-ahead log is checkpointed.
    await checkpoint(database);
    if (endedAt !== undefined) {
      throw new AppError("conflict", { message: `${id} was purged at ${toTimestamp(endedAt)}.` });
    }
    return purged;
  }

  return {
    purge: purgeAndMirror,
    async resume(onFailure) {
      let completed = 0;
      for (const { id } of listPurging(store)) {
        try {
          await purgeAndMirror(id);
          completed += 1;
        } catch (error) {
          onFailure(id, error);
        }
      }
      return completed;
    },
  };
}

/** Each backup of this machine may hold the organization: only a restore would tell. */
function notReachedOf(backups: EarlierBackup[]): NotReached {
  const newest = backups.toSorted((a, b) => (b.made_at ?? "").localeCompare(a.made_at ?? ""));
  return { backups: newest.slice(0, MAX_BACKUPS), backups_count: backups.length, elsewhere: ELSEWHERE };
}

/** Cancels unfinished work, then deletes content, in small steps. Each step can be repeated. */
async function removeContent(deps: PurgeDeps, organizationId: string): Promise<void> {
  const { database, transcriptions } = deps;
  const { store } = database;
  for (let batch = listUnfinishedOf(store, organizationId, BATCH); batch.length > 0; ) {
    for (const id of batch) transcriptions.cancelById(id);
    batch = listUnfinishedOf(store, organizationId, BATCH);
  }
  for (let batch = listContentOf(store, organizationId, BATCH); batch.length > 0; ) {
    for (const id of batch) await transcriptions.deleteById(id);
    batch = listContentOf(store, organizationId, BATCH);
  }
  for (let batch = listRecordingsOf(store, organizationId, BATCH); batch.length > 0; ) {
    for (const id of batch) await removeRecording(deps, id);
    batch = listRecordingsOf(store, organizationId, BATCH);
  }
}

async function removeRecording({ database, clock, dataDir, receipts }: PurgeDeps, id: string): Promise<void> {
  transaction(database.store, (tx) => {
    const upload = findUpload(tx, id);
    if (upload) deleteUploadRecording(tx, upload, { receipts, nowMs: clock.now() });
  });
  await rm(audioFilePath(dataDir, id), { force: true });
}

/** Removes the files of all uploads: a purge that was killed may have marked recordings whose files are still there. */
async function removeLeftFiles({ database, dataDir }: PurgeDeps, organizationId: string): Promise<void> {
  let page = listUploadsOf(database.store, organizationId, undefined, BATCH);
  while (page.length > 0) {
    for (const { id } of page) await rm(audioFilePath(dataDir, id), { force: true });
    page = listUploadsOf(database.store, organizationId, page.at(-1), BATCH);
  }
}
