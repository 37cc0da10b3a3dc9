import { readFileSync } from "node:fs";
import { join } from "node:path";
import { NATS_FILES } from "./nats-config.ts";

/**
 * Asks the messaging server to read its configuration again, when it runs on this machine. It then closes the connections
 * of workers that were removed.
 *
 * @returns false when no server of this configuration was found here
 */
export function reloadNats(folder: string): boolean {
  try {
    const pid = Number(readFileSync(join(folder, NATS_FILES.pid), "utf8").trim());
    if (!Number.isSafeInteger(pid) || pid < 2) return false;
    // After a crash another process may have this number.
    if (readFileSync(`/proc/${pid}/comm`, "utf8").trim() !== "nats-server") return false;
    process.kill(pid, "SIGHUP");
    return true;
  } catch {
    return false;
  }
}
