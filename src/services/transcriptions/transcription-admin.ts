import { rmSync } from "node:fs";
import { join } from "node:path";
import { pathOfId } from "../../lib/ids.ts";
import { audioFilePath, removeFile } from "../../store/audio-files.ts";
import type { Admin } from "../admin.ts";
import { createReceiptService } from "../receipts.ts";
import { createTranscriptionEndings, type TranscriptionEndings } from "./transcription-endings.ts";

/** Opens cancelling and deleting for an admin's command. A running server notices the change within a second. */
export function openTranscriptionAdmin({ database, clock, config, dataDir }: Admin): TranscriptionEndings {
  return createTranscriptionEndings({
    database,
    clock,
    config,
    uploads: { removeAudioFile: (uploadId) => removeFile(audioFilePath(dataDir, uploadId)) },
    receipts: createReceiptService({ database, clock, dataDir }),
    removeWorkingFiles: (id) =>
      rmSync(pathOfId(join(dataDir, "work"), "transcription", id), { recursive: true, force: true }),
  });
}
