/** Items that are worked on without a pause. */
const SLICE = 50;

/** Resolves in the next turn of the event loop, after other work that waits. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Divides a list into parts of at most `size` items, in order; none for an empty list. */
export function* slicesOf<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}

/**
 * Does work on a long list part by part, so that the event loop does other work in between.
 *
 * @param work receives a part of the list, and returns what becomes of it
 * @param size items that are worked on without a pause
 * @returns what becomes of all parts, in order
 */
export async function inSlices<T, R>(
  items: readonly T[],
  work: (slice: readonly T[]) => readonly R[],
  size = SLICE,
): Promise<R[]> {
  const results: R[] = [];
  let isFirst = true;
  for (const slice of slicesOf(items, size)) {
    if (!isFirst) await nextTurn();
    isFirst = false;
    for (const result of work(slice)) results.push(result);
  }
  return results;
}
