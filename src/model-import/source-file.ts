import { closeSync, existsSync, fstatSync, readSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import { openRegularFile } from "../lib/regular-file.ts";
import { asOwnerOf } from "../lib/rights.ts";
import { ImportError } from "./import-error.ts";

/** An open file of a checkpoint. It is read in parts; nothing is kept in memory. */
export type SourceFile = {
  /** The name for messages, without its folder. */
  name: string;
  bytes: number;
  /** Fills an array from a position of the file. @throws ImportError when the file ends before */
  fill(into: Uint8Array, position: number): void;
  /** Reads some bytes into a new array. */
  read(position: number, length: number): Buffer;
  close(): void;
};

/** A folder with the files of one checkpoint. */
export type CheckpointFolder = { path: string };

export function hasFile({ path }: CheckpointFolder, name: string): boolean {
  return asOwnerOf(path, () => existsSync(join(path, name)));
}

/** Opens a regular file of the folder. @throws ImportError for everything else */
export function openSource({ path }: CheckpointFolder, name: string): SourceFile {
  let descriptor: number;
  try {
    descriptor = openRegularFile(join(path, name));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new ImportError(name, "the file is missing");
    throw new ImportError(name, `cannot be opened: ${code ?? errorMessage(error)}`);
  }
  const bytes = fstatSync(descriptor).size;
  const fill = (into: Uint8Array, position: number): void => {
    for (let done = 0; done < into.length; ) {
      const got = readSync(descriptor, into, done, into.length - done, position + done);
      if (got === 0) throw new ImportError(name, "the file is truncated");
      done += got;
    }
  };
  return {
    name,
    bytes,
    fill,
    read: readWith(fill),
    close: () => closeSync(descriptor),
  };
}

/** Makes what reads bytes into a buffer of its own, from what fills one. */
export function readWith(fill: SourceFile["fill"]): SourceFile["read"] {
  return (position, length) => {
    const buffer = Buffer.alloc(length);
    fill(buffer, position);
    return buffer;
  };
}

export type JsonObject = Record<string, unknown>;

/**
 * Reads a JSON object.
 *
 * @param maxBytes a larger file is refused before it is read
 * @throws ImportError
 */
export function readJsonFile(folder: CheckpointFolder, name: string, maxBytes: number): JsonObject {
  const file = openSource(folder, name);
  try {
    if (file.bytes > maxBytes) throw new ImportError(name, `the file is larger than ${maxBytes} bytes`);
    return parseJsonObject(name, file.read(0, file.bytes));
  } finally {
    file.close();
  }
}

/** @throws ImportError for bytes that are not a JSON object */
export function parseJsonObject(name: string, bytes: Uint8Array): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ImportError(name, "the file is not valid JSON");
  }
  if (!isJsonObject(value)) throw new ImportError(name, "the file is not a JSON object");
  return value;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
