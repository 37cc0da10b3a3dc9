import { foldWord } from "./fold.ts";
import { ROLES, type Role, type WrittenTable } from "./types.ts";

/** A part of a number. A word has one, or several where a language writes numbers as one word. */
export type Part =
  /** 0 to 99. `isOpen`: a word of 1 to 9 may follow as the digit of a ten. */
  | { type: "unit"; value: number; isOpen?: boolean }
  | { type: "scale"; value: number }
  | { type: "value"; value: number }
  | { type: "mixed"; value: number }
  | { type: "lead"; value: number }
  | { type: "addition"; value: number };

/** What is known of a word or a phrase. */
export type Entry = {
  parts?: Part[];
  /** The parts are those of an ordinal. */
  isOrdinal?: boolean;
  roles: Set<Role>;
  /** 1 to 12. */
  month?: number;
  letter?: string;
  denominator?: number;
  decade?: number;
};

/** An ending. `shown`: what it looks like after a figure; undefined: as in the word. */
export type Ending = { spelling: string; shown: string | undefined; isOrdinal: boolean };

/** The words of one language and of English, ready for look-ups. */
export type Lexicon = {
  entries: ReadonlyMap<string, Entry>;
  /** How many words the longest phrase has that begins with a word. */
  phraseLengths: ReadonlyMap<string, number>;
  /** Folded endings, the longest first. */
  endings: readonly Ending[];
  /** What is tried after a word without its ending; the first is empty. */
  stemEnds: readonly string[];
  /** Parts by the first letter of their spelling inside of words; undefined: the language does not glue. */
  glued: ReadonlyMap<string, readonly (readonly [spelling: string, part: Part])[]> | undefined;
  ordinalFigure: ((value: number) => string) | undefined;
  ownDigits: string | undefined;
  clockEndings: ReadonlySet<string>;
  mixedClockEndings: ReadonlySet<string>;
  /** The names of letters, for words such as एमएच. */
  letterNames: ReadonlyMap<string, string>;
  /** Phrases in which nothing is rewritten. */
  idioms: ReadonlySet<string>;
  /** How many letters the longest idiom has that begins with a word. */
  idiomLengths: ReadonlyMap<string, number>;
};

/** Builds the look-ups of a table and of the tables that it includes. */
export function buildLexicon(table: WrittenTable): Lexicon {
  const tables = withIncluded(table);
  const entries = new Map<string, Entry>();
  for (const each of tables) addTable(entries, each);
  const phraseLengths = new Map<string, number>();
  for (const key of entries.keys()) {
    const words = key.split(" ");
    const first = words[0] ?? "";
    phraseLengths.set(first, Math.max(phraseLengths.get(first) ?? 1, words.length));
  }
  const idioms = new Set(
    tables.flatMap((each) => (each.idioms ?? []).flatMap(([phrases]) => spellingsOf(phrases))),
  );
  const idiomLengths = new Map<string, number>();
  for (const idiom of idioms) {
    const [first = ""] = idiom.split(" ");
    idiomLengths.set(first, Math.max(idiomLengths.get(first) ?? 0, idiom.length));
  }
  const endings = tables.flatMap((each) => [
    ...endingsOf(each.ordinalEndings, true),
    ...endingsOf(each.endings, false),
    ...endingsOf(each.clockEndings, false),
  ]);
  return {
    entries,
    phraseLengths,
    endings: endings.toSorted((a, b) => b.spelling.length - a.spelling.length),
    stemEnds: ["", ...tables.flatMap((each) => spellingsOf(each.stemEnds))],
    glued: table.glued && gluedParts(table),
    ordinalFigure: tables.find((each) => each.ordinalFigure)?.ordinalFigure,
    ownDigits: table.ownDigits,
    letterNames: new Map(
      tables.flatMap((each) =>
        Object.entries(each.letters ?? {}).flatMap(([letter, names]) =>
          spellingsOf(names).map((name) => [name, letter] as const),
        ),
      ),
    ),
    idioms,
    idiomLengths,
    clockEndings: shownEndings(tables.map((each) => each.clockEndings)),
    mixedClockEndings: shownEndings(tables.map((each) => each.mixedClockEndings)),
  };
}

