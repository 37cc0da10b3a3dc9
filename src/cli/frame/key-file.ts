import type { KeyObject } from "node:crypto";
import { RegularFileError, readRegularFile } from "../../lib/regular-file.ts";
import { reasonOf } from "../../lib/system-error.ts";
import { CommandError } from "./context.ts";

/** Many times the size of a key in PEM form. */
const MAX_KEY_BYTES = 64 * 1024;

/**
 * Reads the key that `--key` names. A pipe or a device is refused, because reading it might not end.
 *
 * @param read makes a key of the PEM text
 * @throws CommandError `usage` with the file and the reason
 */
export function openKey(path: string, read: (pem: string) => KeyObject): KeyObject {
  try {
    return read(readRegularFile(path, MAX_KEY_BYTES));
  } catch (error) {
    const reason = error instanceof RegularFileError ? error.code : reasonOf(error);
    throw new CommandError("usage", `--key ${path}: ${reason}`);
  }
}
