import { chmodSync, lchownSync, mkdirSync, statSync } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";

/**
 * Gives a new file or folder that root has made to the owner of its folder, so that a server under its own user can use
 * what an admin's command with `sudo` has made. It does nothing when this process is not root's.
 */
export function giveToOwner(path: string): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(dirname(path));
  if (uid === 0) return;
  try {
    lchownSync(path, uid, gid);
  } catch (error) {
    // Some mounts (bind, NFS) forbid chown.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
  }
}

/** Creates a folder and its missing parents with this mode. Each belongs to the owner of its own parent. */
export function makeFolder(path: string, mode: number): void {
  const first = mkdirSync(path, { recursive: true, mode });
  if (first === undefined) return;
  let made = dirname(resolve(first));
  for (const name of relative(made, resolve(path)).split(sep)) {
    made = `${made}${sep}${name}`;
    // An admin's umask may have removed rights that the server's user needs.
    chmodSync(made, mode);
    giveToOwner(made);
  }
}
