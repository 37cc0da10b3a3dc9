import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";

const DIGITS: readonly string[] = "ᱢᱤᱫ ᱵᱟᱨ ᱯᱮ ᱯᱩᱱ ᱢᱚᱬᱮ ᱛᱩᱨᱩᱭ ᱮᱭᱟᱭ ᱤᱨᱟᱹᱞ ᱟᱨᱮ".split(" ");
/** What digits are at the end of a number that is one word, and before the word for ten. */
const LAST: readonly string[] = "ᱢᱤᱫ ᱵᱟᱨ ᱯᱮ ᱯᱩᱱ ᱢᱚᱬ ᱛᱩᱨ ᱭᱟᱭ ᱨᱟᱹᱞ ᱟᱨᱮ".split(" ");
const SHORT_TENS: readonly string[] = "ᱜᱮ ᱵᱟᱜᱮ ᱯᱮᱜᱮ ᱯᱩᱜᱮ ᱢᱚᱜᱮ ᱛᱩᱜᱮ ᱮᱜᱮ ᱤᱜᱮ ᱟᱜᱮ".split(" ");

/** Makes the words of 10 to 99: ᱵᱟᱨ ᱜᱮᱞ ᱯᱮ, or short ᱵᱟᱜᱮᱯᱮ. */
const twoDigits = SHORT_TENS.flatMap((short, at) => {
  const ten = at === 0 ? "ᱜᱮᱞ" : `${DIGITS[at]}_ᱜᱮᱞ`;
  return [
    at === 0 ? ten : `${ten} ${short}`,
    ...DIGITS.map((digit, unit) => `${ten}_${digit} ${short}${LAST[unit]} ${short}ᱼ${LAST[unit]}`),
  ];
});

/** Santali in Ol Chiki. Source of 0 to 99: AI4Bharat's indic-numtowords 1.1.0. Its spellings in Devanagari and its ordinals are not known here: they stay. */
export const SANTALI: WrittenTable = {
  units: ["ᱥᱩᱱ ᱥᱩᱱᱭᱚ", ...DIGITS, ...twoDigits],
  scales: { 100: "ᱥᱟᱭ", 1000: "ᱦᱟᱡᱟᱨ ᱜᱮᱥᱟᱭ", 1e5: "ᱞᱟᱠᱷ ᱞᱟᱠ", 1e7: "ᱠᱳᱴᱤ ᱠᱚᱴᱤ ᱠᱳᱨᱳᱲ" },
  months: [
    "ᱡᱟᱱᱣᱟᱨᱤ",
    "ᱯᱷᱮᱵᱽᱨᱩᱣᱟᱨᱤ",
    "ᱢᱟᱨᱪ",
    "ᱟᱯᱨᱮᱞ",
    "ᱢᱮ",
    "ᱡᱩᱱ",
    "ᱡᱩᱞᱟᱭ",
    "ᱟᱜᱟᱥᱴ",
    "ᱥᱮᱯᱴᱮᱢᱵᱚᱨ",
    "ᱚᱠᱴᱚᱵᱚᱨ",
    "ᱱᱚᱵᱷᱮᱢᱵᱚᱨ",
    "ᱰᱤᱥᱮᱢᱵᱚᱨ",
  ],
  roles: {
    and: "ᱟᱨ",
    percent: "ᱥᱟᱭᱠᱟᱲᱟ ᱯᱟᱨᱥᱮᱱᱴ",
    rupees: "ᱴᱟᱠᱟ",
    paise: "ᱯᱚᱭᱥᱟ",
    oclock: "ᱴᱟᱲᱟᱝ ᱵᱟᱡᱮ",
    hours: "ᱴᱟᱲᱟᱝ ᱜᱷᱚᱱᱴᱟ",
    minutes: "ᱴᱤᱯᱤᱡ ᱢᱤᱱᱤᱴ",
    days: "ᱢᱟᱦᱟᱸ ᱢᱟᱦᱟ",
    months_long: "ᱪᱟᱸᱫᱚ",
    years: "ᱥᱮᱨᱢᱟ",
    unit: "ᱠᱤᱞᱚ ᱞᱤᱴᱟᱨ ᱢᱤᱴᱟᱨ",
    year_cue: "ᱥᱟᱞ",
    code_cue: "ᱱᱚᱢᱵᱚᱨ ᱱᱟᱢᱵᱟᱨ ᱠᱳᱰ",
    phone_cue: "ᱯᱷᱚᱱ ᱢᱳᱵᱟᱭᱤᱞ",
    label: "ᱥᱟᱦᱴᱟ ᱱᱚᱢᱵᱚᱨ ᱱᱟᱢᱵᱟᱨ",
    house: "ᱳᱲᱟᱜ",
    doubtful: "ᱢᱤᱫ",
    company: "ᱢᱮ",
  },
  ownDigits: "᱐᱑᱒᱓᱔᱕᱖᱗᱘᱙",
  also: [ENGLISH],
};
