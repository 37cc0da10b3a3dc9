import { errorMessage } from "../../lib/error-message.ts";
import { RegularFileError, readRegularBytes } from "../../lib/regular-file.ts";
import { readPublicKey } from "../../lib/signatures.ts";
import { reasonOf } from "../../lib/system-error.ts";
import { CommandError } from "./context.ts";
import { openKey } from "./key-file.ts";

const MAX_DOCUMENT_BYTES = 1024 * 1024;

/**
 * Reads and verifies a signed document.
 *
 * @param keyFile the signer's public key; left out: that of the document, so that only later changes are found
 * @throws CommandError with the file's name: `usage` for the key, `not_found` for a document that cannot be read,
 *   `failed` for one that is not what was signed
 */
export async function readSigned(file: string, keyFile: string | undefined) {
  const { verifyDocument } = await import("../../services/signed/signed-documents.ts");
  const key = keyFile === undefined ? undefined : openKey(keyFile, readPublicKey);
  let bytes: Uint8Array;
  try {
    bytes = readRegularBytes(file, MAX_DOCUMENT_BYTES);
  } catch (error) {
    const reason = error instanceof RegularFileError ? error.code : reasonOf(error);
    throw new CommandError("not_found", `${file}: ${reason}`);
  }
  try {
    return verifyDocument(bytes, key);
  } catch (error) {
    throw new CommandError("failed", `${file}: ${errorMessage(error)}`);
  }
}
