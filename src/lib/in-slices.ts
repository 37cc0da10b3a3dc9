/** Parts of a list that are worked on without a pause. */
const SLICE = 50;

/**
 * Does work on a long list part by part, so that the event loop does other work in between.
 *
 * @param work receives a part of the list, and returns what becomes of it
 * @returns what becomes of all parts, in order
 */
export async function inSlices<T, R>(
  items: readonly T[],
  work: (slice: readonly T[]) => readonly R[],
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += SLICE) {
    if (at > 0) await new Promise((resolve) => setImmediate(resolve));
    for (const result of work(items.slice(at, at + SLICE))) results.push(result);
  }
  return results;
}
