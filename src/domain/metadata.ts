/**
 * What a client notes of a transcription for itself, such as an agent's number or a caller's (docs/decisions/extensions.md).
 * It is a person's data: who deletes the transcript deletes it, too.
 */
export type Metadata = Readonly<Record<string, string>>;

export const MAX_METADATA_KEYS = 16;
export const MAX_METADATA_NAME = 40;
export const MAX_METADATA_VALUE = 500;

/** A name, as the source of a regular expression. */
export const METADATA_NAME_PATTERN = `^[A-Za-z0-9_-]{1,${MAX_METADATA_NAME}}$`;

const NAME = new RegExp(METADATA_NAME_PATTERN);
/** A value has no control characters, because it is printed on terminals, and no half of a character. */
const VALUE = /^[^\p{Cc}\p{Cs}]*$/u;

/** What is wrong with metadata: the name that it is about, empty for all of it, and the rest of a sentence. */
export type MetadataFault = { name: string; is: string };

/** Checks metadata from anywhere, such as a file name or an option. Returns undefined for what a request may have. */
export function metadataFault(metadata: Metadata): MetadataFault | undefined {
  const pairs = Object.entries(metadata);
  if (pairs.length > MAX_METADATA_KEYS) return { name: "", is: `has more than ${MAX_METADATA_KEYS} names` };
  for (const [name, value] of pairs) {
    if (!NAME.test(name)) {
      return {
        name,
        is: `is not a name: names have 1 to ${MAX_METADATA_NAME} letters of a to z, digits, _ and -`,
      };
    }
    if (value.length > MAX_METADATA_VALUE)
      return { name, is: `has more than ${MAX_METADATA_VALUE} characters` };
    if (!VALUE.test(value)) return { name, is: "has a control character, or half of a character" };
  }
  return undefined;
}

/** Returns metadata in the order of its names: two requests are the same in whatever order they name them. */
export const sortedMetadata = (metadata: Metadata): [name: string, value: string][] =>
  Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
