/**
 * Urdu letters into Devanagari, for Hindi. The two are one spoken language in two scripts, and models that have heard more
 * Urdu write Hindi in Urdu letters. Urdu leaves most short vowels out and has one letter for several long ones, so a text
 * becomes what it sounds like, and common words have their spelling from a list.
 */

const CONSONANTS: Readonly<Record<string, string>> = {
  ...{ ب: "ब", پ: "प", ت: "त", ٹ: "ट", ث: "स", ج: "ज", چ: "च", ح: "ह", خ: "ख", د: "द", ڈ: "ड", ذ: "ज" },
  ...{ ر: "र", ڑ: "ड़", ز: "ज", ژ: "झ", س: "स", ش: "श", ص: "स", ض: "ज", ط: "त", ظ: "ज", غ: "ग", ف: "फ" },
  ...{ ق: "क", ک: "क", گ: "ग", ل: "ल", م: "म", ن: "न", ہ: "ह", ھ: "ह" },
};
/** Consonants with the letter of breath behind them. */
const ASPIRATED: Readonly<Record<string, string>> = {
  ...{ ब: "भ", प: "फ", त: "थ", ट: "ठ", ज: "झ", च: "छ", द: "ध", ड: "ढ", ड़: "ढ़", क: "ख", ग: "घ" },
};
const MARKS: Readonly<Record<string, string>> = { "۔": "।", "،": ",", "؟": "?", "؛": ";" };
/** Letters that Arabic keyboards write differently. */
const SAME: Readonly<Record<string, string>> = {
  ي: "ی",
  ى: "ی",
  ك: "ک",
  ه: "ہ",
  ة: "ہ",
  ۀ: "ہ",
  أ: "ا",
  إ: "ا",
};
/** Marks of short vowels, which few texts have, and joiners. */
const DROPPED = /[\u064B-\u0655\u0670\u0640\u200C\u200D]/gu;

/** Common words, whose sound Urdu letters do not tell. */
const WORDS: Readonly<Record<string, string>> = Object.fromEntries(
  `ہے है ہیں हैं ہوں हूँ ہو हो تھا था تھی थी تھے थे تھیں थीं کا का کے के کی की کو को نے ने سے से میں में پر पर تک तक
  اور और یا या کہ कि کیا क्या کیوں क्यों کون कौन کب कब کہاں कहाँ کیسے कैसे کچھ कुछ کوئی कोई کسی किसी یہ यह وہ वह یہی यही وہی वही
  یہاں यहाँ وہاں वहाँ اس उस ان उन اسے उसे انہیں उन्हें اسکے उसके اسکا उसका اسکی उसकी انکی उनकी انکے उनके انکا उनका
  اسی उसी انہی उन्ही انہوں उन्होंने میرا मेरा میری मेरी میرے मेरे مجھے मुझे مجھ मुझ ہم हम ہمیں हमें ہمارا हमारा ہماری हमारी
  ہمارے हमारे تم तुम تمہارا तुम्हारा آپ आप آپکا आपका آپکی आपकी آپکے आपके اپنا अपना اپنی अपनी اپنے अपने نہیں नहीं نہ न مت मत
  ایک एक دو दो تین तीन چار चार پانچ पाँच چھ छह سات सात آٹھ आठ نو नौ دس दस سو सौ ہزار हज़ार لاکھ लाख
  بہت बहुत بھی भी ہی ही تو तो جو जो جب जब تب तब اب अब پھر फिर اگر अगर لیکن लेकिन مگر मगर لیے लिए لئے लिए ساتھ साथ بعد बाद
  پہلے पहले اوپر ऊपर نیچے नीचे اندر अंदर باہر बाहर پاس पास دن दिन رات रात گھر घर کر कर کرنا करना کرتے करते کرتا करता کرتی करती
  کرے करे کریں करें گیا गया گئی गई گئے गए گی गी گا गा گے गे دیا दिया دی दी دیے दिए لیا लिया لی ली لے ले دے दे
  رہا रहा رہی रही رہے रहे ہوا हुआ ہوئی हुई ہوی हुई ہوئے हुए ہوے हुए ہوتا होता ہوتی होती ہوتے होते جا जा جاتا जाता جاتی जाती
  جاتے जाते آیا आया آئی आई آئے आए جانے जाने کہا कहा کہتا कहता کہتے कहते کہتی कहती بولے बोले دیکھ देख دیکھو देखो دیکھا देखा
  دیکھکر देखकर لیکر लेकर سکا सका سکی सकी سکے सके سکتا सकता سکتے सकते سکتی सकती چلا चला چلی चली چلے चले لگا लगा
  لگی लगी لگے लगे لگتا लगता والا वाला والی वाली والے वाले سب सब بات बात باتیں बातें کام काम لوگ लोग لوگوں लोगों جی जी صاحب साहब
  چاہیے चाहिए چاہتا चाहता گیان ज्ञान طرح तरह طرف तरफ وقت वक्त`
    .match(/\S+ +\S+/gu)
    ?.map((pair) => pair.split(/ +/u)) ?? [],
);

