/** Words before a change, and the words that they became. Positions from, and up to without. Neither is empty. */
export type AlignedGroup = { beforeFrom: number; beforeTo: number; afterFrom: number; afterTo: number };

/** Most pairs of words of a text before and after a change: the comparison keeps some bytes for each. */
const MAX_PAIRS = 100_000;
/** Pairs of near places are compared: words may have moved by this many more places than the difference in number. */
const MOVED = 4;
/** Most words that are taken for one that was divided, or that became one. */
const MOST_TOGETHER = 4;
/** Letters of a word that are compared. */
const MAX_LETTERS = 40;
/** Equal words at the edge where removed ones are not expected, which are compared nevertheless. */
const COMPARED_AT_EDGE = 4;

/** What a word costs that is gone or new. A word that is another one costs as much at most. Whole numbers, so that sums are equal. */
const GONE = 100;
/** Punctuation by itself is hardly missed. */
const MARK_GONE = 20;
/** So that words with other punctuation are nearly the same, and division costs more than none. */
const SLIGHT = 5;
/**
 * Finds which words became which, with the fewest changes. Each word after a change belongs to one group. Words before it that
 * are gone belong to none. Words that are new belong to the group before them, or else to the next one.
 *
 * @param kept which of several equal words is meant where some are gone
 * @returns groups in order; undefined where there is no word before the change, or there are too many pairs
 */
export function alignWords(
  before: readonly string[],
  after: readonly string[],
  kept: "first" | "last",
): AlignedGroup[] | undefined {
  if (after.length === 0) return [];
  if (before.length === 0) return undefined;
  const { atStart, atEnd } = sameEdges(before, after, kept);
  const middleBefore = before.slice(atStart, before.length - atEnd);
  const middleAfter = after.slice(atStart, after.length - atEnd);
  const middle = alignMiddle(middleBefore, middleAfter, kept);
  if (!middle) return undefined;
  const one = (from: number, to: number) => ({
    ...{ beforeFrom: from, beforeTo: from + 1, afterFrom: to, afterTo: to + 1 },
  });
  return withNewWords(
    [
      ...Array.from({ length: atStart }, (_, index) => one(index, index)),
      ...middle.map((step) => ({
        beforeFrom: step.beforeFrom + atStart,
        beforeTo: step.beforeTo + atStart,
        afterFrom: step.afterFrom + atStart,
        afterTo: step.afterTo + atStart,
      })),
      ...Array.from({ length: atEnd }, (_, index) =>
        one(before.length - atEnd + index, after.length - atEnd + index),
      ),
    ].filter(({ afterFrom, afterTo }) => afterTo > afterFrom),
    before.length,
  );
}

/** Counts the words at both edges that are the same and need not be compared: first at the edge at which words are kept. */
function sameEdges(before: readonly string[], after: readonly string[], kept: "first" | "last") {
  const most = Math.min(before.length, after.length);
  const atStart = (limit: number) => {
    let count = 0;
    while (count < limit && before[count] === after[count]) count++;
    return count;
  };
  const atEnd = (limit: number) => {
    let count = 0;
    while (count < limit && before.at(-1 - count) === after.at(-1 - count)) count++;
    return count;
  };
  const near = kept === "first" ? atStart(most) : atEnd(most);
  const isAll = near === most && before.length === after.length;
  const far = isAll ? 0 : Math.max(0, (kept === "first" ? atEnd : atStart)(most - near) - COMPARED_AT_EDGE);
  return kept === "first" ? { atStart: near, atEnd: far } : { atStart: far, atEnd: near };
}

/** Words that are new join the group before them, or the next one. Where all are new, they are of all words before. */
function withNewWords(steps: readonly AlignedGroup[], count: number): AlignedGroup[] {
  const groups: AlignedGroup[] = [];
  let newFrom: number | undefined;
  for (const step of steps) {
    const last = groups.at(-1);
    if (step.beforeTo > step.beforeFrom) {
      groups.push(newFrom === undefined ? step : { ...step, afterFrom: newFrom });
      newFrom = undefined;
    } else if (last) {
      groups[groups.length - 1] = { ...last, afterTo: step.afterTo };
    } else {
      newFrom ??= step.afterFrom;
    }
  }
  if (newFrom === undefined) return groups;
  return [{ beforeFrom: 0, beforeTo: count, afterFrom: 0, afterTo: steps.at(-1)?.afterTo ?? 0 }];
}

/** Receives a step: how many words it takes of both sides, and what it costs. */
type TakeStep = (before: number, after: number, cost: number) => void;

