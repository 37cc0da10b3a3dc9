/**
 * Manipuri in Meetei Mayek and in the script of Bengali, one to one. Both write a vowel with each consonant that has no other sign.
 * Meetei Mayek has further letters for consonants at the end of a syllable (lonsum), which Bengali writes with a hasanta. The letters of
 * the Meetei Mayek Extensions block are those that only loan words have.
 */

/** Consonants, and what follows them. */
const PAIRS: readonly (readonly [meetei: string, bengali: string])[] = [
  ["ꯀ", "ক"],
  ["ꯁ", "স"],
  ["ꯂ", "ল"],
  ["ꯃ", "ম"],
  ["ꯄ", "প"],
  ["ꯅ", "ন"],
  ["ꯆ", "চ"],
  ["ꯇ", "ত"],
  ["ꯈ", "খ"],
  ["ꯉ", "ঙ"],
  ["ꯊ", "থ"],
  ["ꯋ", "ৱ"],
  ["ꯌ", "য়"],
  ["ꯍ", "হ"],
  ["ꯐ", "ফ"],
  ["ꯒ", "গ"],
  ["ꯓ", "ঝ"],
  ["ꯔ", "র"],
  ["ꯕ", "ব"],
  ["ꯖ", "জ"],
  ["ꯗ", "দ"],
  ["ꯘ", "ঘ"],
  ["ꯙ", "ধ"],
  ["ꯚ", "ভ"],
  ["ꫢ", "ছ"],
  ["ꫣ", "ঞ"],
  ["ꫤ", "ট"],
  ["ꫥ", "ঠ"],
  ["ꫦ", "ড"],
  ["ꫧ", "ঢ"],
  ["ꫨ", "ণ"],
  ["ꫩ", "শ"],
  ["ꫪ", "ষ"],
  ["ꯑꯥ", "আ"],
  ["ꯑꯦ", "এ"],
  ["ꯑꯣ", "ও"],
  ["ꯑꯩ", "ঐ"],
  ["ꯑꯧ", "ঔ"],
  ["ꯑꫫ", "ঈ"],
  ["ꯑꫬ", "ঊ"],
  ["ꯑ", "অ"],
  ["ꯎ", "উ"],
  ["ꯏ", "ই"],
  ["ꯥ", "া"],
  ["ꯤ", "ি"],
  ["ꫫ", "ী"],
  ["ꯨ", "ু"],
  ["ꫬ", "ূ"],
  ["ꯦ", "ে"],
  ["ꯩ", "ৈ"],
  ["ꯣ", "ো"],
  ["ꯧ", "ৌ"],
  ["ꯪ", "ং"],
  ["ꫵ", "ঃ"],
  ["ꯠ", "ৎ"],
  ["꯫", "।"],
];
const DIGITS = Array.from({ length: 10 }, (_, digit): readonly [string, string] => [
  String.fromCodePoint(0xabf0 + digit),
  String.fromCodePoint(0x09e6 + digit),
]);

/** Consonants at the end of a syllable, with the consonant of Bengali that has a hasanta. */
const LONSUM: readonly (readonly [meetei: string, bengali: string])[] = [
  ["ꯛ", "ক"],
  ["ꯜ", "ল"],
  ["ꯝ", "ম"],
  ["ꯞ", "প"],
  ["ꯟ", "ন"],
  ["ꯡ", "ঙ"],
  ["ꯢ", "ই"],
];
const MEETEI_VIRAMA = "\uABED";
const HASANTA = "\u09CD";
const NON_JOINER = "\u200C";

const TO_BENGALI = new Map([...PAIRS, ...DIGITS]);
const TO_MEETEI = new Map([...TO_BENGALI].map(([meetei, bengali]) => [bengali, meetei]));
const LONSUM_TO_BENGALI = new Map(LONSUM);
const LONSUM_TO_MEETEI = new Map(LONSUM.map(([meetei, bengali]) => [bengali, meetei]));

const patternOf = (spellings: Iterable<string>): RegExp =>
  new RegExp([...spellings].toSorted((a, b) => b.length - a.length).join("|"), "gu");
const MEETEI = patternOf(TO_BENGALI.keys());
const BENGALI = patternOf(TO_MEETEI.keys());
const MEETEI_LONSUM = new RegExp(
  `([${[...LONSUM_TO_BENGALI.keys()].join("")}])(?=([\\uABC0-\\uABDA\\uAAE0-\\uAAEA])?)`,
  "gu",
);
const BENGALI_LONSUM = new RegExp(
  `([${[...LONSUM_TO_MEETEI.keys()].join("")}])${HASANTA}(?:${NON_JOINER}|(?![ক-হৎ]))`,
  "gu",
);
/** Bengali writes ya without its dot in a conjunct, and with it elsewhere. */
const YA_IN_CONJUNCT = new RegExp(`${HASANTA}য(?!\u09BC)`, "gu");

/** Writes Manipuri in Meetei Mayek with the letters of Bengali. */
export function meeteiToBengali(text: string): string {
  return text
    .replace(
      MEETEI_LONSUM,
      (_, lonsum: string, next: string | undefined) =>
        `${LONSUM_TO_BENGALI.get(lonsum)}${HASANTA}${next === undefined ? "" : NON_JOINER}`,
    )
    .replaceAll(`${MEETEI_VIRAMA}ꯌ`, `${HASANTA}য`)
    .replaceAll(MEETEI_VIRAMA, HASANTA)
    .replace(MEETEI, (found) => TO_BENGALI.get(found) ?? found)
    .normalize("NFC");
}

/** Writes Manipuri in the script of Bengali with the letters of Meetei Mayek. */
export function bengaliToMeetei(text: string): string {
  return text
    .replace(BENGALI_LONSUM, (_, consonant: string) => LONSUM_TO_MEETEI.get(consonant) ?? consonant)
    .replace(YA_IN_CONJUNCT, `${MEETEI_VIRAMA}ꯌ`)
    .replaceAll(HASANTA, MEETEI_VIRAMA)
    .replace(BENGALI, (found) => TO_MEETEI.get(found) ?? found);
}
