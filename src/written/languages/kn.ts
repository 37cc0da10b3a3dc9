import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";
import { ENGLISH_IN_KANNADA } from "./english-in-kannada.ts";
import { afterConsonant, beginsWithVowel, eachSpelling, list, withoutEnd, words } from "./joining.ts";

/** Kannada. Tens and digits, and hundreds, are one word: ಇಪ್ಪತ್ತೈದು, ಇನ್ನೂರು. The u at the end is lost before endings. */

const ONES: readonly string[] = [
  "ಸೊನ್ನೆ ಶೂನ್ಯ ಜೀರೋ ಜೀರೊ",
  "ಒಂದು",
  "ಎರಡು",
  "ಮೂರು",
  "ನಾಲ್ಕು ನಾಕು ನಾಲಕ್ಕು",
  "ಐದು ಅಯ್ದು",
  "ಆರು",
  "ಏಳು",
  "ಎಂಟು",
  "ಒಂಬತ್ತು ಒಂಭತ್ತು",
  "ಹತ್ತು",
  "ಹನ್ನೊಂದು",
  "ಹನ್ನೆರಡು",
  "ಹದಿಮೂರು ಹದಿಮೂರ",
  "ಹದಿನಾಲ್ಕು ಹದಿನಾಕು",
  "ಹದಿನೈದು",
  "ಹದಿನಾರು",
  "ಹದಿನೇಳು",
  "ಹದಿನೆಂಟು",
  "ಹತ್ತೊಂಬತ್ತು ಹತ್ತೊಂಭತ್ತು",
];

const TENS: Readonly<Record<number, string>> = {
  20: "ಇಪ್ಪತ್ತು",
  30: "ಮೂವತ್ತು",
  40: "ನಲವತ್ತು ನಲ್ವತ್ತು ನಲುವತ್ತು",
  50: "ಐವತ್ತು ಅಯ್ವತ್ತು",
  60: "ಅರವತ್ತು ಅರುವತ್ತು",
  70: "ಎಪ್ಪತ್ತು",
  80: "ಎಂಬತ್ತು ಎಂಭತ್ತು",
  90: "ತೊಂಬತ್ತು ತೊಂಭತ್ತು",
};

/** Makes the words for a ten and a digit: ಇಪ್ಪತ್ತೈದು, ಇಪ್ಪತ್ತಮೂರು, ಇಪ್ಪತ್ತ್ಮೂರು, ಇಪ್ಪತ್ಮೂರು. */
function joined(tens: string, digits: string): string[] {
  return words(tens).flatMap((ten) =>
    words(digits).flatMap((digit) => {
      const before = withoutEnd(ten);
      if (beginsWithVowel(digit)) return [before + afterConsonant(digit)];
      return [before + digit, ten + digit, `${before}್${digit}`, before.replace(/್ತ$/u, "್") + digit];
    }),
  );
}

function unitWords(): string[] {
  const units = [...ONES];
  for (let value = 20; value < 100; value += 1) {
    const tens = TENS[value - (value % 10)] ?? "";
    units[value] = value % 10 === 0 ? tens : list(...joined(tens, ONES[value % 10] ?? ""));
  }
  return units;
}

const UNITS = unitWords();

/** The forms of hundreds before a smaller number: ಇನ್ನೂರ, ಇನ್ನೂರಾ. */
const hundreds = (spellings: string) =>
  list(...words(spellings).flatMap((word) => [word, withoutEnd(word), `${withoutEnd(word)}ಾ`]));

