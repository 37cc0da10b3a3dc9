/**
 * The text of subtitles, so that no player takes a part of it for syntax. The console uses this file, too, so it imports
 * nothing.
 */

/** Is not shown, and no text of a transcript has it, so a reader who removes it gets the text back. */
const WORD_JOINER = "\u2060";

/**
 * Writes a line of text for SubRip, which has no escapes. A word joiner divides what a player could take for times
 * (`-->`), markup (`<i>`), a character (`&lt;`) or a control code (`\N`). Braces become parentheses, because players hide
 * what is between them.
 */
export function srtText(line: string): string {
  return line
    .replaceAll("{", "(")
    .replaceAll("}", ")")
    .replaceAll(/--(?=>)|[<\\]|&(?=#?[a-z\d]+;)/gi, `$&${WORD_JOINER}`);
}

/** Escapes a line of text for WebVTT (section 4.2.2). With `>` escaped, no text can contain an arrow. */
export function vttText(line: string): string {
  return line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
