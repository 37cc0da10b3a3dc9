import { chmodSync, lchownSync, mkdirSync, statSync } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";

/**
 * Gives a new file or folder to the owner of the folder it lies in, when root has made it: an admin's command with
 * `sudo` must leave nothing behind that a server under its own user cannot use. For anybody else it does nothing.
 */
export function giveToOwner(path: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(dirname(path));
  if (uid === 0) return;
  try {
    lchownSync(path, uid, gid);
  } catch (error) {
    // A mount that decides itself whose its files are, as of a container's host or a network.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
  }
}

/** Makes a folder, and those above it that are missing, with this mode, each for the owner of the one it lies in. */
export function makeFolder(path: string, mode: number): void {
  const first = mkdirSync(path, { recursive: true, mode });
  if (first === undefined) return;
  let made = dirname(resolve(first));
  for (const name of relative(made, resolve(path)).split(sep)) {
    made = `${made}${sep}${name}`;
    // An admin's umask may be stricter than what the server's user needs.
    chmodSync(made, mode);
    giveToOwner(made);
  }
}
