import { languageOf, type Script } from "../domain/languages.ts";

/** What a mark says. Models write it in the script of any language; the text gets the mark of its own. */
type Meaning = "stop" | "comma" | "question";

/** Labels of published models. Others add nothing. */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map([
  ...[".", "।", "۔", "。", "።"].map((label) => [label, "stop"] as const),
  ...[",", "،", "，", "、", "፣"].map((label) => [label, "comma"] as const),
  ...["?", "？", "؟", "፧"].map((label) => [label, "question"] as const),
]);

const LATIN: Readonly<Record<Meaning, string>> = { stop: ".", comma: ",", question: "?" };
const DANDA = { ...LATIN, stop: "।" };
const MARKS: Readonly<Record<Script, Readonly<Record<Meaning, string>>>> = {
  ...{ Devanagari: DANDA, Bengali: DANDA, Gurmukhi: DANDA, Oriya: DANDA },
  ...{ Gujarati: LATIN, Kannada: LATIN, Latin: LATIN, Malayalam: LATIN, Tamil: LATIN, Telugu: LATIN },
  Arabic: { stop: "۔", comma: "،", question: "؟" },
  Meetei_Mayek: { ...LATIN, stop: "꯫" },
  Ol_Chiki: { ...LATIN, stop: "᱾" },
};

/** Languages in Devanagari whose sentences end with a full stop. */
const WITH_FULL_STOP: ReadonlySet<string> = new Set(["mr", "kok"]);

/** The script of a text, by its first letter of a script that has marks. */
const SCRIPT_PATTERNS = Object.keys(MARKS).map(
  (script) => [script as Script, new RegExp(`\\p{Script=${script}}`, "u")] as const,
);

/**
 * Returns the mark of a model's label in the script of a word.
 *
 * @param language code of the text's language, where the word has no letters
 * @returns undefined without a label, and for a label that does not name a mark
 */
export function markOf(label: string | undefined, word: string, language: string): string | undefined {
  const meaning = label === undefined ? undefined : MEANINGS.get(label);
  if (meaning === undefined) return undefined;
  const own = languageOf(language)?.scripts[0] ?? "Latin";
  // A word of another script within a sentence has the marks of the sentence's script.
  const script = own === "Latin" ? own : (scriptOf(word, languageOf(language)?.scripts ?? []) ?? own);
  if (meaning === "stop" && script === "Devanagari" && WITH_FULL_STOP.has(language)) return ".";
  return MARKS[script][meaning];
}

function scriptOf(word: string, scripts: readonly Script[]): Script | undefined {
  return SCRIPT_PATTERNS.find(([script, pattern]) => scripts.includes(script) && pattern.test(word))?.[0];
}
