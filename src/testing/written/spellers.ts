import type { WrittenTable } from "../../written/types.ts";
import { type Pick, type Speller, spellApart, spellingsIn, spellSmall } from "./spell.ts";

/** How numbers are said in languages that do not put their words side by side. */
const SPELLERS: Readonly<Record<string, Speller>> = { ta: spellTamil, mni: spellManipuri };

/** The largest number that the table of a language knows, where it is not 10^12. */
export const LARGEST: Readonly<Record<string, number>> = { mni: 99_99_99_999 };

/** Says a whole number below 10^13 in a language. */
export function spell(language: string, value: number, table: WrittenTable, pick: Pick): string {
  return (SPELLERS[language] ?? spellApart)(value, table, pick);
}

/** Says thousands as one word with their number, and hundreds as one word: பன்னிரண்டு லட்சத்து ஐம்பதாயிரத்து இருநூற்று. */
function spellTamil(value: number, table: WrittenTable, pick: Pick): string {
  for (const scale of [1e7, 1e5]) {
    if (value < scale) continue;
    const head = `${spellTamil(Math.floor(value / scale), table, pick)} ${pick(spellingsIn(table.scales?.[scale]))}`;
    return value % scale === 0 ? head : `${head} ${spellTamil(value % scale, table, pick)}`;
  }
  const said: string[] = [];
  const thousands = Math.floor(value / 1000);
  const own = spellingsIn(table.values?.[thousands * 1000]);
  const scale = pick(spellingsIn(table.scales?.[1000]));
  if (own.length > 0) said.push(pick(own));
  else if (thousands === 1) said.push(scale);
  else if (thousands > 1)
    said.push(`${spellSmall(thousands, table, pick).replace(/ு$/u, "")}${scale.replace(/^ஆ/u, "ா")}`);
  const hundreds = Math.floor((value % 1000) / 100);
  if (hundreds > 0)
    said.push(pick(spellingsIn((hundreds === 1 ? table.scales : table.values)?.[hundreds * 100])));
  if (value % 100 > 0 || value === 0) said.push(spellSmall(value % 100, table, pick));
  return said.join(" ");
}

/** Says the number of thousands, lakhs and crores after them, with "and" joined to it: ꯂꯤꯁꯤꯡ ꯀꯨꯟꯒ ꯇꯔꯦꯠ is 20,007. */
function spellManipuri(value: number, table: WrittenTable, pick: Pick): string {
  if (value < 100) return spellSmall(value, table, pick);
  const step = [1e7, 1e5, 1e3, 100].find((scale) => value >= scale) ?? 100;
  const heads = spellingsIn(table.values?.[value - (value % step)]);
  const head = pick(value % step === 0 ? heads : heads.filter((each) => /[ꯒꯀ]$|[গক]া?$/u.test(each)));
  return value % step === 0 ? head : `${head} ${spellManipuri(value % step, table, pick)}`;
}
