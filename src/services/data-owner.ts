import { lstatSync } from "node:fs";
import { asUser, canChangeRights, ownerOf, type User } from "../lib/rights.ts";
import { databasePath } from "../store/database.ts";

/**
 * Returns the user to whom a data directory belongs, with whose rights root works there.
 *
 * @returns undefined for root, and where this process cannot change its rights
 */
export function ownerOfData(dataDir: string): User | undefined {
  const owner = ownerOf(dataDir);
  if (owner !== undefined || !canChangeRights()) return owner;
  // Some mounts give the folder itself to root. What is at the database's path then shows the user; a link is never followed.
  const facts = asUser(undefined, () => lstatSync(databasePath(dataDir), { throwIfNoEntry: false }));
  return facts === undefined || facts.uid === 0 ? undefined : { uid: facts.uid, gid: facts.gid };
}
