import { join } from "node:path";
import { isId } from "../../lib/ids.ts";
import {
  audioDirectory,
  audioFilePath,
  ensureAudioDirectory,
  fileBytes,
  listFiles,
  removeFile,
} from "../../store/audio-files.ts";
import { transaction } from "../../store/database.ts";
import { listRestoreCopies } from "../../store/kept-copies.ts";
import { findUpload, listUploadsWithAudio, markAudioDeleted, type UploadRow } from "../../store/uploads.ts";
import type { UploadContext } from "./upload-context.ts";
import { reject } from "./upload-verification.ts";

const PAGE = 500;

/** How many files without a record were removed, and how many records without a file were marked. */
export type SweepReport = { filesRemoved: number; recordsMarked: number };

/**
 * Reconciles the directory of recordings with the records. It removes files that no record needs and that are older
 * than this process (`removeOrphans`), and marks records whose file is gone. When the whole directory is empty, its disk is
 * probably not mounted: then it marks nothing.
 */
export async function sweepAudioFiles(context: UploadContext): Promise<SweepReport> {
  const report: SweepReport = { filesRemoved: 0, recordsMarked: 0 };
  await ensureAudioDirectory(context.dataDir);
  if (await isEmpty(audioDirectory(context.dataDir))) {
    if (listUploadsWithAudio(context.database.store, "", 1).length > 0) {
      context.log.error("the directory of recordings is empty; is its disk mounted?");
    }
    return report;
  }
  report.filesRemoved = await removeOrphans(context, context.startedAtMs);
  report.recordsMarked = await markLostFiles(context);
  if (report.filesRemoved + report.recordsMarked > 0) context.log.warn(report, "recordings were swept");
  return report;
}

async function isEmpty(directory: string): Promise<boolean> {
  for await (const _file of listFiles(directory)) return false;
  return true;
}

/**
 * Removes the files that no record needs, such as those of recordings whose deletion was killed. After a restore, the
 * recordings that only the replaced database knows stay as long as that database does: the restore may have been a mistake.
 *
 * @param unchangedSinceMs younger files stay: their records may be about to be written
 * @returns how many were removed
 */
export async function removeOrphans(context: UploadContext, unchangedSinceMs: number): Promise<number> {
  const directory = audioDirectory(context.dataDir);
  const keepsUnknown = listRestoreCopies(context.database.path).length > 0;
  let removed = 0;
  for await (const { name, changedAtMs } of listFiles(directory)) {
    if (changedAtMs >= unchangedSinceMs || isNeeded(context, name, keepsUnknown)) continue;
    try {
      await removeFile(join(directory, name));
      removed += 1;
    } catch (error) {
      context.log.error({ err: error, file: name }, "a file without a record cannot be removed");
    }
  }
  return removed;
}

function isNeeded(context: UploadContext, name: string, keepsUnknown: boolean): boolean {
  if (!isId("upload", name)) return false;
  const upload = findUpload(context.database.store, name);
  if (!upload) return keepsUnknown;
  return upload.state !== "rejected" && upload.deletedAt === null;
}

async function markLostFiles(context: UploadContext): Promise<number> {
  const { store } = context.database;
  let marked = 0;
  let after = "";
  for (;;) {
    const page = listUploadsWithAudio(store, after, PAGE);
    for (const upload of page) {
      if ((await fileBytes(audioFilePath(context.dataDir, upload.id))) !== undefined) continue;
      await markLost(context, upload);
      marked += 1;
    }
    const last = page.at(-1);
    if (page.length < PAGE || !last) return marked;
    after = last.id;
  }
}

async function markLost(context: UploadContext, upload: UploadRow): Promise<void> {
  context.log.error({ upload_id: upload.id, state: upload.state }, "the file of an upload is gone");
  if (upload.state === "verifying") {
    await reject(context, upload, "upload_rejected", "The stored bytes were lost.");
    return;
  }
  transaction(context.database.store, (tx) => markAudioDeleted(tx, upload.id, context.clock.now()));
}
