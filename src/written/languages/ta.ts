import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";
import { ENGLISH_IN_TAMIL } from "./english-in-tamil.ts";
import { afterConsonant, beginsWithVowel, eachSpelling, list, withoutEnd, words } from "./joining.ts";

/**
 * Tamil. A number is one word or several: இருபத்தைந்து, இருபத்தி ஐந்து. Where a word begins with a vowel, the u at the end
 * of the word before it is lost and the vowel becomes a sign, so the table makes these forms of the words that stand alone.
 */

const ONES: Readonly<Record<number, string>> = {
  1: "ஒன்று ஒண்ணு ஒன்னு",
  2: "இரண்டு ரெண்டு",
  3: "மூன்று மூணு",
  4: "நான்கு நாலு",
  5: "ஐந்து அஞ்சு",
  6: "ஆறு",
  7: "ஏழு",
  8: "எட்டு",
  9: "ஒன்பது ஒம்பது",
};

const TEENS: Readonly<Record<number, string>> = {
  10: "பத்து",
  11: "பதினொன்று பதினொண்ணு பதினொன்னு பதினோரு",
  12: "பன்னிரண்டு பன்னிரெண்டு பன்னெண்டு பனிரண்டு பன்னிரு",
  13: "பதின்மூன்று பதிமூன்று பதிமூணு பதின்மூணு",
  14: "பதினான்கு பதினாலு",
  15: "பதினைந்து பதினஞ்சு பதினெஞ்சு",
  16: "பதினாறு",
  17: "பதினேழு",
  18: "பதினெட்டு",
  19: "பத்தொன்பது பத்தொம்பது",
};

/** Tens alone, and what is before the digit of a ten, without its last vowel. */
const TENS: Readonly<Record<number, readonly [alone: string, stems: string]>> = {
  20: ["இருபது", "இருபத்த"],
  30: ["முப்பது", "முப்பத்த"],
  40: ["நாற்பது நாப்பது", "நாற்பத்த நாப்பத்த"],
  50: ["ஐம்பது அம்பது", "ஐம்பத்த அம்பத்த"],
  60: ["அறுபது", "அறுபத்த"],
  70: ["எழுபது", "எழுபத்த"],
  80: ["எண்பது எம்பது", "எண்பத்த எம்பத்த"],
  90: ["தொண்ணூறு தொன்னூறு", "தொண்ணூற்ற தொண்ணூத்த தொன்னூற்ற தொன்னூத்த"],
};

const HUNDREDS: Readonly<Record<number, string>> = {
  200: "இருநூறு",
  300: "முந்நூறு முன்னூறு முண்ணூறு",
  400: "நானூறு நாநூறு",
  500: "ஐந்நூறு ஐநூறு ஐன்னூறு அஞ்ஞூறு அஞ்சுநூறு",
  600: "அறுநூறு ஆறுநூறு",
  700: "எழுநூறு ஏழுநூறு",
  800: "எண்ணூறு எட்டுநூறு",
};
const NINE_HUNDRED = "தொள்ளாயிரம் தொளாயிரம்";

/** Thousands that are not made of their number and ஆயிரம். */
const THOUSANDS: Readonly<Record<number, string>> = {
  3000: "மூவாயிரம்",
  5000: "ஐயாயிரம்",
  9000: "ஒன்பதினாயிரம்",
  11000: "பதினோராயிரம்",
  12000: "பன்னீராயிரம் பன்னிராயிரம்",
  13000: "பதின்மூவாயிரம் பதிமூவாயிரம்",
  15000: "பதினையாயிரம்",
};

/** Makes the words for a ten and a digit that are written together. */
function joined(stems: string, digits: string): string[] {
  return words(stems).flatMap((before) =>
    words(digits).flatMap((digit) =>
      beginsWithVowel(digit)
        ? [before + afterConsonant(digit), `${before}ிய${afterConsonant(digit)}`, `${before}ி${digit}`]
        : [`${before}ு${digit}`, `${before}ி${digit}`],
    ),
  );
}

