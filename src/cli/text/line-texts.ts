import { CommandError } from "../frame/context.ts";

/** A line is a sentence or a paragraph. A longer one is hardly text, and would have to be held in memory. */
const MAX_LINE_BYTES = 1_048_576;
const LINE_FEED = 0x0a;

/**
 * Reads lines of UTF-8 as they come, and holds one at a time.
 *
 * @returns the lines without their ends and without a byte order mark
 * @throws CommandError `failed` with the number of the line, where it is too long or not in UTF-8
 */
export async function* lineTexts(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let number = 1;
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  const take = (piece: Uint8Array): void => {
    pendingBytes += piece.length;
    if (pendingBytes > MAX_LINE_BYTES)
      throw new CommandError("failed", `line ${number} is longer than ${MAX_LINE_BYTES} bytes`);
    pending.push(piece);
  };
  const decode = (): string => {
    const bytes = Buffer.concat(pending);
    [pending, pendingBytes] = [[], 0];
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: number !== 1 }).decode(bytes);
      number += 1;
      return text.endsWith("\r") ? text.slice(0, -1) : text;
    } catch {
      throw new CommandError("failed", `line ${number} is not in UTF-8`);
    }
  };
  for await (const chunk of input) {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, from)) {
      take(chunk.subarray(from, at));
      yield decode();
      from = at + 1;
    }
    if (from < chunk.length) take(chunk.slice(from));
  }
  if (pendingBytes > 0) yield decode();
}
