import { readFileSync } from "node:fs";
import { median } from "../median.ts";

/** A word and its times, seconds. */
export type Timed = { text: string; start?: number; end?: number };
/** Errors of starts and ends, milliseconds, and how many words were said. */
export type Errors = { starts: number[]; ends: number[]; said: number };

const LIMIT_MS = 200;

/** Reads a recording of 16-bit mono PCM behind a head of 44 bytes. */
export function samplesOf(path: string): Float32Array {
  const bytes = readFileSync(path);
  return Float32Array.from(
    { length: (bytes.length - 44) / 2 },
    (_, i) => bytes.readInt16LE(44 + 2 * i) / 32768,
  );
}

const plain = (text: string) => text.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, "");

/** Returns pairs of words that are the same in both texts, by the fewest edits. */
export function pairsOf(said: readonly Timed[], heard: readonly Timed[]): [Timed, Timed][] {
  const width = heard.length + 1;
  const cost = new Int32Array((said.length + 1) * width);
  const at = (i: number, j: number) => cost[i * width + j] ?? 0;
  const [ofSaid, ofHeard] = [said, heard].map((words) => words.map(({ text }) => plain(text)));
  const isSame = (i: number, j: number) => ofSaid?.[i - 1] === ofHeard?.[j - 1];
  for (let i = 0; i <= said.length; i++)
    for (let j = 0; j < width; j++) {
      if (i === 0 || j === 0) cost[i * width + j] = i + j;
      else
        cost[i * width + j] = Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (isSame(i, j) ? 0 : 2),
        );
    }
  const pairs: [Timed, Timed][] = [];
  for (let i = said.length, j = heard.length; i > 0 && j > 0; ) {
    if (isSame(i, j) && at(i, j) === at(i - 1, j - 1)) {
      pairs.push([said[i - 1] as Timed, heard[j - 1] as Timed]);
      i--;
      j--;
    } else if (at(i, j) === at(i - 1, j) + 1) i--;
    else j--;
  }
  return pairs;
}

/** Adds the errors of the words that were recognized. Times are in seconds, errors in milliseconds. */
export function addErrors(errors: Errors, said: readonly Timed[], heard: readonly Timed[]): void {
  errors.said += said.length;
  for (const [one, other] of pairsOf(said, heard)) {
    if (one.start !== undefined && other.start !== undefined)
      errors.starts.push((other.start - one.start) * 1000);
    if (one.end !== undefined && other.end !== undefined) errors.ends.push((other.end - one.end) * 1000);
  }
}

/** Says in a line how large the errors are. */
export function describe({ starts, ends, said }: Errors): string {
  const sizes = (of: number[]) => of.map(Math.abs).toSorted((a, b) => a - b);
  const part = (of: number[], share: number) => (sizes(of)[Math.floor(share * of.length)] ?? 0).toFixed(0);
  const within = (of: number[]) =>
    ((100 * of.filter((error) => Math.abs(error) <= LIMIT_MS).length) / of.length).toFixed(1);
  const side = (of: number[]) =>
    `${part(of, 0.5)} ms, 95 % ${part(of, 0.95)} ms, ${within(of)} % within ${LIMIT_MS} ms, on the whole ${median(of).toFixed(0)} ms`;
  return `${starts.length} of ${said} words: starts ${side(starts)}; ends ${side(ends)}`;
}