function unitWords(): string[] {
  const units: string[] = ["பூஜ்ஜியம் பூஜ்யம் பூஜியம் சுழியம் சைபர் சீரோ ஜீரோ"];
  for (let value = 1; value < 100; value += 1) {
    const ten = TENS[value - (value % 10)];
    const digits = ONES[value % 10] ?? "";
    if (value < 10) units[value] = digits;
    else if (value < 20) units[value] = TEENS[value] ?? "";
    else units[value] = value % 10 === 0 ? (ten?.[0] ?? "") : list(...joined(ten?.[1] ?? "", digits));
  }
  return units;
}

const UNITS = unitWords();

/** What a ten is before a digit that is a word of its own. */
const OPEN_TENS = Object.fromEntries(
  Object.entries(TENS).map(([value, [, stems]]) => [
    value,
    list(...words(stems).flatMap((before) => [`${before}ு`, `${before}ி`])),
  ]),
);

/** The forms of a word before a smaller number: நூற்று, ஆயிரத்து; with the consonant that some double: ஆயிரத்துத். */
function beforeSmaller(word: string): string[] {
  const bases = word.endsWith("ம்")
    ? [word.replace(/ம்$/u, "த்து"), word.replace(/ம்$/u, "த்தி")]
    : [word.replace(/று$/u, "ற்று"), word.replace(/று$/u, "ற்றி"), word.replace(/று$/u, "த்தி")];
  return bases.flatMap((base) => [base, `${base}த்`, `${base}ப்`, `${base}க்`, `${base}ச்`]);
}
const withForms = (spellings: string) =>
  list(...words(spellings).flatMap((word) => [word, ...beforeSmaller(word)]));
/** The forms to which a vowel sign is joined: நூற்ற, ஆயிரத்த. */
const openForms = (spellings: string) =>
  list(
    ...words(spellings).flatMap((word) =>
      word.endsWith("ம்")
        ? [word.replace(/ம்$/u, "த்த")]
        : [word.replace(/று$/u, "ற்ற"), word.replace(/று$/u, "த்த")],
    ),
  );

const VALUES = Object.fromEntries(
  [...Object.entries(HUNDREDS), ["900", NINE_HUNDRED] as const, ...thousandsOfTens()].map(
    ([value, spellings]) => [value, withForms(spellings)],
  ),
);

/** இருபத்தையாயிரம் beside இருபத்தைந்தாயிரம். */
function thousandsOfTens(): [string, string][] {
  const made = Object.entries(TENS).flatMap(([ten, [, stems]]): [string, string][] => [
    [String((Number(ten) + 3) * 1000), list(...joined(stems, "மூவாயிரம்"))],
    [String((Number(ten) + 5) * 1000), list(...joined(stems, "ஐயாயிரம்"))],
  ]);
  return [...Object.entries(THOUSANDS), ...made];
}

const THOUSAND = "ஆயிரம்";
const LAKH = "லட்சம் இலட்சம் லட்சங்கள் லச்சம் லக்ஷம்";

/** Quarters after a number in words of their own: நாலே கால், நாலே முக்கால். Those in one word are glued. */
function mixedPhrases(): Record<number, string> {
  const mixed: Record<number, string> = {};
  for (let value = 1; value <= 12; value += 1) {
    const stems = words(UNITS[value] ?? "").map(withoutEnd);
    mixed[value + 0.25] = list(...stems.map((before) => `${before}ே_கால்`));
    mixed[value + 0.75] = list(...stems.map((before) => `${before}ே_முக்கால்`));
  }
  return mixed;
}

