import { readFileSync } from "node:fs";
import { CommandError } from "./context.ts";

const MAX_DOCUMENT_BYTES = 1024 * 1024;

/**
 * Reads and verifies a signed document.
 *
 * @param keyFile the signer's public key; left out: that of the document, so that only later changes are found
 * @throws CommandError with the file's name
 */
export async function readSigned<T>(file: string, keyFile: string | undefined) {
  const [{ verifyDocument }, { readRegularFile }, { readPublicKey }, { errorMessage }] = await Promise.all([
    import("../services/signed/signed-documents.ts"),
    import("../lib/regular-file.ts"),
    import("../lib/signatures.ts"),
    import("../lib/error-message.ts"),
  ]);
  const key = keyFile === undefined ? undefined : readPublicKey(readFileSync(keyFile, "utf8"));
  let text: string;
  try {
    text = readRegularFile(file, MAX_DOCUMENT_BYTES);
  } catch (error) {
    throw new CommandError("not_found", `${file}: ${errorMessage(error)}`);
  }
  try {
    return verifyDocument<T>(text, key);
  } catch (error) {
    throw new CommandError("failed", `${file}: ${errorMessage(error)}`);
  }
}
