/** A file is not a text in an encoding that `decodeText` knows. The message says what it is, without its name. */
export class TextEncodingError extends Error {
  constructor(what: string) {
    super(`${what}; save it as UTF-8`);
    this.name = "TextEncodingError";
  }
}

/** Byte order marks, with the encoding that each announces. That of UTF-32 begins as one of UTF-16 does. */
const MARKS = [
  { mark: [0xff, 0xfe, 0, 0], encoding: undefined },
  { mark: [0, 0, 0xfe, 0xff], encoding: undefined },
  { mark: [0xff, 0xfe], encoding: "utf-16le" },
  { mark: [0xfe, 0xff], encoding: "utf-16be" },
] as const;

/** Control characters that no text has: all but tab, line ends, vertical tab and form feed. */
const CONTROL = /(?![\t-\r\u0085])\p{Cc}/u;

/**
 * Decodes a text that people wrote with any editor: UTF-8, or UTF-16 with a byte order mark, as Windows' Notepad and
 * spreadsheets save it. A guess could be wrong and would go unnoticed, so nothing else is read.
 *
 * @returns the text without its byte order mark
 * @throws TextEncodingError for any other encoding
 */
export function decodeText(bytes: Uint8Array): string {
  const marked = MARKS.find(({ mark }) => mark.every((byte, at) => bytes[at] === byte));
  if (marked && marked.encoding === undefined) throw new TextEncodingError("it is in UTF-32");
  if (marked === undefined && isUtf16(bytes))
    throw new TextEncodingError("it is in UTF-16 without a byte order mark");
  const encoding = marked?.encoding ?? "utf-8";
  const text = decoded(bytes, encoding);
  if (text === undefined)
    throw new TextEncodingError(
      encoding === "utf-8" ? "it is not in UTF-8" : "it begins as UTF-16 and is damaged",
    );
  if (CONTROL.test(text))
    throw new TextEncodingError("it has control characters and is no text, or in another encoding");
  return text;
}

function decoded(bytes: Uint8Array, encoding: "utf-8" | "utf-16le" | "utf-16be"): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The first bytes of a text show its encoding. */
const LOOKED_AT_BYTES = 4096;
/** A shorter text without any space can be either. */
const FEWEST_UNITS = 4;

/**
 * Recognizes UTF-16 without a mark. Its spaces, digits and line ends have zero bytes. A single word in an Indian script
 * has none, and can be valid UTF-8: then every second byte is the script's own, which in UTF-8 is a tab or a line end.
 */
function isUtf16(bytes: Uint8Array): boolean {
  const start = bytes.subarray(0, LOOKED_AT_BYTES);
  if (bytes.length % 2 !== 0 || start.every((byte) => byte <= 0x20)) return false;
  return (["utf-16le", "utf-16be"] as const).some((encoding) => {
    const high = start.filter((_, at) => at % 2 === (encoding === "utf-16le" ? 1 : 0));
    const isPlain = high.every((byte) => byte <= 0x20 || (byte >= 0xa8 && byte <= 0xab));
    const hasZeros = high.includes(0) && !start.some((byte, at) => byte === 0 && high[at >> 1] !== 0);
    const isOneScript =
      high.length >= FEWEST_UNITS && high.every((byte) => byte === high[0] && byte >= 0x09 && byte <= 0x0d);
    if (!isPlain || !(hasZeros || isOneScript)) return false;
    return /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\s]*$/u.test(decoded(start, encoding) ?? "\0");
  });
}
