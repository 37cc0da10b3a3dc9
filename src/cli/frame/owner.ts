import type { Config } from "../../config/schema.ts";
import { settleRights, stayUser } from "../../lib/rights.ts";
import { dataDirOf } from "../../services/data-dir.ts";
import { ownerOfData } from "../../services/data-owner.ts";

/**
 * Continues as the owner of the data directory, when root has started a command that serves or runs native code. So new
 * files belong to that user, missing rights are found (such as to open a GPU), and nothing that the user could have
 * changed runs with the rights of root. The process cannot become root again.
 *
 * @returns the user's number; undefined when nothing changed
 */
export function becomeOwner(config: Config): number | undefined {
  const owner = ownerOfData(dataDirOf(config));
  stayUser(owner);
  return owner?.uid;
}

/** Does the same for a process that does several things at once, and may not change its rights for one of them. */
export function becomeOwnerForGood(config: Config): number | undefined {
  const user = becomeOwner(config);
  settleRights();
  return user;
}
