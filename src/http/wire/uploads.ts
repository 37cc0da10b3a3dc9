import { toSeconds } from "../../lib/time.ts";
import type { CreatedUpload } from "../../services/uploads/uploads.ts";
import type { UploadRow } from "../../store/uploads.ts";
import type { Upload, UploadCreated } from "./schemas.ts";

/** Bytes of one tus request that clients are advised to send. */
const CHUNK_BYTES = 8 * 1024 * 1024;

/** An upload on the wire (docs/interface.md section 2.4). */
export function toUploadResponse(row: UploadRow): Upload {
  return {
    id: row.id,
    object: "upload",
    state: row.state,
    bytes: row.bytes,
    ...(row.durationMs === null ? {} : { duration_seconds: toSeconds(row.durationMs) }),
    ...(row.channels === null ? {} : { channels: row.channels }),
    ...(row.deletedAt === null ? {} : { deleted: true }),
    ...(row.errorCode === null ? {} : { error: toUploadError(row.errorCode, row.errorMessage) }),
  };
}

function toUploadError(code: NonNullable<UploadRow["errorCode"]>, message: string | null) {
  return { code, ...(message === null ? {} : { message }) };
}

/**
 * A new upload with the addresses and fields that send its file (docs/interface.md section 2.4,
 * docs/decisions/uploads.md).
 */
export function toCreatedResponse(
  { upload, token }: CreatedUpload,
  baseUrl: string,
  expirySeconds: number,
): UploadCreated {
  const authorization = `Bearer ${token}`;
  return {
    id: upload.id,
    object: "upload",
    state: "allocated",
    bytes: upload.bytes,
    expires_in: expirySeconds,
    upload: {
      method: "PUT",
      url: `${baseUrl}/storage/uploads/${upload.id}`,
      headers: { authorization, "content-type": "application/octet-stream" },
    },
    resumable_upload: {
      protocol: "tus",
      endpoint: `${baseUrl}/storage/tus`,
      chunk_size: CHUNK_BYTES,
      headers: { authorization },
      metadata: { upload_id: upload.id },
    },
  };
}
