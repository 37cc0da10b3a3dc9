import { chmodSync, closeSync, openSync } from "node:fs";

/**
 * Creates an empty file that only its owner may read or write.
 *
 * @throws the system's error when something is there already, a link included
 */
export function makePrivateFile(path: string): void {
  closeSync(openSync(path, "wx", 0o600));
  // A strict umask may have removed rights of the owner.
  chmodSync(path, 0o600);
}
