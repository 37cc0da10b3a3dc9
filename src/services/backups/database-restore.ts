import { resolve } from "node:path";
import { type RestoreDeps, type Restored, restoreDatabase } from "../admin.ts";
import type { KnownKeys } from "./backup-signature.ts";
import { receiveSealed } from "./database-seal.ts";

/**
 * Replaces the database by a copy of the database alone, as `shruti backup FILE` makes it, and says who has signed the copy.
 *
 * @throws as `restoreDatabase`; AppError `invalid_request` for a wrong signature, or another key than the demanded one
 */
export function restoreDatabaseFile(deps: RestoreDeps, file: string, keys: KnownKeys): Restored {
  const name = resolve(file);
  return restoreDatabase(deps, file, name, (copy) => receiveSealed(copy, keys, name));
}
