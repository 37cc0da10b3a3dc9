import { chmodSync, closeSync, openSync } from "node:fs";

/**
 * Makes a new, empty file that nobody but its owner may read or write, from its first byte on.
 *
 * @throws the system's error when something is there already, a link included
 */
export function makePrivateFile(path: string): void {
  closeSync(openSync(path, "wx", 0o600));
  // A strict umask may have taken the owner's own rights.
  chmodSync(path, 0o600);
}
