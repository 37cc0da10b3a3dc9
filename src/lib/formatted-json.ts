import type { Static, TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { readStrictJson, StrictJsonError } from "./strict-json.ts";

/** A JSON document whose schema names its format, such as the description of a backup. */
export type Formatted<T extends TSchema> = {
  schema: T;
  /** Name of its file, for messages. */
  name: string;
  format: number;
  /** Makes the error of a message that begins after the name of what the document is in. */
  fail: (message: string) => Error;
};

/** Reads a JSON document. @throws the error of `fail` for other text, another format, or other fields */
export function parseFormatted<T extends TSchema>(
  bytes: Uint8Array,
  { schema, name, format, fail }: Formatted<T>,
): Static<T> {
  let value: unknown;
  try {
    value = readStrictJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    const reason = error instanceof StrictJsonError ? error.message : "it is not valid UTF-8";
    throw fail(`its ${name} cannot be read: ${reason}`);
  }
  if (Value.Check(schema, value)) return value as Static<T>;
  throw fail(`its ${name} is not of format ${format}: a newer program may be needed`);
}