export const KANNADA: WrittenTable = {
  units: UNITS,
  openTens: Object.fromEntries(
    Object.entries(TENS).map(([value, spellings]) => [
      value,
      list(...words(spellings).flatMap((ten) => [ten, withoutEnd(ten)])),
    ]),
  ),
  scales: {
    100: "ನೂರು ನೂರ ನೂರಾ",
    1000: "ಸಾವಿರ ಸಾವಿರದ ಸಾವಿರದಾ ಸಾವ್ರ",
    1e5: "ಲಕ್ಷ ಲಕ್ಷದ ಲಕ್ಷದಾ",
    1e7: "ಕೋಟಿ ಕೋಟಿಯ",
  },
  values: {
    200: hundreds("ಇನ್ನೂರು ಎರಡುನೂರು"),
    300: hundreds("ಮುನ್ನೂರು ಮೂನೂರು ಮೂರುನೂರು"),
    400: hundreds("ನಾನ್ನೂರು ನಾನೂರು ನಾಲ್ಕುನೂರು"),
    500: hundreds("ಐನೂರು ಐದುನೂರು ಐನ್ನೂರು ಐದ್ನೂರು"),
    600: hundreds("ಆರುನೂರು ಆರ್ನೂರು ಆರ್ನೂರು"),
    700: hundreds("ಏಳುನೂರು ಏಳ್ನೂರು"),
    800: hundreds("ಎಂಟುನೂರು ಎಂಟ್ನೂರು ಎಣ್ಣೂರು"),
    900: hundreds("ಒಂಬೈನೂರು ಒಂಭೈನೂರು ಒಂಬತ್ತುನೂರು ಒಂಬೈನ್ನೂರು"),
  },
  mixed: quarterPhrases(),
  glued: {
    units: eachSpelling(UNITS, (word) =>
      beginsWithVowel(word) ? [withoutEnd(word), afterConsonant(word)] : [withoutEnd(word)],
    ),
    additions: { 0.5: "ೂವರೆ ುವರೆ", 0.25: "ೂಕಾಲು ೂಕಾಲ್", 0.75: "ೂಮುಕ್ಕಾಲು ೂಮುಕ್ಕಾಲ್" },
  },
  ordinalEndings: "ನೇ ನೆಯ ನೆ ನೇಯ ನೇದು",
  stemEnds: "ು",
  endings: "ಕ್ಕೆ ರಲ್ಲಿ ರಿಂದ ರಂದು ರವರೆಗೆ ರೊಳಗೆ ರ ರಷ್ಟು ಕ್ಕೂ ಗಳು ಗಳಿಗೆ ಗಳಲ್ಲಿ ಗಳ ಗೆ ಯ ಯನ್ನು ಯಲ್ಲಿ ದಲ್ಲಿ ದಿಂದ ದಷ್ಟು ವರೆಗೆ ಗಳನ್ನು",
  months: [
    "ಜನವರಿ",
    "ಫೆಬ್ರವರಿ ಫೆಬ್ರುವರಿ",
    "ಮಾರ್ಚ್ ಮಾರ್ಚಿ",
    "ಏಪ್ರಿಲ್ ಎಪ್ರಿಲ್",
    "ಮೇ",
    "ಜೂನ್",
    "ಜುಲೈ",
    "ಆಗಸ್ಟ್ ಅಗಸ್ಟ್",
    "ಸೆಪ್ಟೆಂಬರ್ ಸೆಪ್ಟಂಬರ್",
    "ಅಕ್ಟೋಬರ್",
    "ನವೆಂಬರ್ ನವಂಬರ್",
    "ಡಿಸೆಂಬರ್ ಡಿಸಂಬರ್",
  ],
  roles: {
    article: "ಒಂದು",
    point: "ಪಾಯಿಂಟ್ ದಶಮಾಂಶ ಬಿಂದು",
    percent: "ಪ್ರತಿಶತ ಶೇಕಡಾ ಪರ್ಸೆಂಟ್ ಶೇಕಡ ಪರ್ಸಂಟ್",
    percent_first: "ಶೇಕಡಾ ಶೇಕಡ ಶೇ",
    rupees: "ರೂಪಾಯಿ ರೂಪಾಯಿಗಳು ರೂಪಾಯಿಗಳ ರೂಪಾಯಿಯ ರೂ ರೂಪಾಯಿಗಳನ್ನು",
    rupees_first: "ರೂಪಾಯಿ ರೂ",
    paise: "ಪೈಸೆ ಪೈಸೆಗಳು ಪೈಸಾ",
    dollars: "ಡಾಲರ್ ಡಾಲರ್‌ಗಳು",
    cents: "ಸೆಂಟ್ ಸೆಂಟ್ಸ್",
    euros: "ಯೂರೋ",
    oclock: "ಗಂಟೆಗೆ ಗಂಟೆಯ ಗಂಟೆಯೊಳಗೆ ಗಂಟೆಯಿಂದ ಗಂಟೆಯವರೆಗೆ ಗಂಟೆಗೇ ಗಂಟೆಯ_ನಂತರ ಗಂಟೆ_ಸುಮಾರಿಗೆ",
    hours: "ಗಂಟೆ ಗಂಟೆಗಳು ಗಂಟೆಗಳ ಗಂಟೆಗಳಲ್ಲಿ ತಾಸು ಗಂಟೆಗಳ_ಕಾಲ",
    minutes: "ನಿಮಿಷ ನಿಮಿಷಗಳು ನಿಮಿಷಗಳಲ್ಲಿ ನಿಮಿಷದಲ್ಲಿ ನಿಮಿಷಗಳ ನಿಮಿಷಕ್ಕೆ",
    seconds: "ಸೆಕೆಂಡ್ ಸೆಕೆಂಡು ಸೆಕೆಂಡುಗಳು ಸೆಕೆಂಡ್‌ಗಳು",
    days: "ದಿನ ದಿನಗಳು ದಿನಗಳಲ್ಲಿ ದಿನಗಳ ದಿನದಲ್ಲಿ ದಿವಸ ದಿನಗಳೊಳಗೆ",
    weeks: "ವಾರ ವಾರಗಳು ವಾರಗಳ",
    months_long: "ತಿಂಗಳು ತಿಂಗಳ ತಿಂಗಳುಗಳು ತಿಂಗಳಲ್ಲಿ",
    years: "ವರ್ಷ ವರ್ಷದ ವರ್ಷಗಳು ವರ್ಷಗಳ ವರುಷ ವರ್ಷಗಳಿಂದ ವರ್ಷಗಳಲ್ಲಿ",
    unit: `ಕಿಲೋ ಕಿಲೊ ಕೆಜಿ ಕೆ_ಜಿ ಗ್ರಾಂ ಲೀಟರ್ ಮಿಲಿಲೀಟರ್ ಕಿಲೋಮೀಟರ್ ಕಿಲೊಮೀಟರ್ ಮೀಟರ್ ಸೆಂಟಿಮೀಟರ್ ಡಿಗ್ರಿ ಎಕರೆ ಗುಂಟೆ ಅಡಿ ಇಂಚು ಟನ್ ಕ್ವಿಂಟಾಲ್ ಚದರ_ಅಡಿ
      ಮೈಲಿ ಯೂನಿಟ್ ತೊಲ ಕಿ_ಮೀ ಲೀಟರ್‌ಗಳು ವೋಲ್ಟ್ ಜಿಬಿ`,
    double: "ಡಬಲ್ ಡಬ್ಬಲ್",
    triple: "ಟ್ರಿಪಲ್ ತ್ರಿಬಲ್",
    plus: "ಪ್ಲಸ್",
    minus: "ಮೈನಸ್",
    over: "ಬೈ",
    range: "ರಿಂದ",
    time_cue: "ಬೆಳಿಗ್ಗೆ ಬೆಳಗ್ಗೆ ಸಂಜೆ ರಾತ್ರಿ ಮಧ್ಯಾಹ್ನ",
    year_cue: "ವರ್ಷ ಸನ್ ಇಸವಿ",
    code_cue: `ಕೋಡ್ ಓಟಿಪಿ ನಂಬರ್ ಸಂಖ್ಯೆ ಖಾತೆ ಅಕೌಂಟ್ ಕಾರ್ಡ್ ಪಿನ್ ಪಿನ್‌ಕೋಡ್ ಪಿನ್ಕೋಡ್ ಪಾಸ್‌ವರ್ಡ್ ಟಿಕೆಟ್ ರಸೀದಿ ರೋಲ್ ಟೋಕನ್ ಬಿಲ್ ನೋಂದಣಿ`,
    phone_cue: "ಫೋನ್ ಮೊಬೈಲ್ ದೂರವಾಣಿ ಸೆಲ್ ವಾಟ್ಸಾಪ್ ವಾಟ್ಸ್ಯಾಪ್ ಕರೆ",
    aadhaar_cue: "ಆಧಾರ್",
    pan_cue: "ಪಾನ್ ಪ್ಯಾನ್",
    vehicle_cue: "ಗಾಡಿ ವಾಹನ ವಾಹನದ ಕಾರು ಬೈಕ್ ಲಾರಿ ಬಸ್",
    other_word: "ನೂರಾರು ಸಾವಿರಾರು ಲಕ್ಷಾಂತರ ಕೋಟ್ಯಂತರ ಹತ್ತಾರು",
    label: "ಕೊಠಡಿ ಪುಟ ಪ್ಲಾಟ್‌ಫಾರ್ಮ್ ಅಧ್ಯಾಯ ಪಾಠ ವಾರ್ಡ್ ಪ್ರಶ್ನೆ ಸೆಕ್ಷನ್ ನಂಬರ್ ಸಂಖ್ಯೆ ರೂಮ್ ಗೇಟ್",
    house: "ಮನೆ ಫ್ಲ್ಯಾಟ್ ಫ್ಲಾಟ್ ಬಾಗಿಲು",
  },
  idioms: [
    ["ಮರ_ಹತ್ತು ಬಸ್_ಹತ್ತು ಬಸ್ಸು_ಹತ್ತು ಬೆಟ್ಟ_ಹತ್ತು ಮೆಟ್ಟಿಲು_ಹತ್ತು ರೈಲು_ಹತ್ತು ಗಾಡಿ_ಹತ್ತು ಮೇಲೆ_ಹತ್ತು", "ಹತ್ತು is to climb"],
    ["ನೂರಕ್ಕೆ_ನೂರು ನೂರಕ್ಕೆ_ನೂರರಷ್ಟು ನೂರಕ್ಕೆ_ನೂರಷ್ಟು", "wholly"],
    ["ನೂರೆಂಟು_ಕೆಲಸ ನೂರೆಂಟು_ಸಮಸ್ಯೆ ನೂರೆಂಟು_ಸಮಸ್ಯೆಗಳು", "very many"],
    ["ನೂರಾರು ಸಾವಿರಾರು ಲಕ್ಷಾಂತರ", "indefinite numbers"],
    ["ಹತ್ತು_ಹಲವು ಹತ್ತಾರು", "several"],
    ["ಸಾವಿರ_ಸಲ ನೂರು_ಸಲ ಸಾವಿರ_ಬಾರಿ ನೂರು_ಬಾರಿ", "very often"],
  ],
  ownDigits: "೦೧೨೩೪೫೬೭೮೯",
  also: [ENGLISH_IN_KANNADA, ENGLISH],
};

/** Half and quarters in words of their own: ಹತ್ತೂ ಮುಕ್ಕಾಲು. Those in one word are glued. */
function quarterPhrases(): Record<number, string> {
  const mixed: Record<number, string> = {};
  for (let value = 1; value <= 12; value += 1) {
    for (const [share, name] of [
      [0.5, "ವರೆ"],
      [0.25, "ಕಾಲು"],
      [0.75, "ಮುಕ್ಕಾಲು"],
    ] as const) {
      mixed[value + share] = list(...words(UNITS[value] ?? "").map((word) => `${withoutEnd(word)}ೂ_${name}`));
    }
  }
  return mixed;
}
