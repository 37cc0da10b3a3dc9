import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";
import { ENGLISH_IN_BENGALI } from "./english-in-bengali.ts";

type Script = {
  zero: string;
  digits: readonly string[];
  /** Digits after a ten. */
  last: readonly string[];
  tens: readonly string[];
  hundreds: readonly string[];
  /** Thousand, lakh and crore. The number of them is said after them. */
  large: readonly string[];
  /** "And", joined to what is before it. */
  joiners: readonly string[];
};

/** Source: AI4Bharat's indic-numtowords 1.1.0, with the tens of school grammars. */
const MEETEI: Script = {
  zero: "ꯐꯨꯟ ꯁꯤꯅꯣ",
  digits: "ꯑꯃ ꯑꯅꯤ ꯑꯍꯨꯝ ꯃꯔꯤ ꯃꯉꯥ ꯇꯔꯨꯛ ꯇꯔꯦꯠ ꯅꯤꯄꯥꯟ ꯃꯥꯄꯟ".split(" "),
  last: "ꯃꯥꯊꯣꯏ ꯅꯤꯊꯣꯏ ꯍꯨꯝꯗꯣꯏ ꯃꯔꯤ ꯃꯉꯥ ꯇꯔꯨꯛ ꯇꯔꯦꯠ ꯅꯤꯄꯥꯟ ꯃꯥꯄꯟ".split(" "),
  tens: "ꯇꯔꯥ ꯀꯨꯟ ꯀꯨꯟꯊ꯭ꯔꯥ ꯅꯤꯐꯨ ꯌꯥꯡꯈꯩ ꯍꯨꯝꯐꯨ ꯍꯨꯝꯐꯨꯇꯔꯥ ꯃꯔꯤꯐꯨ ꯃꯔꯤꯐꯨꯇꯔꯥ".split(" "),
  hundreds: "ꯆꯥꯃ ꯆꯥꯅꯤ ꯆꯥꯍꯨꯝ ꯆꯥꯃꯔꯤ ꯆꯥꯃꯉꯥ ꯆꯥꯇꯔꯨꯛ ꯆꯥꯇꯔꯦꯠ ꯆꯥꯅꯤꯄꯥꯟ ꯆꯥꯃꯥꯄꯟ".split(" "),
  large: ["ꯂꯤꯁꯤꯡ", "ꯂꯥꯈ", "ꯀ꯭ꯔꯣꯔ"],
  joiners: ["ꯒ", "ꯀ"],
};

const BENGALI: Script = {
  zero: "ফুন শূন্য",
  digits: "অমা অনি অহুম মরি মঙা তরুক তরেৎ নিপান মাপন".split(" "),
  last: "মাথোই নিথোই হুমদোই মরি মঙা তরুক তরেৎ নিপান মাপন".split(" "),
  tens: "তরা কুন কুন্থ্রা নিফু য়াংখৈ হুমফু হুমফুতরা মরিফু মরিফুতরা".split(" "),
  hundreds: "চামা চানি চাহুম চামরি চামঙা চাতরুক চাতরেৎ চানিপান চামাপন".split(" "),
  large: ["লিশিং", "লাখ", "ক্রোর"],
  joiners: ["গ", "গা", "ক", "কা"],
};

/** Other spellings of tens. */
const OTHER: Readonly<Record<string, string>> = {
  ꯀꯨꯟ: "ꯀꯨꯜ",
  কুন: "কুল",
  ꯍꯨꯝꯐꯨꯇꯔꯥ: "ꯍꯨꯝꯗ꯭ꯔꯥ",
  ꯃꯔꯤꯐꯨ: "ꯃꯔꯐꯨ",
  ꯃꯔꯤꯐꯨꯇꯔꯥ: "ꯃꯧꯗ꯭ꯔꯥ",
};

const withOther = (ten: string): string[] => [ten, ...(OTHER[ten] === undefined ? [] : [OTHER[ten]])];

function twoDigits({ tens, last }: Script): string[] {
  return tens.flatMap((ten) => [
    withOther(ten).join(" "),
    ...last.map((digit) =>
      withOther(ten)
        .flatMap((each) => [`${each}_${digit}`, each + digit])
        .join(" "),
    ),
  ]);
}

