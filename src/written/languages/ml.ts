import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";
import { ENGLISH_IN_MALAYALAM } from "./english-in-malayalam.ts";
import { afterConsonant, beginsWithVowel, eachSpelling, list, withoutEnd, words } from "./joining.ts";

/** Malayalam. Tens and digits, hundreds and thousands are one word. The virama at the end may be written as u: ഒന്ന്, ഒന്നു. */

const ONES: readonly string[] = [
  "പൂജ്യം സീറോ സിറോ",
  "ഒന്ന്",
  "രണ്ട്",
  "മൂന്ന്",
  "നാല്",
  "അഞ്ച്",
  "ആറ്",
  "ഏഴ്",
  "എട്ട്",
  "ഒമ്പത് ഒൻപത് ഒന്പത്",
  "പത്ത്",
  "പതിനൊന്ന്",
  "പന്ത്രണ്ട് പന്ത്രെണ്ട്",
  "പതിമൂന്ന് പതിമ്മൂന്ന്",
  "പതിനാല് പതിന്നാല്",
  "പതിനഞ്ച്",
  "പതിനാറ്",
  "പതിനേഴ്",
  "പതിനെട്ട്",
  "പത്തൊമ്പത് പത്തൊൻപത്",
];

/** Tens alone, and what is before the digit of a ten. */
const TENS: Readonly<Record<number, readonly [alone: string, stems: string]>> = {
  20: ["ഇരുപത്", "ഇരുപത്ത"],
  30: ["മുപ്പത്", "മുപ്പത്ത"],
  40: ["നാല്പത് നാൽപത് നാൽപ്പത് നാല്പ്പത്", "നാല്പത്ത നാൽപത്ത നാൽപ്പത്ത നാല്പ്പത്ത"],
  50: ["അമ്പത് അൻപത് അന്‍പത്", "അമ്പത്ത അൻപത്ത"],
  60: ["അറുപത്", "അറുപത്ത"],
  70: ["എഴുപത്", "എഴുപത്ത"],
  80: ["എൺപത് എണ്പത് എമ്പത്", "എൺപത്ത എണ്പത്ത എമ്പത്ത"],
  90: ["തൊണ്ണൂറ്", "തൊണ്ണൂറ്റ"],
};

const HUNDREDS: Readonly<Record<number, string>> = {
  200: "ഇരുനൂറ് ഇരുന്നൂറ്",
  300: "മുന്നൂറ് മുന്നൂറു",
  400: "നാനൂറ് നാന്നൂറ്",
  500: "അഞ്ഞൂറ് അഞ്ഞൂറു",
  600: "അറുനൂറ് അറുന്നൂറ്",
  700: "എഴുനൂറ് എഴുന്നൂറ്",
  800: "എണ്ണൂറ് എൺനൂറ് എട്ടുനൂറ്",
};
const NINE_HUNDRED = "തൊള്ളായിരം";

/** Thousands that are not made of their number and ആയിരം. */
const THOUSANDS: Readonly<Record<number, string>> = {
  3000: "മൂവായിരം",
  5000: "അയ്യായിരം ഐയായിരം",
  8000: "എണ്ണായിരം",
  9000: "ഒമ്പതിനായിരം ഒൻപതിനായിരം",
  10000: "പതിനായിരം",
  11000: "പതിനോരായിരം",
  12000: "പന്തീരായിരം പന്തിരായിരം",
  13000: "പതിമൂവായിരം",
  15000: "പതിനയ്യായിരം",
  18000: "പതിനെണ്ണായിരം",
  19000: "പത്തൊമ്പതിനായിരം പത്തൊൻപതിനായിരം",
};

/** Adds the spelling with u: ഒന്നു. */
const withU = (word: string) => (word.endsWith("്") ? [word, `${withoutEnd(word)}ു`] : [word]);

/** Makes the words for a ten and a digit: ഇരുപത്തിയഞ്ച്, ഇരുപത്തഞ്ച്, ഇരുപത്തിമൂന്ന്. */
function joined(stems: string, digits: string): string[] {
  return words(stems).flatMap((before) =>
    words(digits).flatMap((digit) =>
      beginsWithVowel(digit)
        ? [`${before}ിയ${afterConsonant(digit)}`, before + afterConsonant(digit), `${before}ി${digit}`]
        : [`${before}ി${digit}`, `${before}ു${digit}`],
    ),
  );
}

function unitWords(): string[] {
  const units: string[] = [];
  for (let value = 0; value < 100; value += 1) {
    const ten = TENS[value - (value % 10)];
    const digits = ONES[value % 10] ?? "";
    const plain = value < 20 ? words(ONES[value] ?? "") : words(ten?.[0] ?? "");
    const spellings = value < 20 || value % 10 === 0 ? plain : joined(ten?.[1] ?? "", digits);
    units[value] = list(...spellings.flatMap(withU));
  }
  return units;
}

const UNITS = unitWords();

