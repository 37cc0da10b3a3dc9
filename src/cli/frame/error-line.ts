/** Matches an ordinary word at the beginning of a sentence. Names with other letters keep them, such as SHA-256 or FFmpeg. */
const FIRST_WORD = /^[A-Z][a-z]*(?= )/;
/** Names that keep their capital at the beginning of a sentence. */
const NAMES: ReadonlySet<string> = new Set(["Shruti", "Whisper"]);

/**
 * Puts a message into the style of a command's errors, which are printed behind `error: `: it begins in lower case and has no
 * period at its end. Messages that commands share with the API are whole sentences there.
 */
export function commandStyle(message: string): string {
  const first = FIRST_WORD.exec(message)?.[0];
  const begun =
    first === undefined || NAMES.has(first) ? message : message[0]?.toLowerCase() + message.slice(1);
  return begun.replace(/(?<![.])\.$/, "");
}
