import type { WrittenTable } from "../../written/types.ts";

/** Chooses one of the spellings of a word: tests use the first, the last and random ones. */
export type Pick = (spellings: readonly string[]) => string;

/** Says a whole number in words. A language whose words join otherwise has its own. */
export type Speller = (value: number, table: WrittenTable, pick: Pick) => string;

const SCALES = [1e7, 1e5, 1e3, 100];

/** Says a number in words that stand apart: "twelve lakh thirty four thousand". */
export function spellApart(value: number, table: WrittenTable, pick: Pick): string {
  for (const scale of SCALES) {
    if (value < scale) continue;
    const rest = value % scale;
    const head = `${spellApart(Math.floor(value / scale), table, pick)} ${pick(spellingsIn(table.scales?.[scale]))}`;
    return rest === 0 ? head : `${head} ${spellApart(rest, table, pick)}`;
  }
  return spellSmall(value, table, pick);
}

/** Says a number below 100. */
export function spellSmall(value: number, table: WrittenTable, pick: Pick): string {
  const whole = spellingsIn(table.units?.[value]);
  if (whole.length > 0) return pick(whole);
  const tens = pick(spellingsIn(table.openTens?.[value - (value % 10)]));
  return value % 10 === 0 ? tens : `${tens} ${pick(spellingsIn(table.units?.[value % 10]))}`;
}

/** Splits a list of a table into spellings as people write them. */
export function spellingsIn(list: string | undefined): string[] {
  return (list ?? "")
    .split(/\s+/u)
    .filter((spelling) => spelling !== "")
    .map((spelling) => spelling.replaceAll("_", " "));
}
