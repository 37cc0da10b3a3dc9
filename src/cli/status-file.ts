import { join } from "node:path";
import type { App } from "../app.ts";
import { readRegularFile } from "../lib/regular-file.ts";

/** In the data directory, written by `serve`, read by `status`. */
export const STATUS_FILE = "status.json";

export type ServerStatus = ReturnType<App["status"]> & {
  pid: number;
  address: string;
  started_at: string;
  updated_at: string;
};

const MAX_STATUS_BYTES = 1024 * 1024;
/** A server writes each second; one that has been silent for so long is gone, or stuck. */
const SILENT_MS = 15_000;

/**
 * What a running server last said of itself; undefined when none is running on this data directory. After a
 * crash the file stays, and its process's number may be another's: only a fresh one counts.
 */
export function readServerStatus(dataDir: string, nowMs = Date.now()): ServerStatus | undefined {
  try {
    const status = JSON.parse(readRegularFile(join(dataDir, STATUS_FILE), MAX_STATUS_BYTES)) as ServerStatus;
    if (nowMs - Date.parse(status.updated_at) > SILENT_MS) return undefined;
    return isAlive(status.pid) ? status : undefined;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    // Signal 0 only asks whether the process is there.
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is another user's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
