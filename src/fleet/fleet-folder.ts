import { join } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import { readRegularFile } from "../lib/regular-file.ts";

/** The files of a fleet in the data directory of its control plane, made by `shruti fleet init`. */
export const FLEET_FILES = {
  ca: "ca.pem",
  caKey: "ca-key.pem",
  /** For the listener of the control plane. */
  listenerCert: "listener-cert.pem",
  listenerKey: "listener-key.pem",
  /** Secret of the control plane's NKEY. */
  controlKey: "control.key",
  /** Secret that tokens are made with. */
  tokenSecret: "token-secret",
} as const;

export function fleetFolderOf(dataDir: string): string {
  return join(dataDir, "fleet");
}

const MAX_BYTES = 1024 * 1024;

/** @throws Error that names the file */
export function readFleetFile(path: string): string {
  try {
    return readRegularFile(path, MAX_BYTES).trim();
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? errorMessage(cause);
    throw new Error(`${path} cannot be read (${reason}); \`shruti fleet init\` makes the files of a fleet`, {
      cause,
    });
  }
}
