import { join } from "node:path";
import { isRunning } from "../lib/is-running.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import type { App } from "./app.ts";

/** Name of the file in the data directory that `serve` writes and `status` reads. */
export const STATUS_FILE = "status.json";

export type ServerStatus = ReturnType<App["status"]> & {
  pid: number;
  address: string;
  /** Where this machine reaches the server, whatever address clients use. Older versions do not write it. */
  local_address?: string;
  started_at: string;
  updated_at: string;
};

const MAX_STATUS_BYTES = 1024 * 1024;
/** A server writes each second. One that has not written for this long is gone, or hangs. */
const SILENT_MS = 15_000;

/**
 * Reads the last status of a running server; undefined when none is running on this data directory. After a crash the
 * file stays, and another process may have its number, so only a fresh file counts.
 */
export function readServerStatus(dataDir: string, nowMs = Date.now()): ServerStatus | undefined {
  try {
    const status = JSON.parse(readRegularFile(join(dataDir, STATUS_FILE), MAX_STATUS_BYTES)) as ServerStatus;
    if (nowMs - Date.parse(status.updated_at) > SILENT_MS) return undefined;
    return isRunning(status.pid) ? status : undefined;
  } catch {
    return undefined;
  }
}
