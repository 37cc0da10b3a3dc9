import { AppError } from "../../domain/errors.ts";
import { audioFilePath, removeFile } from "../../store/audio-files.ts";
import { checkpoint, transaction } from "../../store/database.ts";
import { findUpload, type UploadRow } from "../../store/uploads.ts";
import type { Admin } from "../admin.ts";
import { deleteUploadRecording } from "../deletions.ts";
import { createReceiptService } from "../receipts.ts";

/**
 * Deletes the recording of an upload for an admin's command. Deleting it again changes nothing.
 *
 * @throws AppError `not_found`; `conflict` while an unfinished transcription uses it
 */
export async function deleteUpload({ database, clock, dataDir }: Admin, id: string): Promise<UploadRow> {
  const receipts = createReceiptService({ database, clock, dataDir });
  const require = (store = database.store) => {
    const row = findUpload(store, id);
    if (!row) throw new AppError("not_found", { message: `There is no upload ${id}.` });
    return row;
  };
  transaction(database.store, (tx) =>
    deleteUploadRecording(tx, require(tx), { receipts, nowMs: clock.now() }),
  );
  await removeFile(audioFilePath(dataDir, id));
  await receipts.mirror();
  await checkpoint(database);
  return require();
}
