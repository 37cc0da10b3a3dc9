import { normalizeText } from "./unicode.ts";

/** The fewest edits that turn a reference into the hypothesis. */
export type EditCounts = { substitutions: number; deletions: number; insertions: number };

/** Edits in relation to the tokens of the reference. */
export type ErrorRate = EditCounts & {
  /** Number of tokens in the reference. */
  total: number;
  /** Edits / total. It can be above 1, because of insertions. Undefined for an empty reference. */
  rate: number | undefined;
};

/** The comparison costs the product of both lengths. Beyond this limit it would take minutes, and is not made. */
const MAX_COMPARISONS = 2e10;

const APOSTROPHE = /(?<=\p{L}|\p{M})['\u2019\u02BC](?=\p{L})/gu;
const PUNCTUATION = /[\p{P}\p{S}]+/gu;
const JOINERS = /[\u200C\u200D]/gu;

/**
 * Normalizes a transcript for comparison: the Unicode form of `normalizeText`, lower case, without joiners and without
 * apostrophes within words. Other punctuation and symbols become spaces. Digits do not change: "5" differs from "five"
 * and from "५".
 *
 * @param language ISO code, as for `normalizeText`
 */
export function normalizeForScoring(text: string, language: string): string {
  return normalizeText(text, language)
    .toLowerCase()
    .replace(JOINERS, "")
    .replace(APOSTROPHE, "")
    .replace(PUNCTUATION, " ")
    .replace(/\s+/gu, " ")
    .trim()
    .normalize("NFC");
}

/** Computes the word error rate of normalized texts. Returns undefined where they are too long to compare. */
export function wordErrors(reference: string, hypothesis: string): ErrorRate | undefined {
  return errorsOf(wordsOf(reference), wordsOf(hypothesis));
}

/** Computes the character error rate of normalized texts by code points, spaces included. Undefined as for `wordErrors`. */
export function characterErrors(reference: string, hypothesis: string): ErrorRate | undefined {
  return errorsOf([...reference], [...hypothesis]);
}

/** Adds the edits and tokens of several texts. */
export function sumErrors(rates: readonly ErrorRate[]): ErrorRate {
  const sum = { total: 0, substitutions: 0, deletions: 0, insertions: 0 };
  for (const rate of rates) {
    sum.total += rate.total;
    sum.substitutions += rate.substitutions;
    sum.deletions += rate.deletions;
    sum.insertions += rate.insertions;
  }
  return withRate(sum);
}

function wordsOf(text: string): string[] {
  return text === "" ? [] : text.split(" ");
}

function errorsOf(reference: readonly string[], hypothesis: readonly string[]): ErrorRate | undefined {
  if (reference.length * hypothesis.length > MAX_COMPARISONS) return undefined;
  return withRate({ total: reference.length, ...countEdits(reference, hypothesis) });
}

function withRate(counts: EditCounts & { total: number }): ErrorRate {
  const edits = counts.substitutions + counts.deletions + counts.insertions;
  return { ...counts, rate: counts.total === 0 ? undefined : edits / counts.total };
}

/** Counts edits (Levenshtein 1966) row by row (Wagner and Fischer 1974). Prefers substitutions among equal counts. */
function countEdits(reference: readonly string[], hypothesis: readonly string[]): EditCounts {
  const ids = new Map<string, number>();
  const idOf = (token: string) => {
    const known = ids.get(token) ?? ids.size;
    ids.set(token, known);
    return known;
  };
  const said = Int32Array.from(reference, idOf);
  const heard = Int32Array.from(hypothesis, idOf);
  let costs = Int32Array.from({ length: heard.length + 1 }, (_, column) => column);
  let substitutions = new Int32Array(heard.length + 1);
  let nextCosts = new Int32Array(heard.length + 1);
  let nextSubstitutions = new Int32Array(heard.length + 1);
  for (let row = 1; row <= said.length; row++) {
    nextCosts[0] = row;
    nextSubstitutions[0] = 0;
    for (let column = 1; column <= heard.length; column++) {
      const isSame = said[row - 1] === heard[column - 1];
      let cost = (costs[column - 1] ?? 0) + (isSame ? 0 : 1);
      let substituted = (substitutions[column - 1] ?? 0) + (isSame ? 0 : 1);
      if ((costs[column] ?? 0) + 1 < cost) {
        cost = (costs[column] ?? 0) + 1;
        substituted = substitutions[column] ?? 0;
      }
      if ((nextCosts[column - 1] ?? 0) + 1 < cost) {
        cost = (nextCosts[column - 1] ?? 0) + 1;
        substituted = nextSubstitutions[column - 1] ?? 0;
      }
      nextCosts[column] = cost;
      nextSubstitutions[column] = substituted;
    }
    [costs, nextCosts] = [nextCosts, costs];
    [substitutions, nextSubstitutions] = [nextSubstitutions, substitutions];
  }
  const substituted = substitutions[heard.length] ?? 0;
  const others = (costs[heard.length] ?? 0) - substituted;
  // Insertions minus deletions is the difference of the lengths.
  const insertions = (others + heard.length - said.length) / 2;
  return { substitutions: substituted, deletions: others - insertions, insertions };
}
