import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { keyFingerprint, readPrivateKey } from "../../lib/signatures.ts";

/** The appliance's own key, in the data directory. It signs receipts, evidence and backups. */
export const SIGNING_KEY_FILE = "signing-key.pem";
const MAX_KEY_BYTES = 16 * 1024;

/**
 * Returns the appliance's private key. The first call makes it, readable by its owner alone.
 *
 * @throws KeyError for a file that is not a key; the system's error
 */
export function openApplianceKey(dataDir: string): KeyObject {
  const path = join(dataDir, SIGNING_KEY_FILE);
  asOwnerOf(dataDir, () => {
    if (!existsSync(path)) makeKey(path);
  });
  return readPrivateKey(readRegularFile(path, MAX_KEY_BYTES));
}

/**
 * Returns the fingerprint of the appliance's key, and makes none.
 *
 * @returns undefined when there is no key that this user can read
 */
export function findFingerprint(dataDir: string): string | undefined {
  try {
    return keyFingerprint(readPrivateKey(readRegularFile(join(dataDir, SIGNING_KEY_FILE), MAX_KEY_BYTES)));
  } catch {
    return undefined;
  }
}

function makeKey(path: string): void {
  const { privateKey } = generateKeyPairSync("ed25519");
  try {
    writeNewFileNow(path, privateKey.export({ type: "pkcs8", format: "pem" }).toString(), 0o600);
    giveToOwner(path);
  } catch (error) {
    // Another process has made it at the same moment.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
