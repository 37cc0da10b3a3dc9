import type { Segment } from "../domain/result.ts";
import { slicesOf } from "../lib/in-slices.ts";
import { ITEMS_OF_PIECE } from "../lib/text-pieces.ts";

/**
 * Writes CTM, the form of NIST's scoring tools (SCTK, "ctm Format"): a line for each word with the name of the recording, the
 * channel from 1, start and duration in seconds, the word and its confidence, sorted by channel and start. A line that begins
 * with `;;` is a comment: it has the text of a segment whose words have no times.
 *
 * @param name of the recording; white space becomes `_`, which the form needs
 */
export function* ctmPieces(segments: readonly Segment[], name = "audio"): Generator<string> {
  const id = nameInCtm(name);
  const channels = [...new Set(segments.map(({ channel = 0 }) => channel))].sort((a, b) => a - b);
  for (const channel of channels) {
    const own = segments.filter((segment) => (segment.channel ?? 0) === channel);
    for (const slice of slicesOf(own, ITEMS_OF_PIECE)) {
      yield slice.map((segment) => linesOf(segment, `${id} ${channel + 1}`)).join("");
    }
  }
}

const nameInCtm = (name: string): string => name.replaceAll(/\s+/gu, "_").replace(/^;/, "_") || "audio";

function linesOf({ startMs, endMs, text, words }: Segment, head: string): string {
  if (!words) return `;; ${head} ${timesOf(startMs, endMs)} has no word times: ${text}\n`;
  return words
    .map(
      (word) => `${head} ${timesOf(word.startMs, word.endMs)} ${word.text} ${word.confidence.toFixed(3)}\n`,
    )
    .join("");
}

/** Start and duration in seconds. Their sum is the end, to the millisecond. */
function timesOf(startMs: number, endMs: number): string {
  const [start, end] = [Math.round(startMs), Math.round(endMs)];
  return `${(start / 1000).toFixed(3)} ${((end - start) / 1000).toFixed(3)}`;
}