export const TAMIL: WrittenTable = {
  units: UNITS,
  openTens: OPEN_TENS,
  scales: {
    100: list("நூறு", ...beforeSmaller("நூறு")),
    1000: withForms(THOUSAND),
    1e5: list(...words(LAKH), ...words(LAKH).flatMap(beforeSmaller), "லட்ச", "லட்சத்தை"),
    1e7: "கோடி கோடியே கோடியும் கோடிக்கு",
  },
  values: VALUES,
  mixed: mixedPhrases(),
  glued: {
    additions: { 0.5: "ரை", 0.25: "ேகால்", 0.75: "ேமுக்கால்" },
    units: eachSpelling(UNITS, (word) =>
      beginsWithVowel(word)
        ? [withoutEnd(word), afterConsonant(word), withoutEnd(afterConsonant(word))]
        : [withoutEnd(word)],
    ),
    scales: {
      100: openForms("நூறு"),
      1000: list(
        openForms(THOUSAND),
        ...words(withForms(THOUSAND)).map(afterConsonant),
        afterConsonant(openForms(THOUSAND)),
      ),
    },
    values: Object.fromEntries(
      [...Object.entries(HUNDREDS), ["900", NINE_HUNDRED] as const, ...thousandsOfTens()].map(
        ([value, spellings]) => [
          value,
          list(
            ...words(openForms(spellings)),
            ...words(withForms(spellings)).filter(beginsWithVowel).map(afterConsonant),
          ),
        ],
      ),
    ),
  },
  // The name of D is that of T as well. No vehicle of Tamil Nadu is from Daman.
  letters: { TN: "டி_என் டி_என்ன" },
  stemEnds: "ு ்",
  ordinalEndings: "ாவது ாம் வது ஆவது ஆம் ாவதாக",
  endings:
    "ுக்கு>க்கு த்திற்கு>க்கு த்துக்கு>க்கு த்தில்>இல் த்தை>ஐ த்தின்>இன் க்கு க்குள் க்கும் ிற்கு ில் ிலிருந்து ிலும் க்கான ின் ை ாக ால் டன் யும்>உம் யை>ஐ யில்>இல் யின்>இன் கள் களுக்கு களில் களை",
  months: [
    "ஜனவரி சனவரி",
    "பிப்ரவரி பெப்ரவரி",
    "மார்ச் மார்ச்சு",
    "ஏப்ரல்",
    "மே",
    "ஜூன்",
    "ஜூலை",
    "ஆகஸ்ட் ஆகஸ்டு ஆகஸ்ட்டு",
    "செப்டம்பர் செப்டெம்பர்",
    "அக்டோபர் ஒக்டோபர்",
    "நவம்பர் நவெம்பர்",
    "டிசம்பர் டிசெம்பர்",
  ],
  roles: {
    article: "ஒரு",
    point: "புள்ளி பாயிண்ட் பாயின்ட்",
    percent_first: "நூற்றுக்கு நூத்துக்கு",
    percent: "சதவீதம் சதவிகிதம் சதவீத சதவிகித விழுக்காடு பர்சென்ட் பெர்சென்ட் பர்சன்ட்",
    rupees: "ரூபாய் ரூபா ரூவா ரூபாயை",
    rupees_first: "ரூபாய் ரூ",
    paise: "பைசா பைசாக்கள் காசு",
    dollars: "டாலர் டாலர்கள்",
    cents: "சென்ட் சென்ட்ஸ்",
    euros: "யூரோ யூரோக்கள்",
    oclock: "மணி மணியளவில் மணிக்கே மணிவரை மணியிலிருந்து",
    hours: `மணி_நேரம் மணிநேரம் மணி_நேரத்தில் மணிநேரத்தில் மணி_நேரமாக மணி_நேரத்துக்கு மணி_நேரத்திற்கு மணி_நேரமும் மணி_நேரத்தை
      மணிநேரமாக மணிநேரத்துக்கு மணி_நேர மணிநேர`,
    minutes: "நிமிடம் நிமிடங்கள் நிமிஷம் நிமிடத்தில் நிமிடங்களில் நிமிஷத்தில் நிமிட நிமிடத்திற்கு நிமிடமாக",
    seconds: "வினாடி விநாடி வினாடிகள் நொடி நொடிகள் செகண்ட்",
    days: "நாள் நாட்கள் நாள்கள் நாளில் நாட்களில் நாட்களுக்கு நாளைக்கு நாட்களாக நாளுக்கு",
    weeks: "வாரம் வாரங்கள் வாரத்தில் வாரங்களில்",
    months_long: "மாதம் மாதங்கள் மாதத்தில் மாசம் மாதங்களாக மாதங்களில் மாத",
    years: "வருடம் வருடங்கள் ஆண்டுகள் வருஷம் வருடத்தில் ஆண்டுகளில் ஆண்டுகளாக வருடங்களாக வருடங்களில்",
    unit: `கிலோ கிலோகிராம் கிராம் கிலோமீட்டர் கிலோமீட்டருக்கு கி_மீ மீட்டர் சென்டிமீட்டர் லிட்டர் மில்லி மில்லிலிட்டர் டன் குவிண்டால்
      ஏக்கர் சென்ட் அடி அங்குலம் இன்ச் டிகிரி சதுர_அடி சவரன் பவுன் மைல் யூனிட் வோல்ட் வாட் ஜிபி`,
    double: "டபுள் டபிள் இரட்டை",
    triple: "ட்ரிபிள் டிரிபிள் ட்ரிப்பிள்",
    plus: "ப்ளஸ் பிளஸ் கூட்டல்",
    minus: "மைனஸ் கழித்தல்",
    over: "பை",
    range: "முதல்",
    time_cue: "காலை மாலை இரவு மதியம் பிற்பகல் காலையில் மாலையில் இரவில்",
    year_cue: "ஆண்டு வருடம் வருஷம்",
    code_cue: `கார்டின் இலக்கம் இலக்கங்கள் குறியீடு குறியீட்டு எண் நம்பர் கோட் கோடு ஓடிபி ஓ_டி_பி பின் பின்கோடு அஞ்சல் கணக்கு அக்கவுண்ட் கார்டு பில் டிக்கெட் பதிவு
      ரசீது கடவுச்சொல் டோக்கன் ரோல் நுகர்வோர் குறியீட்டெண் எண்ணை எண்ணில் நம்பரை நம்பருக்கு`,
    phone_cue: "போன் ஃபோன் மொபைல் தொலைபேசி கைபேசி அலைபேசி செல் செல்போன் வாட்ஸ்அப் அழைக்க அழையுங்கள்",
    aadhaar_cue: "ஆதார்",
    pan_cue: "பான்",
    vehicle_cue: "வண்டி வாகனம் வாகன கார் பைக் லாரி பஸ்",
    label: "அறை பக்கம் பிளாட்பாரம் பிளாட்பார்ம் நடைமேடை அத்தியாயம் பாடம் வார்டு கேள்வி பிரிவு எண் நம்பர் ரூம் அட்டவணை",
    house: "வீட்டு வீடு கதவு பிளாட் மனை",
  },
  idioms: [
    ["நூறு_முறை நூறு_தடவை ஆயிரம்_முறை ஆயிரம்_தடவை", "very often"],
    ["நூற்றுக்கு_நூறு", "wholly"],
    ["ஆயிரம்_காலத்துப்_பயிர் ஆயிரம்_காலத்து_பயிர்", "proverb"],
    ["பத்தோடு_பதினொன்று பத்தோடு_பதினொண்ணு", "one more of many"],
    ["ஏழரை_சனி ஏழரைச்_சனி ஏழரை_நாட்டு_சனி ஏழரை_நாட்டுச்_சனி", "Saturn's seven and a half years"],
    ["முப்பத்து_முக்கோடி முப்பத்துமுக்கோடி", "all gods"],
    ["அறுபதாம்_கல்யாணம்", "a feast"],
    ["பத்து_பாத்திரம்", "dishes"],
    ["பத்து_பொருத்தம்", "horoscopes that match"],
    ["நாற்பதிலும்_நாய்க்குணம் ஐம்பதிலும்_ஆசை_வரும்", "sayings"],
  ],
  ownDigits: "௦௧௨௩௪௫௬௭௮௯",
  also: [ENGLISH_IN_TAMIL, ENGLISH],
};
