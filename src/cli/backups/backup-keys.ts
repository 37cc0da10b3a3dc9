import { readPublicKey } from "../../lib/signatures.ts";
import type { BackupSignature, BackupSigner, KnownKeys } from "../../services/backups/backup-signature.ts";
import type { CliContext } from "../frame/context.ts";
import { openKey } from "../frame/key-file.ts";

/** Whose key signed a backup, for the commands that make, verify and restore backups. */

/**
 * Returns the keys that the signature of a backup is compared with.
 *
 * @param keyFile a public key: the backup must be signed with it; undefined: with any
 * @param dataDir data directory of this machine; left out: that of its config
 * @throws CommandError `usage` for a file that is not a public key
 */
export async function knownKeys(
  context: CliContext,
  keyFile: string | undefined,
  dataDir?: string,
): Promise<KnownKeys> {
  const [{ findFingerprint }, { keyFingerprint }] = await Promise.all([
    import("../../services/signed/appliance-key.ts"),
    import("../../lib/signatures.ts"),
  ]);
  const demanded = keyFile === undefined ? undefined : keyFingerprint(openKey(keyFile, readPublicKey));
  return { own: findFingerprint(dataDir ?? (await ownDataDir(context))), demanded };
}

/** A backup can be verified on a machine without a config, or with one that this user may not read. */
async function ownDataDir(context: CliContext): Promise<string> {
  const { dataDirOf } = await import("../../services/data-dir.ts");
  try {
    return dataDirOf(context.readConfig().config);
  } catch {
    return "/nonexistent";
  }
}

/** Says in a few words by whom a backup is signed. */
export function describeSignature({ by, fingerprint }: BackupSignature): string {
  if (by === "this_machine") return "signed by this machine";
  if (by === "given_key") return "signed with the key of --key";
  return by === "none" ? "not signed" : `signed with the key ${fingerprint}, which is not this machine's`;
}

/** Says who has signed a restored backup, and warns where that proves nothing. */
export function sayWhoSigned(context: CliContext, signature: BackupSignature): void {
  if (signature.by === "none") {
    context.note(
      "warning: the backup is not signed (older versions did not sign): nothing proves who made it, and that it was not changed",
    );
  } else if (signature.by === "other_key") {
    context.note(
      `warning: the backup is ${describeSignature(signature)}; --key with the old machine's public key (\`shruti receipts key\` there) proves whose it is`,
    );
  } else context.printLine(`the backup is ${describeSignature(signature)}`);
}

/** Says why a backup has no signature. */
export function noteUnsigned(context: CliContext, signer: BackupSigner): void {
  if ("problem" in signer) context.note(`warning: the backup is not signed: ${signer.problem}`);
}
