/** A line of a list of sentences. */
export type Sentence = { spoken: string; written: string; reason: string };

/**
 * Reads a list of sentences. A line is `spoken => written`. A trap, which must not change, is `spoken == reason`. Empty lines
 * and lines that begin with # are left out.
 *
 * @throws Error for a line of another form
 */
export function readSentences(list: string): Sentence[] {
  return list
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, spoken, written] = /^(.*?) => (.*)$/u.exec(line) ?? [];
      if (spoken !== undefined && written !== undefined) return { spoken, written, reason: "" };
      const [, trap, reason] = /^(.*?) == (.*)$/u.exec(line) ?? [];
      if (trap === undefined || reason === undefined) throw new Error(`not a sentence: ${line}`);
      return { spoken: trap, written: trap, reason };
    });
}
