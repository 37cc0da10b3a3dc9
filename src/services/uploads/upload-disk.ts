import { AppError } from "../../domain/errors.ts";
import { isRefusedWrite } from "../../store/disk-full.ts";
import type { UploadContext } from "./upload-context.ts";

const DISK_RETRY_SECONDS = 60;

/**
 * Checks the free disk: a new upload must leave the reserve free, a running one half of it. The rest is the database's.
 *
 * @param bytes size of a new upload; 0: a running one
 * @throws AppError `capacity_unavailable`
 */
export async function checkDisk(
  context: Pick<UploadContext, "config" | "freeBytes">,
  bytes: number,
): Promise<void> {
  const reserve = context.config.storage.reserve_bytes;
  const free = await context.freeBytes();
  if (bytes > 0 ? free - bytes < reserve : free < reserve / 2) throw diskFull();
}

/** Reports whether an upload's bytes were refused by the disk, or by `checkDisk`. */
export function isDiskFailure(error: unknown): boolean {
  return isRefusedWrite(error) || (error instanceof AppError && error.code === "capacity_unavailable");
}

/** Turns a write that the disk refused into `capacity_unavailable`, and returns any other error as it is. */
export function asDiskFailure(error: unknown): unknown {
  return isRefusedWrite(error) ? diskFull(error) : error;
}

function diskFull(cause?: unknown): AppError {
  return new AppError("capacity_unavailable", {
    message: "The disk has no space for this file now.",
    retryAfterSeconds: DISK_RETRY_SECONDS,
    cause,
  });
}
