import { CONSONANTS, INHERENT, VOWELS } from "./phonemes.ts";

/**
 * Which vowels that are not written are not spoken either. The rules for Hindi: Ohala, Aspects of Hindi Phonology (1983), in the form of
 * Narasimhan, Sproat and Kiraz, Schwa-Deletion in Hindi Text-to-Speech Synthesis (2004), and of Choudhury, Basu and Sarkar, A Diachronic
 * Approach for Schwa Deletion in Indo Aryan Languages (2004): the vowel at the end of a word, and from right to left each one between
 * V C and C V, where no cluster of three consonants results.
 *
 * | way | vowels that are dropped |
 * |---|---|
 * | `hindi` | at the end of a word, and within it |
 * | `final` | at the end of a word |
 * | `gujarati` | as in Hindi, also before a u that ends a word, because verbs and neuters end so |
 * | `marathi` | at the end of a word, and within it before the vowels aa, e, o and their kin, and an ii at the end |
 * | `bengali` | at the end of a word, but not behind two consonants, and in the second syllable of verbs and pronouns |
 * | `spoken` | none |
 */
export type SchwaWay = "hindi" | "gujarati" | "marathi" | "bengali" | "spoken";

const WORD = new RegExp(`[${CONSONANTS}${VOWELS}ँंः]+`, "gu");
const ONE_VOWEL = new RegExp(`[${VOWELS}]`, "u");
const ONE_CONSONANT = new RegExp(`[${CONSONANTS}]`, "u");
/** A vowel at the end stays behind a consonant that needs it: a sonorant behind an obstruent, and ya or va behind any other. */
const OBSTRUENTS = "कखगघचछजझटठडढतथदधपफबभशषस\u0958-\u095B\u095E";
const KEEPS_FINAL = new RegExp(`(?:[${OBSTRUENTS}][यरवलनणमह]|[${CONSONANTS}][यव])${INHERENT}$`, "u");
/** Behind two consonants the vowel is spoken, but not behind those at the end of English words: কোর্ট. */
const KEEPS_FINAL_IN_BENGALI = new RegExp(`[${CONSONANTS}](?![टड])[${CONSONANTS}]${INHERENT}$`, "u");
/** Ends of nouns of Bengali before which the vowel is spoken: ভারতের, সামরিক, ঘোষণা. Verbs drop it: করতে. */
const KEPT_IN_BENGALI = /^(?:.एर|(?![लतबछ]).ए|.इक.*|ण.*)$/u;
const FINAL = new RegExp(`[${VOWELS}][${CONSONANTS}ँंः]*[${CONSONANTS}]${INHERENT}$`, "u");

/** Leaves out the vowels that are not spoken. Text without such vowels stays as it is. */
export function dropSchwas(sounds: string, way: SchwaWay): string {
  if (way === "spoken" || !sounds.includes(INHERENT)) return sounds;
  return sounds.replace(WORD, (word) => {
    const keeps = way === "bengali" ? KEEPS_FINAL_IN_BENGALI : KEEPS_FINAL;
    const ended = FINAL.test(word) && !keeps.test(word) ? word.slice(0, -1) : word;
    return dropWithin(ended, way);
  });
}

function dropWithin(word: string, way: SchwaWay): string {
  const sounds = [...word];
  const firstVowel = sounds.findIndex((sound) => ONE_VOWEL.test(sound));
  // What is kept, from the end on: the sounds behind a place.
  const kept: string[] = [];
  for (let at = sounds.length - 1; at >= 0; at--) {
    const sound = sounds[at] ?? "";
    const isDropped = at > 1 && sound === INHERENT && isBetween(sounds, at, kept, firstVowel, way);
    if (!isDropped) kept.push(sound);
  }
  return kept.reverse().join("");
}

/** Reports whether a place lies between V C and C V. */
function isBetween(
  sounds: readonly string[],
  at: number,
  behind: readonly string[],
  firstVowel: number,
  way: SchwaWay,
): boolean {
  const [beforeLast = "", before = ""] = [sounds[at - 2], sounds[at - 1]];
  const [after = "", afterNext = ""] = [behind.at(-1), behind.at(-2)];
  const isOpen = ONE_VOWEL.test(beforeLast) && ONE_CONSONANT.test(before);
  if (!isOpen || !ONE_CONSONANT.test(after) || !ONE_VOWEL.test(afterNext)) return false;
  const isSecond = firstVowel === at - 2;
  if (way === "bengali") return isSecond && !KEPT_IN_BENGALI.test(behind.toReversed().join(""));
  // Only learned words end in a short i or u, and they keep the vowel before: anumati.
  const isEnd = behind.length === 2;
  if (/[इउ]/u.test(afterNext) && isEnd && way !== "gujarati") return false;
  if (way === "marathi" && !/[आएओऐऔ]/u.test(afterNext) && !(afterNext === "ई" && isEnd)) return false;
  // Before another vowel that is not written, only that of the second syllable is dropped: sargam, but adhikaran.
  return afterNext !== INHERENT || isSecond;
}
