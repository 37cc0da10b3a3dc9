import type { SchwaWay } from "./schwas.ts";

/** How one language is written in Latin letters as people type it. The letters are phonemes of `phonemes.ts`. */
export type LatinRules = {
  /** Which of the vowels that are not written are not spoken either. */
  schwas: SchwaWay;
  /** Spellings of phonemes that differ from `USUAL`. */
  letters: Readonly<Record<string, string>>;
  /** Changes of phonemes before vowels are dropped, in order. */
  before?: readonly (readonly [pattern: string, replacement: string])[];
  /** Changes of phonemes before they are spelled, in order. `C` and `V` are any consonant and vowel, `B` and `E` the bounds of a word. */
  sounds?: readonly (readonly [pattern: string, replacement: string])[];
  /** Changes of the Latin letters, in order. */
  spellings?: readonly (readonly [pattern: string, replacement: string])[];
  /** Frequent words whose spelling is a custom. */
  words: Readonly<Record<string, string>>;
};

/** Spellings that most languages share. */
export const USUAL: Readonly<Record<string, string>> = {
  ...{ अ: "a", आ: "a", इ: "i", ई: "i", उ: "u", ऊ: "u", ऋ: "ri", ॠ: "ri", ऌ: "li", ॡ: "li", ə: "a" },
  ...{ ऍ: "e", ऎ: "e", ए: "e", ऐ: "ai", ऑ: "o", ऒ: "o", ओ: "o", औ: "au", ॲ: "a" },
  ...{ "\u0973": "a", "\u0974": "aa", "\u0975": "o", "\u0976": "i", "\u0977": "u" },
  ...{ क: "k", ख: "kh", ग: "g", घ: "gh", ङ: "n", च: "ch", छ: "chh", ज: "j", झ: "jh", ञ: "n" },
  ...{ ट: "t", ठ: "th", ड: "d", ढ: "dh", ण: "n", त: "t", थ: "th", द: "d", ध: "dh", न: "n", ऩ: "n" },
  ...{ प: "p", फ: "ph", ब: "b", भ: "bh", म: "m", य: "y", र: "r", ऱ: "r", ल: "l", ळ: "l", ऴ: "zh", व: "v" },
  ...{ श: "sh", ष: "sh", स: "s", ह: "h" },
  ...{ "\u0958": "q", "\u0959": "kh", "\u095A": "g", "\u095B": "z", "\u095C": "d", "\u095D": "dh", "\u095E": "f", "\u095F": "y" },
  ...{ "ँ": "n", "ऀ": "n", "ं": "n", "ः": "h", "ऽ": "", "ॐ": "om", "॰": ".", "।": ".", "॥": "." },
  ...{ "\u200C": "", "\u200D": "", "़": "" },
  ...{ "०": "0", "१": "1", "२": "2", "३": "3", "४": "4", "५": "5", "६": "6", "७": "7", "८": "8", "९": "9" },
};

/** A boundary within a compound, where a word may end. It is not written. */
const SEAM = "+";

const HINDI: LatinRules = {
  schwas: "hindi",
  letters: { फ: "f" },
  before: [
    ["(?<=C[ə])(सəभआ|पəतइ|परइयə|पऊरणə|कआरई?|दआरई?|वआदई?|वआलऍ?|भəर|विदयआलəयə?|शआलआ|पआलइकआ)E", `${SEAM}$1`],
    ["जञ", "गय"],
    ["əंE", "əम"],
    ["ं(?=[पफबभ])", "म"],
    ["(?<=[इई])यəE", "यअ"],
  ],
  sounds: [
    ["(?<=[अआइई])ए", "यए"],
    ["(?<=[सशदख\u0959])व", "w"],
    ["आंवE", "aon"],
    ["Bआ", "aa"],
    ["(?<=BC)आ(?=(?![यव])CE)", "aa"],
  ],
  spellings: [
    ["chchh", "cch"],
    ["chch", "cch"],
    ["\\+", ""],
  ],
  words: {
    ...{ में: "mein", मैं: "main", हैं: "hain", नहीं: "nahi", यह: "yeh", वह: "woh", ये: "ye", वे: "ve", हाँ: "haan", हां: "haan" },
    ...{ क्या: "kya", क्यों: "kyon", माँ: "maa", मां: "maa", पाँच: "paanch", पांच: "paanch", ठीक: "theek", जबकि: "jabki", बल्कि: "balki" },
    ...{ वाला: "wala", वाले: "wale", वाली: "wali", वालों: "walon", फिर: "phir", फूल: "phool", फल: "phal", अच्छा: "accha", गाँव: "gaon", गांव: "gaon" },
    ...{ दूध: "doodh", दूर: "door", खूब: "khoob", ख़ूब: "khoob", झूठ: "jhooth", भूख: "bhookh", भूल: "bhool", धूप: "dhoop", जून: "june", पूरा: "poora", पूछा: "poocha" },
    ...{ तीन: "teen", बीस: "bees", चीज: "cheez", चीज़: "cheez", गीत: "geet", मीठा: "meetha", नींद: "neend", सीख: "seekh", बीच: "beech", पीछे: "peeche", नीचे: "neeche", नीला: "neela" },
    ...{ डॉ: "dr", राम: "ram", खान: "khan", ख़ान: "khan", न: "na", व: "va", कि: "ki", शुक्रिया: "shukriya", कृपया: "kripya" },
  },
};