const unitsOf = (script: Script): string[] => [script.zero, ...script.digits, ...twoDigits(script)];
const UNITS: readonly string[] = unitsOf(MEETEI).map((list, at) => `${list} ${unitsOf(BENGALI)[at]}`);

const withJoiners = (list: string, { joiners }: Script): string =>
  list
    .split(" ")
    .flatMap((word) => [word, ...joiners.map((joiner) => word + joiner)])
    .join(" ");

function hundreds(): Record<number, string> {
  const of = (script: Script, at: number) => withJoiners(script.hundreds[at] ?? "", script);
  return Object.fromEntries(
    MEETEI.hundreds.map((_, at) => [(at + 1) * 100, `${of(MEETEI, at)} ${of(BENGALI, at)}`]),
  );
}

/** The number of thousands, lakhs and crores is said after them: ꯂꯤꯁꯤꯡ ꯑꯅꯤ is 2000. */
function large(): Record<number, string> {
  const phrases: Record<number, string> = {};
  for (const script of [MEETEI, BENGALI]) {
    for (const [at, scale] of script.large.entries()) {
      for (const [count, list] of unitsOf(script).entries()) {
        const value = count * 10 ** (3 + 2 * at);
        const said = withJoiners(list, script)
          .split(" ")
          .map((number) => `${scale}_${number}`);
        if (count > 0) phrases[value] = [phrases[value] ?? "", ...said].join(" ").trim();
      }
    }
  }
  return phrases;
}

/** Manipuri in Meetei Mayek and in Bengali letters. Numbers from a hundred crore on and ordinals are not known here: they stay. */
export const MANIPURI: WrittenTable = {
  units: UNITS,
  values: { ...hundreds(), ...large() },
  months: [
    "ꯖꯥꯅꯨꯋꯥꯔꯤ জানুৱারি জানুয়ারী",
    "ꯐꯦꯕ꯭ꯔꯨꯋꯥꯔꯤ ফেব্রুৱারি ফেব্রুয়ারী",
    "ꯃꯥꯔꯆ মার্চ",
    "ꯑꯦꯞꯔꯤꯜ এপ্রিল",
    "ꯃꯦ মে",
    "ꯖꯨꯟ জুন",
    "ꯖꯨꯂꯥꯏ জুলাই",
    "ꯑꯣꯒꯁ꯭ꯠ আগষ্ট ওগষ্ট",
    "ꯁꯦꯞꯇꯦꯝꯕꯔ সেপ্টেম্বর",
    "ꯑꯣꯛꯇꯣꯕꯔ অক্টোবর",
    "ꯅꯣꯚꯦꯝꯕꯔ নভেম্বর",
    "ꯗꯤꯁꯦꯝꯕꯔ ডিসেম্বর",
  ],
  roles: {
    and: "ꯑꯃꯁꯨꯡ অমসুং",
    percent: "ꯄꯔꯁꯦꯟꯠ ꯆꯥꯗꯥ পার্সেন্ট চাদা",
    rupees: "ꯂꯨꯄꯥ লুপা",
    rupees_first: "ꯂꯨꯄꯥ লুপা",
    paise: "ꯄꯩꯁꯥ পৈসা",
    hours: "ꯄꯨꯡ পুং",
    minutes: "ꯃꯤꯅꯤꯠ মিনিট",
    days: "ꯅꯨꯃꯤꯠ নুমিৎ",
    months_long: "ꯊꯥ থা",
    years: "ꯆꯍꯤ চহী চহি",
    unit: "ꯀꯤꯂꯣ কিলো লিটর মিটর",
    oclock: "ꯕꯖꯦ বজে",
    code_cue: "ꯅꯝꯕꯔ নম্বর নম্বার ꯀꯣꯗ কোদ",
    phone_cue: "ꯐꯣꯟ ফোন",
    label: "ꯂꯃꯥꯏ লমায় ꯅꯝꯕꯔ নম্বর",
    house: "ꯌꯨꯝ য়ুম",
    doubtful: "ꯑꯃ অমা",
    company: "ꯃꯦ মে",
  },
  ownDigits: "꯰꯱꯲꯳꯴꯵꯶꯷꯸꯹",
  also: [ENGLISH_IN_BENGALI, ENGLISH],
};
