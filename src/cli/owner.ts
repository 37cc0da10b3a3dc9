import { statSync } from "node:fs";
import type { Config } from "../config/schema.ts";
import { dataDirOf } from "../services/admin.ts";
import { databasePath } from "../store/database.ts";

/**
 * Goes on as the user whose data directory it is, when root has started a command that runs native code or serves:
 * files belong to that user then, what the user may not do is found out (as to open a GPU), and nothing that the
 * user could have changed runs with root's rights. There is no way back to root.
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
    // A user without a name, as in containers, has no further groups.
    process.setgroups?.([owner.gid]);
  }
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
  return owner.uid;
}

/** The groups that the system's list of users gives, as `render` for a GPU. @throws Error for a number without a name */
function setGroupsOf(uid: number, gid: number): void {
  (process as typeof process & { initgroups(user: number, group: number): void }).initgroups(uid, gid);
}

function ownerOf(dataDir: string): { uid: number; gid: number } | undefined {
  const quietly = { throwIfNoEntry: false } as const;
  return statSync(databasePath(dataDir), quietly) ?? statSync(dataDir, quietly);
}
