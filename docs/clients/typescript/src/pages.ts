type Page<T> = { data: T[]; next: string | null };

/**
 * Yields the elements of a list, and asks for the next page when it is needed.
 *
 * @param fetchPage asks for the first page with no `after`, and for each other page with the `next` of the one before
 */
export async function* pages<T>(
  fetchPage: (page: { after?: string }) => Promise<Page<T>>,
): AsyncGenerator<T, void, undefined> {
  let after: { after?: string } = {};
  while (true) {
    const { data, next } = await fetchPage(after);
    yield* data;
    if (next === null) return;
    after = { after: next };
  }
}