function endingsOf(list: string | undefined, isOrdinal: boolean): Ending[] {
  return (list ?? "")
    .split(/\s+/u)
    .filter((ending) => ending !== "")
    .map((ending) => {
      const [spelling = "", shown] = ending.split(">");
      return { spelling: foldWord(spelling), shown: shown?.replaceAll("_", " "), isOrdinal };
    });
}

function shownEndings(lists: readonly (string | undefined)[]): Set<string> {
  const endings = lists.flatMap((list) => endingsOf(list, false));
  return new Set(endings.map(({ spelling, shown }) => foldWord(shown ?? spelling)));
}

function withIncluded(table: WrittenTable): WrittenTable[] {
  return [table, ...(table.also ?? []).flatMap(withIncluded)];
}

/** Splits a list of a table. @returns folded spellings, in which a space divides the words of a phrase */
export function spellingsOf(list: string | undefined): string[] {
  return (list ?? "")
    .split(/\s+/u)
    .filter((spelling) => spelling !== "")
    .map((spelling) => foldWord(spelling).replaceAll("_", " "));
}

function addTable(entries: Map<string, Entry>, table: WrittenTable): void {
  const put = (list: string | undefined, change: (entry: Entry) => void): void => {
    for (const spelling of spellingsOf(list)) {
      const entry = entries.get(spelling) ?? { roles: new Set<Role>() };
      change(entry);
      entries.set(spelling, entry);
    }
  };
  for (const [list, part] of partsOf(table)) put(list, (entry) => (entry.parts ??= [part]));
  for (const [value, list] of Object.entries(table.ordinals ?? {})) {
    put(list, (entry) => {
      entry.parts ??= [partOfOrdinal(Number(value))];
      entry.isOrdinal = true;
    });
  }
  for (const [index, list] of (table.months ?? []).entries())
    put(list, (entry) => (entry.month ??= index + 1));
  for (const [value, list] of Object.entries(table.denominators ?? {}))
    put(list, (entry) => (entry.denominator ??= Number(value)));
  for (const [value, list] of Object.entries(table.decades ?? {}))
    put(list, (entry) => (entry.decade ??= Number(value)));
  for (const [letter, list] of Object.entries(table.letters ?? {}))
    put(list, (entry) => (entry.letter ??= letter));
  for (const role of ROLES) put(table.roles?.[role], (entry) => entry.roles.add(role));
}

function partOfOrdinal(value: number): Part {
  if (value < 100) return { type: "unit", value };
  return isScale(value) ? { type: "scale", value } : { type: "value", value };
}

const isScale = (value: number) => /^10+$/u.test(String(value));

type Lists = Readonly<Record<string | number, string>>;
type NumberWords = Pick<WrittenTable, "openTens" | "scales" | "values" | "mixed" | "leads" | "additions"> & {
  units?: readonly string[] | Lists;
};

/** Lists the number words of a table, or of what it glues. */
function partsOf(table: NumberWords): [list: string, part: Part][] {
  const of = (lists: Lists | readonly string[] | undefined, make: (value: number) => Part) =>
    Object.entries<string>(lists ?? {}).map(([value, list]): [string, Part] => [list, make(Number(value))]);
  return [
    ...of(table.openTens, (value) => ({ type: "unit", value, isOpen: true })),
    ...of(table.units, (value) => ({ type: "unit", value })),
    ...of(table.scales, (value) => ({ type: "scale", value })),
    ...of(table.values, (value) => ({ type: "value", value })),
    ...of(table.mixed, (value) => ({ type: "mixed", value })),
    ...of(table.leads, (value) => ({ type: "lead", value })),
    ...of(table.additions, (value) => ({ type: "addition", value })),
  ];
}

function gluedParts(table: WrittenTable): Map<string, [string, Part][]> {
  const { leads: _, additions: __, ...whole } = table;
  const byFirst = new Map<string, [string, Part][]>();
  for (const [list, part] of [...partsOf(table.glued ?? {}), ...partsOf(whole)]) {
    for (const spelling of spellingsOf(list)) {
      if (spelling.includes(" ")) continue;
      const first = spelling[0] ?? "";
      const known = byFirst.get(first) ?? [];
      known.push([spelling, part]);
      byFirst.set(first, known);
    }
  }
  for (const known of byFirst.values()) known.sort(([a], [b]) => b.length - a.length);
  return byFirst;
}
