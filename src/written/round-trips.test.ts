import { describe, expect, test } from "bun:test";
import { type Pick, spellingsIn } from "../testing/written/spell.ts";
import { LARGEST, spell } from "../testing/written/spellers.ts";
import { applyWritten } from "./apply.ts";
import { grouped } from "./figures.ts";
import { TABLES } from "./tables.ts";
import type { WrittenTable } from "./types.ts";

/** Tests numbers, dates, times and money of every language from a value to words and back. */

/** All numbers up to 100,000 with `SHRUTI_WRITTEN_ALL=1`; else each below 1,100 and some of the others. */
const STEP = process.env.SHRUTI_WRITTEN_ALL === "1" ? 1 : 37;

const first: Pick = (spellings) => spellings[0] ?? "";
const last: Pick = (spellings) => spellings.at(-1) ?? "";

/** Makes a row of numbers that looks random and is the same each time (Lehmer's generator). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

function someSpelling(random: () => number): Pick {
  return (spellings) => spellings[Math.floor(random() * spellings.length)] ?? "";
}

function valuesOf(random: () => number): number[] {
  const small = Array.from({ length: 1_100 }, (_, value) => value);
  const thousands = Array.from({ length: Math.ceil(99_000 / STEP) }, (_, at) => 1_100 + at * STEP);
  const large = Array.from({ length: 400 }, () => Math.floor(10 ** (5 + random() * 7)));
  return [...small, ...thousands, 100_000, 1_00_00_000, 1e12, ...large];
}

const wordOf = (table: WrittenTable, role: "percent" | "rupees" | "paise" | "oclock") =>
  first(spellingsIn(table.roles?.[role]));

describe.each(Object.entries(TABLES))("words and figures of %s", (language, table) => {
  const random = randomNumbers(46);
  const figures = (value: number) => grouped(String(value), "indian");
  const written = (text: string) => applyWritten(text, { language });

  test.each([
    ["the usual spellings", first],
    ["the last spellings", last],
    ["spellings by chance", someSpelling(random)],
  ] as const)("whole numbers come back from %s", (_, pick) => {
    const percent = wordOf(table, "percent");
    const wrong: string[] = [];
    for (const value of valuesOf(random).filter((each) => each <= (LARGEST[language] ?? 1e12))) {
      const spoken = `${spell(language, value, table, pick)} ${percent}`;
      const { text, changes } = written(spoken);
      if (text !== `${figures(value)}%` || changes[0]?.value !== String(value))
        wrong.push(`${value}: ${spoken} → ${text}`);
    }
    expect(wrong.slice(0, 10)).toEqual([]);
  });

  test("money comes back in paise", () => {
    for (let count = 0; count < 500; count += 1) {
      const [rupees, paise] = [Math.floor(10 ** (1 + random() * 7.9)), 1 + Math.floor(random() * 99)];
      const amount = `${spell(language, rupees, table, first)} ${wordOf(table, "rupees")}`;
      const { text, changes } = written(
        `${amount} ${spell(language, paise, table, first)} ${wordOf(table, "paise")}`,
      );
      expect(text).toBe(`₹${figures(rupees)}.${String(paise).padStart(2, "0")}`);
      expect(changes[0]).toMatchObject({ kind: "money", value: String(rupees * 100 + paise) });
    }
  });

  test("days, months and years come back", () => {
    for (const [index, months] of (table.months ?? []).entries()) {
      for (let day = 1; day <= 28; day += 1) {
        const year = 1900 + Math.floor(random() * 150);
        const month = first(spellingsIn(months));
        const spoken = `${spell(language, day, table, first)} ${month} ${spell(language, year, table, first)}`;
        const { text, changes } = written(spoken);
        expect(text).toBe(`${day} ${month} ${year}`);
        const value = `${year}-${String(index + 1).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
        expect(changes[0]).toMatchObject({ kind: "date", value });
      }
    }
  });

  test("hours come back, and halves and quarters of them", () => {
    const oclock = wordOf(table, "oclock");
    const leads = Object.entries(table.leads ?? {});
    for (let hour = 1; hour <= 12; hour += 1) {
      const said = spell(language, hour, table, first);
      expect(written(`${said} ${oclock}`).text).toBe(`${hour} ${oclock}`);
      for (const [share, words] of leads) {
        const minutes = Math.round((hour + Number(share)) * 60);
        const clock = `${Math.floor(minutes / 60) || 12}:${String(minutes % 60).padStart(2, "0")}`;
        const lead = first(spellingsIn(words));
        expect(written(`${lead} ${said} ${oclock}`).text).toBe(`${clock} ${oclock}`);
      }
    }
  });
});
