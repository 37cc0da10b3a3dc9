import { normalizeText } from "./unicode.ts";

/** What was done to a reference to get the hypothesis, with as few edits as possible. */
export type EditCounts = { substitutions: number; deletions: number; insertions: number };

/** Edits over the tokens of the reference. */
export type ErrorRate = EditCounts & {
  /** Tokens of the reference. */
  total: number;
  /** Edits / total; above 1 where more was invented than said; undefined where nothing was said. */
  rate: number | undefined;
};

/** Comparing takes the product of both lengths; beyond this it would take minutes, and nothing is said. */
const MAX_COMPARISONS = 2e10;

const APOSTROPHE = /(?<=\p{L}|\p{M})['\u2019\u02BC](?=\p{L})/gu;
const PUNCTUATION = /[\p{P}\p{S}]+/gu;
const JOINERS = /[\u200C\u200D]/gu;

/**
 * A transcript as it is compared: the Unicode form of `normalizeText` (NFC and the Indic normalisations), small
 * letters, no joiners, apostrophes within words taken out, all other punctuation and symbols for blanks, white space
 * single. Digits stay what they are: "5" is not "five", nor is it "५".
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

/** Word error rate of normalised texts; undefined where they are too long to be compared. */
export function wordErrors(reference: string, hypothesis: string): ErrorRate | undefined {
  return errorsOf(wordsOf(reference), wordsOf(hypothesis));
}

/** Character error rate of normalised texts, by code points, the blanks between words included. */
export function characterErrors(reference: string, hypothesis: string): ErrorRate | undefined {
  return errorsOf([...reference], [...hypothesis]);
}

/** Over several texts: edits and tokens add up. */
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

/** Levenshtein 1966, row by row (Wagner and Fischer 1974); among equally short ways substitutions are preferred. */
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
  // Insertions − deletions is the difference of the lengths.
  const insertions = (others + heard.length - said.length) / 2;
  return { substitutions: substituted, deletions: others - insertions, insertions };
}