/** The forms of a word before a smaller number: നൂറ്റി, ആയിരത്തി. */
function beforeSmaller(word: string): string[] {
  if (word.endsWith("ം")) return [word.replace(/ം$/u, "ത്തി")];
  return [`${withoutEnd(word)}്റി`];
}
const withForms = (spellings: string) =>
  list(...words(spellings).flatMap((word) => [...withU(word), ...beforeSmaller(word)]));

/** The forms of these words inside of a number: നൂറ്റിയ before a vowel sign, ത്തിയ. */
const openForms = (spellings: string) =>
  list(
    ...words(spellings).flatMap((word) =>
      beforeSmaller(word).flatMap((form) => [`${form}യ`, form.replace(/ി$/u, "")]),
    ),
  );

function thousandsOfTens(): [string, string][] {
  const made = Object.entries(TENS).flatMap(([ten, [alone, stems]]): [string, string][] => [
    [String(Number(ten) * 1000), list(...words(alone).map((word) => `${withoutEnd(word)}ിനായിരം`))],
    [String((Number(ten) + 3) * 1000), list(...joined(stems, "മൂവായിരം"))],
    [String((Number(ten) + 5) * 1000), list(...joined(stems, "അയ്യായിരം"))],
    [String((Number(ten) + 8) * 1000), list(...joined(stems, "എണ്ണായിരം"))],
    [String((Number(ten) + 9) * 1000), list(...joined(stems, "ഒമ്പതിനായിരം ഒൻപതിനായിരം"))],
  ]);
  return [...Object.entries(THOUSANDS), ...made];
}

const VALUES = Object.fromEntries(
  [...Object.entries(HUNDREDS), ["900", NINE_HUNDRED] as const, ...thousandsOfTens()].map(
    ([value, spellings]) => [value, withForms(spellings)],
  ),
);
const THOUSAND = "ആയിരം";

/** Quarters in words of their own: നാലേ കാൽ. Those in one word are glued. */
function quarterPhrases(): Record<number, string> {
  const mixed: Record<number, string> = {};
  for (let value = 1; value <= 12; value += 1) {
    const stems = words(ONES[value] ?? "").map(withoutEnd);
    mixed[value + 0.25] = list(...stems.map((before) => `${before}േ_കാൽ`));
    mixed[value + 0.75] = list(...stems.map((before) => `${before}േ_മുക്കാൽ`));
  }
  return mixed;
}

