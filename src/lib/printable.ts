/** Control characters, separators of lines, and the marks that turn the direction of the text that follows them. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Returns a text of unknown origin, such as a name from a file or another machine, as one line that a terminal, a log or a signed
 * document can show. A question mark takes the place of each character that could control the terminal, begin another line, or
 * show what follows in another order.
 */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, "?");
}

/**
 * Replaces the same characters in a text of several lines. It keeps line ends, also those of CSV, and tabs.
 *
 * @returns a text that can be written to a terminal
 */
export function printableLines(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character, at: number) =>
    character === "\n" || character === "\t" || (character === "\r" && text[at + 1] === "\n")
      ? character
      : "?",
  );
}

/** Renders a value as JSON in which the same characters are escaped. `JSON.stringify` leaves most of them. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(UNPRINTABLE, (character) =>
    // Only the line ends between the lines of indented JSON are not inside of a text.
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
