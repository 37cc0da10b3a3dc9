import { AppError } from "../../domain/errors.ts";
import { equalsConstantTime, sha256Hex } from "../../lib/sha256.ts";
import { findHeldKeys, isHeld } from "../../store/held-keys.ts";
import { findUploadBearer, type UploadBearer, type UploadRow } from "../../store/uploads.ts";
import { HELD_MESSAGE } from "../api-keys.ts";
import type { UploadContext } from "./upload-context.ts";
import { expireUpload } from "./upload-expiry.ts";

/**
 * Finds the upload that a token belongs to (docs/decisions/uploads.md).
 *
 * @throws AppError `unauthorized` for an unknown upload, a wrong token, and once the key that made the upload is
 *   revoked, expired or held back by a restore; `organization_disabled`
 */
export function authorizeUpload(
  context: UploadContext,
  uploadId: string,
  token: string | undefined,
): UploadRow {
  const found = findUploadBearer(context.database.store, uploadId);
  const isRight = equalsConstantTime(sha256Hex(token ?? ""), found?.upload.tokenHash ?? sha256Hex(""));
  if (!token || !found || !isRight) {
    throw new AppError("unauthorized", { message: "The upload token is missing or invalid." });
  }
  if (!isKeyValid(found, context.clock.now())) {
    throw new AppError("unauthorized", { message: "The key that made this upload is not valid any more." });
  }
  if (found.key && isHeld(findHeldKeys(context.database.store), found.key)) {
    throw new AppError("unauthorized", { message: HELD_MESSAGE });
  }
  if (found.organizationDisabledAt !== null) throw new AppError("organization_disabled");
  return expireUpload(context, found.upload);
}

/** Reports whether the key that made the upload is valid. Its token ends with the key. */
function isKeyValid({ upload, key }: UploadBearer, nowMs: number): boolean {
  if (upload.apiKeyId === null) return true;
  return key !== null && key.revokedAt === null && (key.expiresAt === null || key.expiresAt > nowMs);
}
