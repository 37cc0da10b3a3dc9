/** A name that differs in more than this share of its length is not suggested. */
const MAX_DISTANCE = 0.4;

/**
 * Finds the known name that a mistyped one most likely means.
 *
 * @returns undefined when every known name differs in more than two fifths of the letters
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((other) => ({ other, distance: editDistance(name, other) }))
    .sort((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= MAX_DISTANCE * name.length ? best.other : undefined;
}

/** Counts the single characters to insert, remove or replace (Levenshtein distance). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      next.push(
        Math.min(
          (row[column] ?? 0) + (letter === other ? 0 : 1),
          (row[column + 1] ?? 0) + 1,
          (next[column] ?? 0) + 1,
        ),
      );
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
