import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Server } from "bun";
import type { Config } from "../config/schema.ts";
import { isRunning } from "../lib/is-running.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { toTimestamp } from "../lib/time.ts";
import type { App } from "./app.ts";
import { localAddress, publicAddress } from "./listen-address.ts";

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

const STATUS_EVERY_MS = 1_000;
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

/**
 * Writes the status of this process to a small file, regularly. `shruti status` reads it.
 *
 * @param settings those of the running server, where a reload writes new ones
 * @returns a function that ends this and removes the file
 */
export function keepStatusFile(
  app: Pick<App, "dataDir" | "status">,
  { port }: Pick<Server<unknown>, "port">,
  { server: settings }: Pick<Config, "server">,
): () => void {
  const path = join(app.dataDir, STATUS_FILE);
  const startedAt = toTimestamp(Date.now());
  const write = () => {
    const { listen, tls_cert, base_url } = settings;
    const status = {
      pid: process.pid,
      address: base_url || publicAddress(listen, tls_cert !== "", port),
      local_address: localAddress(listen, tls_cert !== "", port),
      started_at: startedAt,
      updated_at: toTimestamp(Date.now()),
      ...app.status(),
    };
    writeFileSync(`${path}.tmp`, JSON.stringify(status), { mode: 0o600 });
    renameSync(`${path}.tmp`, path);
  };
  const tryToWrite = () => {
    try {
      write();
    } catch {
      // A full disk must not end the server. `updated_at` shows that the file is old.
    }
  };
  const timer = setInterval(tryToWrite, STATUS_EVERY_MS);
  tryToWrite();
  return () => {
    clearInterval(timer);
    rmSync(path, { force: true });
  };
}