/** Aligns words by the least cost. A step without words before it is new, one without words after it is gone. */
function alignMiddle(
  before: readonly string[],
  after: readonly string[],
  kept: "first" | "last",
): AlignedGroup[] | undefined {
  const [rows, columns] = [before.length, after.length];
  if (rows * columns > MAX_PAIRS) return undefined;
  const reach = Math.abs(rows - columns) + MOVED;
  const [from, to] = [comparableOf(before), comparableOf(after)];
  const width = columns + 1;
  const costs = new Float64Array((rows + 1) * width).fill(Number.POSITIVE_INFINITY);
  /** For each pair of beginnings how many words the last step has taken of both. */
  const takenBefore = new Uint8Array(costs.length);
  const takenAfter = new Uint8Array(costs.length);
  costs[0] = 0;
  let place = 0;
  /** The last step decides which of equal words is kept where costs are equal, because the way is read from its end. */
  const take: TakeStep = (ofBefore, ofAfter, stepCost) => {
    const next = place + ofBefore * width + ofAfter;
    const known = costs[next] as number;
    const cost = (costs[place] as number) + stepCost;
    const keeps = ofBefore === 1 && ofAfter === 1;
    if (cost > known || (cost === known && keeps !== (kept === "last"))) return;
    costs[next] = cost;
    takenBefore[next] = ofBefore;
    takenAfter[next] = ofAfter;
  };
  for (let row = 0; row <= rows; row++) {
    const middle = rows === 0 ? 0 : Math.round((row * columns) / rows);
    for (let column = Math.max(0, middle - reach); column <= Math.min(columns, middle + reach); column++) {
      place = row * width + column;
      stepFrom(from[row], to[column], take);
    }
  }
  const groups: AlignedGroup[] = [];
  for (let [row, column] = [rows, columns]; row > 0 || column > 0; ) {
    const at = row * width + column;
    const [ofBefore, ofAfter] = [takenBefore[at] as number, takenAfter[at] as number];
    groups.push({
      ...{ beforeFrom: row - ofBefore, beforeTo: row },
      ...{ afterFrom: column - ofAfter, afterTo: column },
    });
    row -= ofBefore;
    column -= ofAfter;
  }
  return groups.reverse();
}

/** A word as it is compared: its letters and digits. `isMark`: it has none, and the text is the word itself. */
type Comparable = {
  text: string;
  isMark: boolean;
  /** The word together with the next one, the next two, and so on. */
  together: readonly string[];
};

function comparableOf(words: readonly string[]): Comparable[] {
  const letters = words.map((word) => word.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]/gu, ""));
  return words.map((word, at) => {
    const isMark = letters[at] === "";
    const together: string[] = [];
    for (let end = at + 2; end <= Math.min(words.length, at + MOST_TOGETHER); end++)
      together.push(letters.slice(at, end).join("") || words.slice(at, end).join(""));
    return { text: isMark ? word : (letters[at] as string), isMark, together };
  });
}

function stepFrom(word: Comparable | undefined, other: Comparable | undefined, take: TakeStep): void {
  if (word) take(1, 0, word.isMark ? MARK_GONE : GONE);
  if (other) take(0, 1, other.isMark ? MARK_GONE : GONE);
  if (!word || !other) return;
  const changed = difference(word.text, other.text);
  take(1, 1, word.isMark && other.isMark ? Math.min(changed, MARK_GONE) : changed);
  // Words beside it that are joined to it are marks, which have no part in its time.
  if (changed === 0) return;
  for (let index = 0; index < word.together.length; index++)
    take(index + 2, 1, togetherCost(word.together[index] as string, index + 2, other.text));
  for (let index = 0; index < other.together.length; index++)
    take(1, index + 2, togetherCost(other.together[index] as string, index + 2, word.text));
}

/**
 * What it costs that one word became several, or several became one: more than that the same word stayed and the others are gone,
 * and less than that one became another and the others are gone, as in "twenty five" and "25".
 */
function togetherCost(several: string, count: number, one: string): number {
  if (several === one) return SLIGHT;
  return (count - 1) * GONE + Math.max(2 * SLIGHT, difference(several, one)) - SLIGHT;
}

/** The last row of `difference`, which does not leave the function. */
const row = new Uint8Array(MAX_LETTERS + 1);

/** Compares two words: 0 for equal ones, up to `GONE` for ones without a letter in common. The distance is Levenshtein's. */
function difference(a: string, b: string): number {
  if (a === b) return 0;
  const rows = Math.min(MAX_LETTERS, a.length);
  const columns = Math.min(MAX_LETTERS, b.length);
  for (let column = 0; column <= columns; column++) row[column] = column;
  for (let index = 0; index < rows; index++) {
    const letter = a.charCodeAt(index);
    let corner = index;
    let left = index + 1;
    row[0] = left;
    for (let column = 1; column <= columns; column++) {
      const above = row[column] as number;
      const changed = corner + (letter === b.charCodeAt(column - 1) ? 0 : 1);
      left = Math.min(changed, above + 1, left + 1);
      corner = above;
      row[column] = left;
    }
  }
  const share = (row[columns] as number) / Math.max(rows, columns);
  return Math.max(SLIGHT, Math.round(share * GONE));
}
