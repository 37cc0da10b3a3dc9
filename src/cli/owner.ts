import { statSync } from "node:fs";
import type { Config } from "../config/schema.ts";
import { dataDirOf } from "../services/admin.ts";
import { databasePath } from "../store/database.ts";

/**
 * Continues as the owner of the data directory, when root has started a command that serves or runs native code. So new
 * files belong to that user, missing rights are found (such as to open a GPU), and nothing that the user could have
 * changed runs with the rights of root. The process cannot become root again.
 *
 * @returns the user's number; undefined when nothing changed
 */
export function becomeOwner(config: Config): number | undefined {
  if (process.geteuid?.() !== 0) return undefined;
  const owner = ownerOf(dataDirOf(config));
  if (owner === undefined || owner.uid === 0) return undefined;
  try {
    setGroupsOf(owner.uid, owner.gid);
  } catch {
    // A user without a name, as in containers, has no other groups.
    process.setgroups?.([owner.gid]);
  }
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
  return owner.uid;
}

/** Returns the user's groups from the system's list, such as `render` for a GPU. @throws Error for a user without a name */
function setGroupsOf(uid: number, gid: number): void {
  (process as typeof process & { initgroups(user: number, group: number): void }).initgroups(uid, gid);
}

function ownerOf(dataDir: string): { uid: number; gid: number } | undefined {
  const quietly = { throwIfNoEntry: false } as const;
  return statSync(databasePath(dataDir), quietly) ?? statSync(dataDir, quietly);
}
