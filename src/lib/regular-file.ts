import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from "node:fs";

/** Something other than a regular file lies where one is expected, or it is too large to be one of its kind. */
export class RegularFileError extends Error {
  /** The reason alone, for messages that name the file themselves. */
  readonly code: string;

  constructor(path: string, reason: string) {
    super(`${path}: ${reason}`);
    this.name = "RegularFileError";
    this.code = reason;
  }
}

/**
 * Facts of a regular file. To open anything else may wait for ever, as a named pipe does without a writer, or have
 * effects, as a device may.
 *
 * @throws RegularFileError for a folder, pipe, socket or device; the system's error when nothing can be seen there
 */
export function statRegularFile(path: string): Stats {
  const facts = statSync(path);
  if (!facts.isFile()) throw new RegularFileError(path, `it is ${kindOf(facts)}, not a regular file`);
  return facts;
}

/**
 * Opens a regular file for reading, without waiting, also when it is exchanged at this moment.
 *
 * @returns the descriptor, which the caller closes
 * @throws RegularFileError, the system's error
 */
export function openRegularFile(path: string): number {
  statRegularFile(path);
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  const facts = fstatSync(descriptor);
  if (facts.isFile()) return descriptor;
  closeSync(descriptor);
  throw new RegularFileError(path, `it is ${kindOf(facts)}, not a regular file`);
}

/**
 * The text of a regular file, UTF-8.
 *
 * @param maxBytes a larger file is refused before it is read
 * @throws RegularFileError, the system's error
 */
export function readRegularFile(path: string, maxBytes: number): string {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    if (size > maxBytes) throw new RegularFileError(path, `it is larger than ${maxBytes} bytes`);
    const bytes = new Uint8Array(size);
    let filled = 0;
    while (filled < size) {
      const count = readSync(descriptor, bytes, filled, size - filled, filled);
      if (count === 0) break;
      filled += count;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, filled));
  } finally {
    closeSync(descriptor);
  }
}

function kindOf(facts: Stats): string {
  if (facts.isDirectory()) return "a directory";
  if (facts.isFIFO()) return "a named pipe";
  if (facts.isSocket()) return "a socket";
  return "a device";
}
