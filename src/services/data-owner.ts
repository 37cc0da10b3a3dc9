import { lstatSync, type Stats, statSync } from "node:fs";
import { asUser, canChangeRights, ownerOf, type User } from "../lib/rights.ts";
import { databasePath } from "../store/database.ts";

/**
 * Returns the user to whom a data directory belongs, with whose rights root works there.
 *
 * @returns undefined for root, where there is no such directory, and where this process cannot change its rights
 */
export function ownerOfData(dataDir: string): User | undefined {
  if (!canChangeRights() || !factsOf(dataDir, statSync)?.isDirectory()) return undefined;
  const owner = ownerOf(dataDir);
  if (owner !== undefined) return owner;
  // Some mounts give the folder itself to root. What is at the database's path then shows the user; a link is not followed.
  const facts = factsOf(databasePath(dataDir), lstatSync);
  return facts === undefined || facts.uid === 0 ? undefined : { uid: facts.uid, gid: facts.gid };
}

function factsOf(path: string, look: (path: string) => Stats): Stats | undefined {
  try {
    return asUser(undefined, () => look(path));
  } catch {
    return undefined;
  }
}
