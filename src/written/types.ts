/** The kinds of what is rewritten. */
export type WrittenKind =
  | "cardinal"
  | "ordinal"
  | "decimal"
  | "percent"
  | "money"
  | "date"
  | "time"
  | "duration"
  | "phone"
  | "digits"
  | "vehicle"
  | "aadhaar"
  | "pan"
  | "house_number"
  | "unit"
  | "fraction"
  | "year";

/** One rewriting: a span of the new text, in UTF-16 offsets, and the words that it replaces. */
export type WrittenChange = {
  start: number;
  end: number;
  kind: WrittenKind;
  /** Numbers as decimal strings, ₹ in paise, other money as "USD 25.50", dates, times and durations in ISO 8601's forms. */
  value: string;
  spoken: string;
};

export type WrittenOptions = {
  language: string;
  grouping?: "indian" | "international";
  digits?: "latin" | "own";
};

/**
 * The words of one language. A list of words is one string with spaces between them; `_` means a space inside a
 * phrase of several words. Spellings that `foldWord` makes equal (nukta, chandrabindu, joiners, case) are listed once.
 */
export type WrittenTable = {
  /** The words of 0 to 99: each entry has the spellings of its place. May be shorter or have empty places. */
  units?: readonly string[];
  /** Tens that a word of 1 to 9 may follow as a word of its own: "twenty five". */
  openTens?: Readonly<Record<number, string>>;
  /** Words that multiply what is before them: hundred, thousand, lakh, crore, million. */
  scales?: Readonly<Record<number, string>>;
  /** Words with a value of 100 or more of their own: இருநூறு. Smaller numbers may follow. */
  values?: Readonly<Record<number, string>>;
  /** Words with half or quarter in them, by their value: 1.5 for डेढ़, 4.5 for நாலரை. A scale may follow. */
  mixed?: Readonly<Record<number, string>>;
  /** Words before a number that change it: 0.5 for साढ़े, 0.25 for सवा, -0.25 for पौने. */
  leads?: Readonly<Record<string, string>>;
  /** Phrases after a number that add to it: 0.5 for "and_a_half". */
  additions?: Readonly<Record<string, string>>;
  /** Ordinals that are no number word with an ending of `ordinalEndings`. */
  ordinals?: Readonly<Record<number, string>>;
  /**
   * Endings that make an ordinal of a number word and stay on the figure: वीं. Here and in `endings`, `ாவது>ஆவது` is an
   * ending that looks otherwise after a figure; `_` is a space there.
   */
  ordinalEndings?: string;
  /** The ending that the figure of an ordinal has, where it is not the one that was said: 21 → "st". */
  ordinalFigure?: (value: number) => string;
  /** Other endings that stay on the figure, or follow a word for money, percent or o'clock: টি, க்கு. */
  endings?: string;
  /** What a word may have lost before an ending: ு, where முப்பது + ஆவது is முப்பதாவது. */
  stemEnds?: string;
  /** Endings of a number that make it a time of the day: টায়. */
  clockEndings?: string;
  /** Endings that make a time only of halves and quarters: എട്ടേമുക്കാലിന്. */
  mixedClockEndings?: string;
  /**
   * Parts of numbers that are written as one word, where they are spelled otherwise than alone: 1000 → "ஆயிரத்து".
   * A word is then also read as a row of such parts, words of `units`, `scales` and `values`, and at most one ending.
   */
  glued?: {
    units?: Readonly<Record<number, string>>;
    openTens?: Readonly<Record<number, string>>;
    scales?: Readonly<Record<number, string>>;
    values?: Readonly<Record<number, string>>;
    mixed?: Readonly<Record<number, string>>;
    leads?: Readonly<Record<string, string>>;
    additions?: Readonly<Record<string, string>>;
  };
  /** Words for the parts of a whole, by how many they are: 4 for "fourths". Thirds and halves are not listed: they stay. */
  denominators?: Readonly<Record<number, string>>;
  /** Decades after a century: 60 for "sixties". */
  decades?: Readonly<Record<number, string>>;
  months?: readonly string[];
  /** The names of letters, as they are spelled out: A → "ए". */
  letters?: Readonly<Record<string, string>>;
  /** What other words are, by role. */
  roles?: Readonly<Partial<Record<Role, string>>>;
  /** Phrases in which nothing is rewritten, each with its reason. A phrase may have several forms. */
  idioms?: readonly (readonly [phrases: string, reason: string])[];
  /** The digits 0 to 9 of the script, for `digits: "own"`. */
  ownDigits?: string;
  /** Tables whose words are also known: English ones in the same script, for example. */
  also?: readonly WrittenTable[];
};

/** Roles of words that are not numbers. One word may have several roles. */
export const ROLES = [
  /** Between the parts of a number, or rupees and paise: "and". */
  "and",
  /** A number that is "one" too: "a hundred". */
  "article",
  "point",
  "percent",
  /** Before a number: ಶೇಕಡಾ, শতকরা. */
  "percent_first",
  "rupees",
  "paise",
  "dollars",
  "cents",
  "euros",
  "pounds",
  /** Before an amount: "rupees five hundred". */
  "rupees_first",
  "dollars_first",
  /** What follows the number of the hour: o'clock, बजे. */
  "oclock",
  /** What follows a time of the day in hours and minutes: "am", "pm", "in_the_morning". */
  "day_half",
  /** What runs at a time that is said before it: train, flight. */
  "timed",
  /** What follows a time, as "at" is before it: पर. It also follows other numbers, so only quarters of an hour are times. */
  "time_after",
  /** Before a time without another sign: "at". */
  "time_cue",
  /** "quarter to ten", "ten past five", "half past four". */
  "to",
  "past",
  "half",
  "quarter",
  /** Measures: kilo, km, litre, degree. The figures 2 to 9 are written before them. */
  "unit",
  "hours",
  "minutes",
  "seconds",
  "days",
  "weeks",
  "months_long",
  "years",
  "double",
  "triple",
  "plus",
  "minus",
  /** Words that look like a number with an ending, or like parts of numbers in one word, and are none: છે is "is". */
  "other_word",
  /** What may follow a number that percent is said before: শতকরা দশ ভাগ. */
  "share",
  /** Between the parts of a fraction: "by", बटा. */
  "over",
  /** Between the ends of a range: "to", से. Both are then written alike. */
  "range",
  /** What follows the number of a day: तारीख. */
  "day_word",
  /** Between day and month: "of". */
  "of",
  /** Before a number that is a year: "in", "since", सन्. */
  "year_cue",
  /** Before or after digits said one by one: code, OTP, phone, account. */
  "code_cue",
  "phone_cue",
  "aadhaar_cue",
  "pan_cue",
  "vehicle_cue",
  /** Before a number of one digit that is written in figures: page, platform. */
  "label",
  "house",
  /** Zero among digits: "oh". */
  "zero",
  /** A number only beside other number words, such as "hundreds". The word alone stays. */
  "company",
  /** A number word with another sense, which no label such as "page" makes a number: दो is "give", एक is "a". */
  "doubtful",
  /** A word that makes a noun of what follows: "the", "my". No number of a label follows "the page". */
  "determiner",
] as const;
export type Role = (typeof ROLES)[number];
