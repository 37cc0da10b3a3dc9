import type { WrittenTable } from "../types.ts";
import { ENGLISH } from "./en.ts";
import { ENGLISH_IN_DEVANAGARI } from "./english-in-devanagari.ts";

const DIGITS: readonly string[] = "से नै थाम ब्रै बा द' स्नि दाइन गु".split(" ");
const TENS: readonly string[] = "जि नैजि थामजि ब्रैजि बाजि दजि स्निजि दाइनजि गुजि".split(" ");

/** Makes the words of 10 to 99: a ten and a digit in one word. द' may lose its sign. */
const twoDigits = TENS.flatMap((ten) => [
  ten,
  ...DIGITS.map((digit) =>
    digit.endsWith("'") ? `${ten}${digit} ${ten}${digit.slice(0, -1)}` : ten + digit,
  ),
]);

/** Says so many hundreds or thousands, with the number after or before: जौनै, नैजौ. */
const many = (scale: string, size: number): Record<number, string> =>
  Object.fromEntries(
    DIGITS.map((digit, at) => {
      const plain = digit.replace("'", "");
      return [(at + 1) * size, `${scale}${digit} ${scale}${plain} ${plain}${scale}`];
    }),
  );

/** Bodo. Source of 0 to 99: AI4Bharat's indic-numtowords 1.1.0. Numbers with a classifier before them, such as सासे, are not known: they stay. */
export const BODO: WrittenTable = {
  units: ["लाथिख लाथिखʼ", ...DIGITS.map((digit) => (digit === "द'" ? "द' द" : digit)), ...twoDigits],
  scales: { 100: "जौ", 1000: "रोजा", 1e5: "लाख", 1e7: "कौटि क्रर" },
  values: { ...many("जौ", 100), ...many("रोजा", 1000) },
  months: [
    "जानुवारी",
    "फेब्रुवारी",
    "मार्स मार्च",
    "एप्रिल",
    "मे",
    "जुन",
    "जुलाइ",
    "आगष्ट",
    "सेप्तेम्बर",
    "अक्टबर",
    "नवेम्बर",
    "डिसेम्बर",
  ],
  roles: {
    and: "आरो",
    point: "दशमिक",
    percent: "जौखोन्दो पारसेन्ट",
    rupees: "रां टाका",
    paise: "फैसा पैसा",
    oclock: "रिंगायाव रिंगा",
    hours: "घन्टा",
    minutes: "मिनिट",
    days: "सान",
    months_long: "दान",
    years: "बोसोर",
    unit: "किलो केजि लिटार मिटार किलमिटार बिघा",
    year_cue: "माइथाइ",
    code_cue: "नम्बर कड",
    phone_cue: "फन मबाइल",
    label: "खथा बिलाइ नम्बर",
    house: "न'",
    doubtful: "से नै",
    company: "द द' बा गु मे जि थाम नै से",
  },
  ownDigits: "०१२३४५६७८९",
  also: [ENGLISH_IN_DEVANAGARI, ENGLISH],
};
