import { describe, expect, test } from "bun:test";
import { applyScript, normalizeForScripts } from "./apply-script.ts";

/** Names and words whose spelling after ISO 15919:2001 is in grammars and catalogues. */
const WORDS: readonly (readonly [language: string, text: string, latin: string])[] = [
  ["hi", "हिन्दी", "hindī"],
  ["hi", "ज़िंदगी, बड़ा, पढ़ाई", "ziṁdagī, baṛā, paṛhāī"],
  ["hi", "ख़बर, ग़रीब, क़लम, फ़र्श", "k͟habara, ġarība, qalama, farśa"],
  ["hi", "हँसी, ऑफ़िस, बैंक", "ham̐sī, ôfisa, baiṁka"],
  ["hi", "कई, बाइबल, नहीं।", "kaī, bāibala, nahīṁ."],
  ["hi", "कइ, अउ, क्हा", "ka:i, a:u, k:hā"],
  ["sa", "संस्कृतम्, रामः, ज्ञानम्, सोऽहम्, पितॄन्", "saṁskr̥tam, rāmaḥ, jñānam, sō’ham, pitr̥̄n"],
  ["mr", "मराठी, कळ, ॲप", "marāṭhī, kaḷa, êpa"],
  ["bn", "বাংলা, পড়া, হয়, উৎসব", "bāṁlā, paṛā, haẏa, utsaba"],
  ["pa", "ਪੰਜਾਬੀ, ਅੱਖ, ਸਿੱਖ, ਸ਼ੇਰ, ਮੈਂ", "paṃjābī, akkha, sikkha, śēra, maiṁ"],
  ["gu", "ગુજરાતી, ઑફિસ", "gujarātī, ôphisa"],
  ["or", "ଓଡ଼ିଆ", "ōṛiā"],
  ["ta", "தமிழ், அவன், பற்று, அஃது, எழுத்து", "tamiḻ, avaṉ, paṟṟu, aḵtu, eḻuttu"],
  ["te", "తెలుగు, ఎఱ్ఱ", "telugu, eṟṟa"],
  ["kn", "ಕನ್ನಡ, ಹಳೆಯ, ಬೆಂಗಳೂರು", "kannaḍa, haḷeya, beṁgaḷūru"],
  ["ml", "മലയാളം, അവൻ, വാഴ, എന്റെ", "malayāḷaṁ, avan, vāḻa, enṟe"],
  ["hi", "१२३ 45", "123 45"],
];

describe("ISO 15919", () => {
  test.each(WORDS)("%s: %s", (language, text, latin) => {
    const written = applyScript(normalizeForScripts(text, language), { language, script: "iso15919" });
    expect(written).toEqual({ text: latin.normalize("NFC"), spans: [] });
  });
});
