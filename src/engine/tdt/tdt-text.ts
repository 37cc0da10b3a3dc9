import type { WrittenToken } from "../ctc/ctc-text.ts";

/** Tokens of SentencePiece that are no text: the ends of sentences, and tags such as `<|en|>`. */
const CONTROL = /^<\/?s>$|^<pad>$|^<\|[^|]*\|>$/;
/** A token that is one byte of UTF-8, where the model has no token for a character. */
const BYTE = /^<0x([0-9A-Fa-f]{2})>$/;
const PUNCTUATION = /^\p{P}+$/u;

/** Tokens, and their texts by their numbers. */
export type SpelledTokens = { tokens: WrittenToken[]; texts: readonly string[] };

/**
 * Prepares tokens for their joining to words: those without text are left out, bytes that follow each other become one token,
 * and punctuation takes no time of its own, because it is not spoken.
 *
 * @param texts texts of the model's tokens by their numbers
 */
export function spelledTokens(written: readonly WrittenToken[], texts: readonly string[]): SpelledTokens {
  const all = [...texts];
  const tokens: WrittenToken[] = [];
  let bytes: number[] = [];
  let open: WrittenToken | undefined;
  const close = () => {
    if (!open) return;
    // Bytes that are no characters are left out.
    all.push(Buffer.from(bytes).toString("utf8").replaceAll("\uFFFD", ""));
    tokens.push({ ...open, id: all.length - 1 });
    [open, bytes] = [undefined, []];
  };
  for (const token of written) {
    const text = texts[token.id] ?? "";
    const byte = BYTE.exec(text)?.[1];
    if (byte !== undefined) {
      bytes.push(Number.parseInt(byte, 16));
      open = open
        ? { ...open, last: token.last, probability: Math.min(open.probability, token.probability) }
        : token;
      continue;
    }
    close();
    if (CONTROL.test(text)) continue;
    const before = tokens.at(-1);
    const isSilent = before !== undefined && PUNCTUATION.test(text);
    tokens.push(isSilent ? { ...token, first: before.last, last: before.last } : token);
  }
  close();
  return { tokens, texts: all };
}
