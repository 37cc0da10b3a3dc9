import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { App } from "../app.ts";

/** In the data directory, written by `serve`, read by `status`. */
export const STATUS_FILE = "status.json";

export type ServerStatus = ReturnType<App["status"]> & {
  pid: number;
  address: string;
  started_at: string;
  updated_at: string;
};

/** What a running server last said of itself; undefined when none is running on this data directory. */
export function readServerStatus(dataDir: string): ServerStatus | undefined {
  try {
    const status = JSON.parse(readFileSync(join(dataDir, STATUS_FILE), "utf8")) as ServerStatus;
    // Signal 0 only asks whether the process is there.
    process.kill(status.pid, 0);
    return status;
  } catch {
    return undefined;
  }
}
