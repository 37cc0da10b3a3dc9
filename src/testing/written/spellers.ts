import type { WrittenTable } from "../../written/types.ts";
import { type Pick, type Speller, spellApart } from "./spell.ts";

/** How numbers are said in languages that do not put their words side by side. */
const SPELLERS: Readonly<Record<string, Speller>> = {};

/** Says a whole number below 10^13 in a language. */
export function spell(language: string, value: number, table: WrittenTable, pick: Pick): string {
  return (SPELLERS[language] ?? spellApart)(value, table, pick);
}
