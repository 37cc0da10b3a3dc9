import { describe, expect, test } from "bun:test";
import { LANGUAGES } from "../domain/languages.ts";
import { applyScript, normalizeForScripts } from "./apply-script.ts";
import { scriptRefusal } from "./offered.ts";

/** Sentences of everyday use, in all languages that have Latin letters. */
const SENTENCES: readonly (readonly [language: string, text: string, latin: string])[] = [
  ["as", "মই অসমত থাকোঁ।", "moi osmot thakon."],
  ["bn", "আমি তোমাকে ভালোবাসি। তুমি কেমন আছো?", "ami tomake bhalobasi. tumi kemon acho?"],
  ["brx", "आंनि मुङा राम।", "aanni muna raam."],
  ["doi", "मेरा नां राम ऐ।", "mera nan raam ai."],
  ["en", "My name is Ram", "My name is Ram"],
  ["gu", "તમારું નામ શું છે? મજામાં!", "tamaaru naam shu chhe? majaamaa!"],
  ["hi", "नमस्ते, डॉक्टर दस मिनट में स्टेशन आएँगे।", "namaste, doctor das minute mein station aayenge."],
  [
    "hi",
    "लड़का समझदार है, पर ज़िंदगी की किताब ख़रीदनी है।",
    "ladka samajhdar hai, par zindagi ki kitab kharidni hai.",
  ],
  ["hi", "भारतीय संस्कृति में अनुमति, सरगम और उपकरण १२", "bhartiya sanskriti mein anumati, sargam aur upkaran 12"],
  ["kn", "ನಾನು ಬೆಂಗಳೂರಿನಲ್ಲಿ ವಾಸಿಸುತ್ತೇನೆ.", "naanu bengalurinalli vaasisuttene."],
  ["kok", "म्हजें नाम राम.", "mhajen nam ram."],
  ["mai", "हमर नाम राम अछि।", "hamar naam raam achhi."],
  ["ml", "ഞാൻ കേരളത്തിൽ താമസിക്കുന്നു.", "njaan keralathil thaamasikkunnu."],
  ["mni", "ꯑꯩꯒꯤ ꯃꯤꯡ ꯔꯥꯝꯅꯤ꯫", "eigi ming ramni."],
  ["mr", "मी पुण्यात राहतो, रेल्वे स्टेशन जवळ.", "mi punyat rahto, railway station javal."],
  ["ne", "म काठमाडौंमा बस्छु।", "ma kathmadaunma baschhu."],
  ["or", "ମୋର ନାମ ରାମ।", "mora nama rama."],
  ["pa", "ਮੇਰਾ ਨਾਮ ਰਾਮ ਹੈ ਤੇ ਮੈਂ ਪੰਜਾਬ ਵਿੱਚ ਹਾਂ।", "mera naam raam hai te main punjab vich han."],
  ["sa", "रामः वनं गच्छति।", "raamah vanam gachchhati."],
  ["sat", "ᱤᱧᱟᱜ ᱧᱩᱛᱩᱢ ᱨᱟᱢ ᱠᱟᱱᱟ᱾", "inyag nyutum ram kana."],
  ["ta", "நான் சென்னையில் வசிக்கிறேன்.", "naan sennaiyil vasikkiren."],
  ["te", "నేను హైదరాబాద్‌లో ఉంటాను.", "nenu haidaraabaadlo untaanu."],
];

describe("Latin letters as people type them", () => {
  test.each(SENTENCES)("%s: %s", (language, text, latin) => {
    const written = applyScript(normalizeForScripts(text, language), { language, script: "latin" });
    expect(written).toEqual({ text: latin, spans: [] });
  });

  test("every language that is offered them has a sentence here", () => {
    const offered = LANGUAGES.filter(({ code }) => scriptRefusal(code, "latin") === undefined);
    const tried = new Set(SENTENCES.map(([language]) => language));
    expect(offered.map(({ code }) => code).filter((code) => !tried.has(code))).toEqual([]);
  });

  test("stretches of the text are found again", () => {
    const spans = [{ start: 3, end: 13, kind: "money" }];
    const written = applyScript("घर ₹12,50,000 का", { language: "hi", script: "latin" }, spans);
    expect(written).toEqual({ text: "ghar ₹12,50,000 ka", spans: [{ start: 5, end: 15, kind: "money" }] });
  });
});
