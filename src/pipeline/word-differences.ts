/** A word of a comparison. `said` is missing for a word that was only heard, `heard` for one that was only said. */
export type ComparedWord = { said?: string; heard?: string };

/** A comparison keeps a byte for each pair of words. Longer texts are not compared word by word. */
const MAX_PAIRS = 64e6;

const MATCH = 0;
const DELETED = 1;
const INSERTED = 2;

/**
 * Puts the words of two normalized texts side by side, with the fewest edits. Of equal ways the one with more
 * substitutions is taken.
 *
 * @returns all words in order; undefined where the texts are too long
 */
export function compareWords(said: string, heard: string): ComparedWord[] | undefined {
  const [reference, hypothesis] = [wordsOf(said), wordsOf(heard)];
  const columns = hypothesis.length + 1;
  if ((reference.length + 1) * columns > MAX_PAIRS) return undefined;
  const moves = movesOf(reference, hypothesis);
  const compared: ComparedWord[] = [];
  let [row, column] = [reference.length, hypothesis.length];
  while (row > 0 || column > 0) {
    const move = row === 0 ? INSERTED : column === 0 ? DELETED : moves[row * columns + column];
    const word: ComparedWord = {};
    if (move !== INSERTED) word.said = reference[--row] as string;
    if (move !== DELETED) word.heard = hypothesis[--column] as string;
    compared.push(word);
  }
  return compared.reverse();
}

function wordsOf(text: string): string[] {
  return text === "" ? [] : text.split(" ");
}

/** For each pair of prefixes the last step of the best way to it. */
function movesOf(reference: readonly string[], hypothesis: readonly string[]): Uint8Array {
  const columns = hypothesis.length + 1;
  const moves = new Uint8Array((reference.length + 1) * columns);
  let costs = Int32Array.from({ length: columns }, (_, column) => column);
  let next = new Int32Array(columns);
  for (let row = 1; row <= reference.length; row++) {
    next[0] = row;
    for (let column = 1; column < columns; column++) {
      const isSame = reference[row - 1] === hypothesis[column - 1];
      let cost = (costs[column - 1] as number) + (isSame ? 0 : 1);
      let move = MATCH;
      if ((costs[column] as number) + 1 < cost) {
        cost = (costs[column] as number) + 1;
        move = DELETED;
      }
      if ((next[column - 1] as number) + 1 < cost) {
        cost = (next[column - 1] as number) + 1;
        move = INSERTED;
      }
      next[column] = cost;
      moves[row * columns + column] = move;
    }
    [costs, next] = [next, costs];
  }
  return moves;
}
