/** A place in a text, in UTF-16 units. */
export type Match = { start: number; end: number };

/** Finds a text in another without regard to case. Both are compared in one Unicode form. */
export function matchesIn(text: string, query: string): Match[] {
  if (query === "") return [];
  const where = text.toLocaleLowerCase();
  const what = query.normalize("NFC").toLocaleLowerCase();
  const found: Match[] = [];
  // Lower case is longer than its capital in a few letters; then positions would not fit the text.
  if (where.length !== text.length) return found;
  for (let at = where.indexOf(what); at >= 0; at = where.indexOf(what, at + what.length)) {
    found.push({ start: at, end: at + what.length });
  }
  return found;
}

/** Replaces all matches. */
export function replaceIn(text: string, query: string, by: string): string {
  return matchesIn(text, query).reduceRight(
    (changed, { start, end }) => changed.slice(0, start) + by + changed.slice(end),
    text,
  );
}
