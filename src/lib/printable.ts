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
