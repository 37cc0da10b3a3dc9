import { resolve } from "node:path";
import { type RestoreDeps, type Restored, restoreDatabase } from "../admin.ts";
import type { BackupSignature, KnownKeys } from "./backup-signature.ts";
import { receiveSealed } from "./database-seal.ts";

/**
 * Replaces the database by a copy of the database alone, as `shruti backup FILE` makes it, and says who has signed the copy.
 *
 * @throws as `restoreDatabase`; AppError `invalid_request` for a wrong signature, or another key than the demanded one
 */
export function restoreDatabaseFile(
  deps: RestoreDeps,
  file: string,
  keys: KnownKeys,
): Restored & { signature: BackupSignature } {
  let signatureOf: () => BackupSignature = () => ({ by: "none", fingerprint: null });
  const restored = restoreDatabase(deps, file, resolve(file), (copy) => {
    const received = receiveSealed(copy, keys, resolve(file));
    signatureOf = received.signature;
    return {
      check: () => void received.signature(),
      signedBy: () => received.signature().fingerprint ?? undefined,
    };
  });
  return { ...restored, signature: signatureOf() };
}