const SOUTHERN_VOWELS = { आ: "aa", ई: "ee", ऊ: "oo" };

export const LATIN_RULES: Readonly<Record<string, LatinRules>> = {
  hi: HINDI,
  mr: {
    ...HINDI,
    schwas: "marathi",
    letters: { फ: "f", ऋ: "ru", झ: "jh" },
    before: [
      ["जञ", "दनय"],
      ["ं(?=[पफबभ])", "म"],
      ["(?<=[इई])यəE", "यअ"],
    ],
    sounds: [["(?<=[सशख])व", "w"]],
  },
  pa: {
    ...HINDI,
    letters: { फ: "f" },
    before: [
      ["ं(?=[पफबभ])", "म"],
      ["əहइ", "एह"],
      ["B(C?)इह", "$1एह"],
      ["B(C?)उह", "$1ओह"],
      ["ऊंE", "ऊ"],
    ],
    sounds: [
      ["(?<=[अआइईएओ])इआ", "यआ"],
      ["(?<=C)([इई])आ", "$1यआ"],
      ["(?<=[अआइई])ए", "यए"],
      ["च(?=[चछ])|ट(?=ठ)|क(?=ख)|त(?=थ)|प(?=फ)|ग(?=घ)|द(?=ध)|ज(?=झ)|ब(?=भ)|ड(?=ढ)", ""],
      ["Bआ", "aa"],
      ["(?<=BC)आ(?=CE)", "aa"],
    ],
    words: {
      ...{ ਗਿਆ: "gaya", ਪੰਜਾਬ: "punjab", ਪੰਜਾਬੀ: "punjabi", ਉਨ੍ਹਾਂ: "ohna", ਉਹਨਾਂ: "ohna", ਇਨ੍ਹਾਂ: "ehna", ਇਹਨਾਂ: "ehna", ਜਿਨ੍ਹਾਂ: "jinha" },
      ...{ ਆਪਣਾ: "apna", ਆਪਣੀ: "apni", ਆਪਣੇ: "apne", ਵਾਲਾ: "wala", ਵਾਲੇ: "wale", ਵਾਲੀ: "wali", ਨਹੀਂ: "nahi", ਹੈ: "hai", ਹਨ: "han" },
      ...{ ਚ: "ch", ਮਾਂ: "maa", ਸ਼ਹਿਰ: "shehar", ਤਰ੍ਹਾਂ: "tarah", ਕਿਵੇਂ: "kiven", ਕੀ: "ki", ਫਿਰ: "phir", ਠੀਕ: "theek", ਤਿੰਨ: "tinn" },
      ...{ ਫਿਲਮ: "film", ਫ਼ਿਲਮ: "film", ਵੀਰ: "veer", ਦੂਜਾ: "dooja", ਦੂਰ: "door", ਪੂਰਾ: "poora" },
    },
  },
  gu: {
    ...HINDI,
    letters: { आ: "aa", फ: "f", ऋ: "ru" },
    before: [
      ["जञ", "गन"],
      ["(?<=V)[ंँ]E", ""],
      ["ं(?=[पफबभ])", "म"],
      ["(?<=[इई])यəE", "यअ"],
    ],
    sounds: [
      ["(?<=[सशख])व", "w"],
    ],
    words: { અને: "ane", હું: "hu", છે: "chhe", ના: "na", આ: "aa", ગુજરાત: "gujarat", ગુજરાતી: "gujarati" },
  },
  bn: {
    schwas: "bengali",
    letters: { अ: "o", ə: "o", ऐ: "oi", औ: "ou", "\u095C": "r", "\u095D": "rh", छ: "ch", य: "j", फ: "f", ङ: "ng", "ं": "ng", व: "w" },
    before: [
      ["Bअ्?यआ", "आ"],
      ["[ओउ]\u095Fआ", "ओwआ"],
      ["Bकष", "ख"],
      ["कष", "कख"],
      ["Bजञ", "ग"],
      ["जञ", "गग"],
      ["(?<=[VC])नय", "नन"],
      ["(?<=[VC])धय", "दध"],
      ["(?<=र)य", "ज"],
      ["(?<=BC)यə", "yआ"],
      ["(?<=C)य", "y"],
      ["(?<=[सश]|Bद)ब", "w"],
      ["(?<=छइल|इत|ई\u095F)əE", "अ"],
      ["əओ", "ओ"],
      ["əइE", "इ"],
    ],
    sounds: [
      ["ँ(?=[चछजटठडदतथकगपब])", "न"],
      ["ँ", ""],
    ],
    spellings: [
      ["chch", "cch"],
      ["ngg", "ng"],
    ],
    words: {
      ...{ হল: "holo", হলো: "holo", কোন: "kon", কোনো: "kono", ছোট: "choto", বড়: "boro", মত: "moto", মতো: "moto", ভাল: "bhalo", ভালো: "bhalo", যত: "joto", কত: "koto", এত: "eto", তত: "toto" },
      ...{ সরকার: "sarkar", ব্যবহার: "byabohar", ভারত: "bharat", ভারতের: "bharater", ভারতীয়: "bharatiyo", তাঁকে: "take", তাঁর: "tar", তাহলে: "tahole" },
      ...{ এক: "ek", একটা: "ekta", দুই: "dui", তিন: "tin", পাঁচ: "panch", ছয়: "choy", যেন: "jeno", কেন: "keno", যখন: "jokhon", কলকাতা: "kolkata" },
      ...{ যাব: "jabo", করব: "korbo", দেব: "debo", হব: "hobo", খাব: "khabo", বলব: "bolbo", আসব: "asbo", পারব: "parbo", থাকব: "thakbo", নেব: "nebo" },
    },
  },
  ta: {
    schwas: "spoken",
    letters: { ...SOUTHERN_VOWELS, त: "th", च: "s", "ः": "h" },
    sounds: [
      ["ःप", "f"],
      ["कष", "ksh"],
      ["शरई", "sri"],
      ["कक", "kk"],
      ["टट", "tt"],
      ["चच", "cch"],
      ["तत", "th"],
      ["पप", "pp"],
      ["ऱऱ", "tr"],
      ["ऩऱ", "ndr"],
      ["ङक", "ng"],
      ["ञच", "nj"],
      ["ञञ", "nj"],
      ["ञ", "nj"],
      ["(?<=[टऱ])क", "k"],
      ["(?<=[टऱ])च", "ch"],
      ["(?<=[टऱ])प", "p"],
      ["(?<=[VC])क(?!E)", "g"],
      ["(?<=[VC])प(?!E)", "b"],
      ["(?<=[VC])ट(?!C|[a-z])", "d"],
      ["य(?=C|[a-z]|E)", "i"],
    ],
    spellings: [["iy(?=[^aeiou])", "i"]],
    words: { தமிழ்: "tamil", சென்னை: "chennai", இந்தியா: "india", ஸ்ரீ: "sri", அம்மா: "amma", அப்பா: "appa" },
  },
  te: {
    schwas: "spoken",
    letters: { ...SOUTHERN_VOWELS, ऊ: "u", ऋ: "ru", श: "s", फ: "f" },
    before: [
      ["जञ", "गन"],
      ["ं(?=[पफबभमयरलवशषसह]|E)", "म"],
    ],
    sounds: [
      ["(?<=C)ईE", "इ"],
      ["शरई", "sri"],
      ["शE", "sh"],
    ],
    spellings: [["chch", "cch"]],
    words: { కూడా: "kooda", కృష్ణ: "krishna", స్త్రీ: "stree", ఆంధ్ర: "andhra", తెలంగాణ: "telangana" },
  },
  kn: {
    schwas: "spoken",
    letters: { ...SOUTHERN_VOWELS, ऊ: "u", ऋ: "ru", फ: "f" },
    before: [
      ["जञ", "जन"],
      ["ं(?=[पफबभमयरलवशषसह]|E)", "म"],
    ],
    sounds: [["(?<=C)ईE", "इ"]],
    spellings: [["chch", "cch"]],
    words: {},
  },
  ml: {
    schwas: "spoken",
    letters: { ...SOUTHERN_VOWELS, त: "th", थ: "th", फ: "f", ऴ: "zh" },
    before: [
      ["ं(?=[पफबभमयरलवशषसह]|E)", "म"],
    ],
    sounds: [
      ["जञ", "jn"],
      ["ऱऱ", "tt"],
      ["(?<=न)ऱ", "t"],
      ["ञञ", "nj"],
      ["ञ(?![चछज])", "nj"],
      ["ङङ", "ng"],
      ["चच", "ch"],
      ["तत|तथ", "th"],
      ["दद?ध", "dh"],
      ["टट", "tt"],
      ["(?<=[Vण])ट(?!C)", "d"],
      ["(?<=[सश])व", "w"],
    ],
    words: { ഇന്ത്യ: "india", ഇന്ത്യയിൽ: "indiayil", ഇന്ത്യയുടെ: "indiayude", അദ്ദേഹം: "adheham", ഇദ്ദേഹം: "idheham" },
  },
  as: {
    schwas: "bengali",
    letters: { अ: "o", ə: "o", ऐ: "oi", औ: "ou", "\u095C": "r", "\u095D": "rh", च: "s", छ: "s", य: "j", श: "x", ष: "x", स: "x", फ: "f", "ं": "ng", ङ: "ng", व: "w" },
    before: [
      ["कष", "ख"],
      ["जञ", "गय"],
      ["(?<=C)य", "y"],
    ],
    sounds: [["(?<=[शषस])(?=C)|[शषस](?=C)", "s"]],
    spellings: [["ss", "s"]],
    words: {},
  },
  or: {
    schwas: "spoken",
    letters: { ऋ: "ru", य: "j", "\u095F": "y", "\u095C": "d", "\u095D": "dh", व: "w", "ं": "ng", फ: "ph" },
    before: [
      ["जञ", "गय"],
      ["ं(?=[पफबभ])", "म"],
      ["ं(?=C)", "न"],
      ["(?<=C)य", "y"],
    ],
    words: {},
  },
  ne: { ...HINDI, before: (HINDI.before ?? []).slice(1), words: { छ: "chha", छन्: "chhan", म: "ma", र: "ra", न: "na", नेपाल: "nepal" } },
  mai: { ...HINDI, words: { अछि: "achhi", छथि: "chhathi", हम: "ham" } },
  doi: { ...HINDI, words: {} },
  brx: { ...HINDI, words: {} },
  kok: { schwas: "marathi", letters: { फ: "f", ऋ: "ru" }, before: [["जञ", "गन"], ["ं(?=[पफबभ])", "म"]], spellings: [["chch", "cch"]], words: {} },
  sa: {
    schwas: "spoken",
    letters: { आ: "aa" },
    before: [
      ["जञ", "jn"],
      ["ं(?=[कखगघङचछजझञटठडढणतथदधन])", "न"],
      ["ं", "म"],
    ],
    words: {},
  },
  mni: { schwas: "spoken", letters: { ऐ: "ei", औ: "ou", च: "ch", छ: "ch", "ं": "ng", ङ: "ng", व: "w", "\u095F": "y" }, words: {} },
  sat: {
    schwas: "spoken",
    letters: { अ: "o", ə: "o", ङ: "ng", ञ: "ny", "\u095C": "r", "\u095D": "rh", "ँ": "n", ऑ: "o", ऍ: "e", व: "w", "़": "" },
    words: {},
  },
};
