/** Unicode names of scripts, for `\p{Script=…}`. */
export const SCRIPTS = [
  "Arabic",
  "Bengali",
  "Devanagari",
  "Gujarati",
  "Gurmukhi",
  "Kannada",
  "Latin",
  "Malayalam",
  "Meetei_Mayek",
  "Ol_Chiki",
  "Oriya",
  "Tamil",
  "Telugu",
] as const;
export type Script = (typeof SCRIPTS)[number];

export type Language = {
  /** ISO 639-1, else 639-3. */
  code: string;
  /** English name. */
  name: string;
  /** The name in the language itself. */
  nativeName: string;
  /** Scripts in which it is written; the first is the usual one. */
  scripts: readonly [Script, ...Script[]];
  /** Whisper's code for it. Absent when Whisper has none: then the model's manifest must name another code. */
  whisperCode?: string;
};

/**
 * English and the 22 languages of the Eighth Schedule to the Constitution of India. Scripts: Unicode CLDR's
 * supplemental data, and the state languages' official use. Whisper's codes: its tokenizer's table of 99 languages.
 */
export const LANGUAGES: readonly Language[] = [
  { code: "as", name: "Assamese", nativeName: "অসমীয়া", scripts: ["Bengali"], whisperCode: "as" },
  { code: "bn", name: "Bengali", nativeName: "বাংলা", scripts: ["Bengali"], whisperCode: "bn" },
  { code: "brx", name: "Bodo", nativeName: "बड़ो", scripts: ["Devanagari"] },
  { code: "doi", name: "Dogri", nativeName: "डोगरी", scripts: ["Devanagari"] },
  { code: "en", name: "English", nativeName: "English", scripts: ["Latin"], whisperCode: "en" },
  { code: "gu", name: "Gujarati", nativeName: "ગુજરાતી", scripts: ["Gujarati"], whisperCode: "gu" },
  { code: "hi", name: "Hindi", nativeName: "हिन्दी", scripts: ["Devanagari"], whisperCode: "hi" },
  { code: "kn", name: "Kannada", nativeName: "ಕನ್ನಡ", scripts: ["Kannada"], whisperCode: "kn" },
  { code: "kok", name: "Konkani", nativeName: "कोंकणी", scripts: ["Devanagari"] },
  { code: "ks", name: "Kashmiri", nativeName: "کٲشُر", scripts: ["Arabic", "Devanagari"] },
  { code: "mai", name: "Maithili", nativeName: "मैथिली", scripts: ["Devanagari"] },
  { code: "ml", name: "Malayalam", nativeName: "മലയാളം", scripts: ["Malayalam"], whisperCode: "ml" },
  { code: "mni", name: "Manipuri", nativeName: "ꯃꯩꯇꯩꯂꯣꯟ", scripts: ["Meetei_Mayek", "Bengali"] },
  { code: "mr", name: "Marathi", nativeName: "मराठी", scripts: ["Devanagari"], whisperCode: "mr" },
  { code: "ne", name: "Nepali", nativeName: "नेपाली", scripts: ["Devanagari"], whisperCode: "ne" },
  { code: "or", name: "Odia", nativeName: "ଓଡ଼ିଆ", scripts: ["Oriya"] },
  { code: "pa", name: "Punjabi", nativeName: "ਪੰਜਾਬੀ", scripts: ["Gurmukhi"], whisperCode: "pa" },
  { code: "sa", name: "Sanskrit", nativeName: "संस्कृतम्", scripts: ["Devanagari"], whisperCode: "sa" },
  { code: "sat", name: "Santali", nativeName: "ᱥᱟᱱᱛᱟᱲᱤ", scripts: ["Ol_Chiki", "Devanagari"] },
  { code: "sd", name: "Sindhi", nativeName: "سنڌي", scripts: ["Arabic", "Devanagari"], whisperCode: "sd" },
  { code: "ta", name: "Tamil", nativeName: "தமிழ்", scripts: ["Tamil"], whisperCode: "ta" },
  { code: "te", name: "Telugu", nativeName: "తెలుగు", scripts: ["Telugu"], whisperCode: "te" },
  { code: "ur", name: "Urdu", nativeName: "اردو", scripts: ["Arabic"], whisperCode: "ur" },
];

const BY_CODE = new Map(LANGUAGES.map((language) => [language.code, language]));

/** Finds the language of a code; undefined: the program does not know it. */
export function languageOf(code: string): Language | undefined {
  return BY_CODE.get(code);
}