/** Rewrites all words in Urdu letters, and leaves the others as they are. */
export function devanagariOfUrdu(text: string): string {
  return text
    .replace(/[۔،؟؛]/gu, (mark) => MARKS[mark] ?? mark)
    .replace(/\p{Script_Extensions=Arabic}[\p{Script_Extensions=Arabic}\u200C\u200D]*/gu, (word) => {
      const letters = [...word.normalize("NFC").replace(DROPPED, "")].map((letter) => SAME[letter] ?? letter);
      return WORDS[letters.join("")] ?? spell(letters);
    });
}

function spell(letters: readonly string[]): string {
  let word = "";
  /** Whether the word ends in a consonant without the sign of a vowel. */
  let isBare = false;
  for (const [at, letter] of letters.entries()) {
    const consonant = CONSONANTS[letter];
    if (letter === BREATH && isBare) {
      const last = word.endsWith("ड़") ? "ड़" : word.slice(-1);
      word = word.slice(0, word.length - last.length) + (ASPIRATED[last] ?? `${last}ह`);
    } else if (consonant !== undefined) {
      word += consonant;
      isBare = true;
    } else {
      const next = letters[at + 1];
      const around: Surroundings = { isFirst: word === "", isBare, next };
      const sound: Sound = SOUNDS[letter]?.(around) ?? { text: /\p{Nd}/u.test(letter) ? letter : "" };
      word += sound.text;
      isBare = sound.isBare ?? false;
    }
  }
  return word;
}

/** The letter of breath. */
const BREATH = "ھ";
const VOWELS = new Set(["ا", "آ", "و", "ی", "ے"]);

type Surroundings = { isFirst: boolean; isBare: boolean; next: string | undefined };
/** What a letter sounds like at its place. `isBare`: it is a consonant there. */
type Sound = { text: string; isBare?: boolean };

/** Writes a vowel as a sign after a consonant, and elsewhere as a letter. */
const signOr =
  (sign: string, letter: string) =>
  ({ isBare }: Surroundings): Sound => ({ text: isBare ? sign : letter });

/** Letters that are vowels, or consonants that are written like one. */
const SOUNDS: Readonly<Record<string, (around: Surroundings) => Sound>> = {
  آ: signOr("ा", "आ"),
  ا: (around) => {
    if (!around.isFirst) return signOr("ा", "आ")(around);
    // Before a vowel it only carries it.
    return { text: around.next === "ی" || around.next === "و" ? "" : "अ" };
  },
  ع: (around) => (around.isFirst ? { text: "अ" } : signOr("ा", "")(around)),
  و: (around) => {
    const isConsonant = around.isFirst || (around.next !== undefined && VOWELS.has(around.next));
    return isConsonant ? { text: "व", isBare: true } : signOr("ो", "ओ")(around);
  },
  ی: (around) => {
    if (around.isFirst) return { text: "य", isBare: true };
    if (around.next === "ا" || around.next === "و") return { text: around.isBare ? "िय" : "य", isBare: true };
    if (around.next === "ں") return signOr("े", "ए")(around);
    return signOr("ी", around.next === undefined ? "ई" : "ए")(around);
  },
  ے: signOr("े", "ए"),
  ؤ: signOr("ो", "ओ"),
  ں: () => ({ text: "ं" }),
};