export const MALAYALAM: WrittenTable = {
  units: UNITS,
  openTens: Object.fromEntries(
    Object.entries(TENS).map(([value, [, stems]]) => [
      value,
      list(...words(stems).map((before) => `${before}ി`)),
    ]),
  ),
  scales: {
    100: "നൂറ് നൂറു നൂറ്റി",
    1000: withForms(THOUSAND),
    1e5: "ലക്ഷം ലക്ഷത്തി",
    1e7: "കോടി കോടിയും",
  },
  values: VALUES,
  mixed: quarterPhrases(),
  glued: {
    units: eachSpelling(UNITS, (word) =>
      beginsWithVowel(word)
        ? [withoutEnd(word), afterConsonant(word), withoutEnd(afterConsonant(word))]
        : [withoutEnd(word)],
    ),
    scales: {
      100: openForms("നൂറ്"),
      1000: list(
        ...words(openForms(THOUSAND)),
        ...words(withForms(THOUSAND)).map(afterConsonant),
        ...words(openForms(THOUSAND)).map(afterConsonant),
      ),
    },
    values: eachSpelling(
      Object.fromEntries([...Object.entries(HUNDREDS), ["900", NINE_HUNDRED], ...thousandsOfTens()]),
      (word) => words(openForms(word)),
    ),
    additions: { 0.5: "ര", 0.25: "േകാൽ േകാല്", 0.75: "േമുക്കാൽ േമുക്കാല്" },
  },
  ordinalEndings: "ാം>ാം ാമത്തെ>ാമത്തെ ാമത്>ാമത് ാമൻ>ാമൻ ാമതായി>ാമതായി",
  stemEnds: "് ം",
  endings: `ത്തിന്>ന് ത്തിനു>നു ത്തിന്റെ>ന്റെ ത്തിൽ>ൽ ത്തിലധികം>ലധികം ത്തിലേറെ>ലേറെ ിൽ>ൽ ിന്>ന് ിനു>നു ിന്റെ>ന്റെ ിലെ>ലെ ിനകം>നകം ിലധികം>ലധികം ിൽ_നിന്ന്>ൽ_നിന്ന് ിലേക്ക്>ലേക്ക് ിനും>നും ിലും>ലും യ്ക്ക് യിൽ യുടെ
    യെ ക്ക് യ്ക്കു`,
  mixedClockEndings: "ന് നു",
  clockEndings: "യ്ക്ക് യ്ക്കു ക്ക്",
  months: [
    "ജനുവരി",
    "ഫെബ്രുവരി",
    "മാർച്ച്",
    "ഏപ്രിൽ",
    "മേയ് മെയ്",
    "ജൂൺ",
    "ജൂലൈ ജൂലായ്",
    "ഓഗസ്റ്റ് ആഗസ്റ്റ് ആഗസ്ത്",
    "സെപ്റ്റംബർ സെപ്തംബർ",
    "ഒക്ടോബർ",
    "നവംബർ",
    "ഡിസംബർ",
  ],
  roles: {
    article: "ഒരു",
    point: "പോയിന്റ് ദശാംശം",
    percent: "ശതമാനം പെർസെന്റ് പെർസന്റ്",
    rupees: "രൂപ രൂപയും രൂപാ",
    rupees_first: "രൂപ",
    paise: "പൈസ പൈസയും",
    dollars: "ഡോളർ",
    cents: "സെന്റ്",
    euros: "യൂറോ",
    oclock: "മണി മണിക്ക് മണിയോടെ മണിവരെ മണിക്കുള്ളിൽ മണിമുതൽ മണിക്കേ മണിയ്ക്ക്",
    hours: "മണിക്കൂർ മണിക്കൂറുകൾ മണിക്കൂറിൽ മണിക്കൂറിനുള്ളിൽ മണിക്കൂറോളം മണിക്കൂറിനകം",
    minutes: "മിനിറ്റ് മിനിട്ട് മിനുട്ട് മിനിറ്റിനുള്ളിൽ മിനിറ്റിൽ മിനിറ്റുകൾ",
    seconds: "സെക്കൻഡ് സെക്കന്റ് സെക്കൻറ്",
    days: "ദിവസം ദിവസങ്ങൾ ദിവസത്തിനുള്ളിൽ ദിവസത്തിനകം ദിവസത്തെ ദിവസമായി",
    weeks: "ആഴ്ച ആഴ്ചകൾ ആഴ്ചയായി",
    months_long: "മാസം മാസങ്ങൾ മാസത്തെ മാസത്തിനുള്ളിൽ മാസമായി",
    years: "വർഷം വർഷങ്ങൾ വർഷത്തെ കൊല്ലം വർഷമായി വയസ്സ് വർഷത്തിനുള്ളിൽ",
    unit: `കിലോ കിലോഗ്രാം ഗ്രാം ലിറ്റർ മില്ലിലിറ്റർ കിലോമീറ്റർ മീറ്റർ സെന്റിമീറ്റർ ഡിഗ്രി ഏക്കർ അടി ഇഞ്ച് ടൺ ക്വിന്റൽ ചതുരശ്ര_അടി പവൻ മൈൽ
      യൂണിറ്റ് കി_മീ വോൾട്ട് ജിബി`,
    double: "ഡബിൾ ഇരട്ട",
    triple: "ട്രിപ്പിൾ",
    plus: "പ്ലസ്",
    minus: "മൈനസ്",
    over: "ബൈ",
    range: "മുതൽ",
    time_cue: "രാവിലെ വൈകിട്ട് വൈകുന്നേരം രാത്രി ഉച്ചയ്ക്ക് ഉച്ചക്ക് പുലർച്ചെ",
    year_cue: "വർഷം സൻ",
    code_cue: `കോഡ് ഒടിപി ഒ_ടി_പി നമ്പർ നമ്പറിൽ നമ്പറാണ് അക്കൗണ്ട് കാർഡ് പിൻ പിൻകോഡ് പാസ്‌വേഡ് ടിക്കറ്റ് രസീത് റോൾ ടോക്കൺ ബിൽ രജിസ്ട്രേഷൻ`,
    phone_cue: "ഫോൺ മൊബൈൽ ടെലിഫോൺ വാട്സാപ്പ് വാട്സ്ആപ്പ് വിളിക്കുക",
    aadhaar_cue: "ആധാർ",
    pan_cue: "പാൻ",
    vehicle_cue: "വണ്ടി വാഹനം വാഹന കാർ ബൈക്ക് ലോറി ബസ്",
    label: "മുറി പേജ് പ്ലാറ്റ്ഫോം പ്ലാറ്റ്‌ഫോം അധ്യായം പാഠം വാർഡ് ചോദ്യം സെക്ഷൻ നമ്പർ റൂം ഗേറ്റ് വകുപ്പ്",
    house: "വീട്ടു വീട് ഫ്ലാറ്റ്",
  },
  idioms: [
    ["നൂറു_വട്ടം നൂറ്_വട്ടം നൂറു_തവണ നൂറ്_തവണ ആയിരം_തവണ ആയിരം_വട്ടം", "very often"],
    ["നൂറ്റൊന്ന്_ശതമാനം നൂറുശതമാനം", "wholly"],
    ["ആയിരം_നാവ്", "to praise"],
    ["നൂറുകൂട്ടം നൂറായിരം", "very many"],
    ["പത്തുപന്ത്രണ്ട്", "about so many"],
  ],
  ownDigits: "൦൧൨൩൪൫൬൭൮൯",
  also: [ENGLISH_IN_MALAYALAM, ENGLISH],
};
