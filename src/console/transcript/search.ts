import { folded } from "./folded.ts";

/** A place in a text, in UTF-16 units. */
export type Match = { start: number; end: number };

/** Finds a text in another without regard to case and to spellings that mean the same (`folded`). */
export function matchesIn(text: string, query: string): Match[] {
  const what = folded(query.normalize("NFC")).text;
  if (what === "") return [];
  const where = folded(text);
  const found: Match[] = [];
  for (let at = where.text.indexOf(what); at >= 0; at = where.text.indexOf(what, at + what.length)) {
    found.push({ start: where.starts[at] ?? 0, end: where.ends[at + what.length - 1] ?? text.length });
  }
  return found;
}

/** Replaces all matches. Where they are replaced by nothing, one of the spaces around each goes with it. */
export function replaceIn(text: string, query: string, by: string): string {
  const replaced = matchesIn(text, query).reduceRight((changed, { start, end }) => {
    const [before, after] = [changed.slice(0, start), changed.slice(end)];
    const isApart = by === "" && /(^|\s)$/u.test(before) && /^(\s|$)/u.test(after);
    return isApart
      ? before.trimEnd() + (before.trim() === "" ? after.trimStart() : after)
      : before + by + after;
  }, text);
  return replaced.normalize("NFC").trim();
}
