import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { LANGUAGES } from "../../src/domain/languages.ts";
import { applyWritten, canBeWritten, spokenAgain } from "../../src/written/apply.ts";

/**
 * Scores the written form on lists of sentences. Usage: `bun scripts/bench/written.ts FILE… [--quiet]`.
 *
 * A line is `spoken => written`, with a number and a dot before it if wanted. A trap is a line with both sides equal, or
 * `spoken == reason`; a remark in brackets at its end is left out where it has an equals sign. The language is that of a heading
 * `## Hindi` or `## hi`, else of the file's name (`hi.txt`). The loose count takes other written forms in use for right:
 * ₹8,500 for ₹8500, ₹1.5 करोड़ for ₹1,50,00,000, 75 kg for 75 किलो, MH14BT6032, 12-ஆம்.
 */

type Score = {
  rewritten: number;
  right: number;
  loose: number;
  traps: number;
  held: number;
  microseconds: number;
};

const SCALE_WORDS: readonly (readonly [RegExp, number])[] = [
  [/^(?:करोड़|crore|কোটি|कोटी|கோடி|కోట్లు|కోట్ల|ಕೋಟಿ|കോടി|કરોડ|ਕਰੋੜ|କୋଟି|کروڑ)$/u, 1e7],
  [/^(?:लाख|lakh|লাখ|লক্ষ|லட்சம்|లక్షల|లక్షలు|ಲಕ್ಷ|ലക്ഷം|લાખ|ਲੱਖ|ଲକ୍ଷ|لاکھ)$/u, 1e5],
  [/^(?:हज़ार|हजार|thousand|হাজার)$/u, 1e3],
];

const [files, isQuiet] = [
  process.argv.slice(2).filter((each) => !each.startsWith("--")),
  process.argv.includes("--quiet"),
];
const scores = new Map<string, Score>();
for (const file of files) scoreFile(file);
for (const [language, score] of scores) {
  const { rewritten, right, loose, traps, held, microseconds } = score;
  const mean = Math.round(microseconds / Math.max(1, rewritten + traps));
  console.log(
    `${language}: right ${right} of ${rewritten}, with alternatives ${loose}; traps held ${held} of ${traps}; ${mean} µs a line`,
  );
}

function scoreFile(file: string): void {
  let language = basename(file).split(".")[0] ?? "";
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [, heading] = /^##+\s+(\S+)/u.exec(line) ?? [];
    if (heading !== undefined) language = codeOf(heading) ?? "";
    const sentence = sentenceOf(line);
    if (sentence && canBeWritten(language)) scoreSentence(language, ...sentence);
  }
}

function codeOf(heading: string): string | undefined {
  return LANGUAGES.find(({ code, name }) => code === heading || name === heading)?.code;
}

function sentenceOf(line: string): [spoken: string, written: string] | undefined {
  if (line.startsWith("#")) return undefined;
  const text = line.trim().replace(/^\d+\. /u, "");
  const [, trap] = /^(.*?) == /u.exec(text) ?? [];
  if (trap !== undefined) return [trap, trap];
  const [, spoken, written] = /^(.*?) => (.*)$/u.exec(text) ?? [];
  if (spoken === undefined || written === undefined) return undefined;
  return [spoken, written.replace(/ \([^()]*=[^()]*\)$/u, "")];
}

function scoreSentence(language: string, spoken: string, wanted: string): void {
  const score = scores.get(language) ?? {
    rewritten: 0,
    right: 0,
    loose: 0,
    traps: 0,
    held: 0,
    microseconds: 0,
  };
  scores.set(language, score);
  const began = performance.now();
  const { text, changes } = applyWritten(spoken, { language });
  score.microseconds += (performance.now() - began) * 1000;
  if (spokenAgain(text, changes) !== spoken) console.log(`not reversible: ${spoken}`);
  const isTrap = spoken === wanted;
  const isAlike = loosened(text) === loosened(wanted);
  score[isTrap ? "traps" : "rewritten"] += 1;
  if (text === wanted) score[isTrap ? "held" : "right"] += 1;
  if (!isTrap && isAlike) score.loose += 1;
  if (text !== wanted && !isQuiet) {
    console.log(
      `${language} ${isTrap ? "trap" : isAlike ? "alike" : "wrong"}: ${spoken}\n  wanted ${wanted}\n  got    ${text}`,
    );
  }
}

/** Makes the written forms equal that are in use beside each other. */
function loosened(text: string): string {
  return text
    .normalize("NFC")
    .replace(/(\d),(?=\d)/gu, "$1")
    .replace(/(\d+(?:\.\d+)?) ([\p{L}\p{M}]+)/gu, (whole, figures: string, word: string) => {
      const scale = SCALE_WORDS.find(([pattern]) => pattern.test(word))?.[1];
      return scale === undefined ? whole : String(Math.round(Number(figures) * scale));
    })
    .replace(/(\d)\.0+(?!\d)/gu, "$1")
    .replace(/(\d)\s*(?:किलोग्राम|किलो|kilograms?|kilos?|kg|কেজি|কিলো)(?![\p{L}\p{M}])/gu, "$1 kg")
    .replace(/(\d)\s*(?:किलोमीटर|kilomet(?:re|er)s?|km|কিলোমিটার|কিমি)(?![\p{L}\p{M}])/gu, "$1 km")
    .replace(/\b([A-Z]{2}) ?(\d{1,2}) ?([A-Z]{1,3}) ?(\d{1,4})\b/gu, "$1$2$3$4")
    .replace(/(\d)-(?=[\p{L}\p{M}])/gu, "$1")
    .replace(/ %/gu, "%")
    .replace(/\s+/gu, " ")
    .trim();
}
