/**
 * Public models for the 22 scheduled languages of India and for English, with what others have published of them
 * (docs/models.md section 1). None of the error rates was measured here, and their normalizations of text differ.
 */

/** Where a published error rate comes from. */
export type ErrorSource = {
  /** Who measured it, and where that can be read. */
  from: string;
  testSet: string;
  date: string;
  /** What could not be verified; left out: the page itself was read. */
  doubt?: string;
};

/** Word error rates of a model by language, in per cent, from one source. */
export type PublishedErrors = { source: ErrorSource; rates: Readonly<Record<string, number>> };

/**
 * What was measured here: random weights in the model's shape, the whole server on one core of an AMD EPYC (Zen 5), dense speech, mapped
 * files included (docs/engine.md section 11).
 */
export type MeasuredHere = { memoryBytes: number; timesRealTime: number };

export type PublishedModel = {
  name: string;
  title: string;
  languages: readonly string[];
  licence: string;
  /** Size of the files, as published and rounded. */
  bytes: number;
  /** Commands, or what to do. */
  obtain: string;
  /** Left out: it was not measured here. */
  measured?: MeasuredHere;
  /** The best source for a language comes first. Empty: no figure was found. */
  errors: readonly PublishedErrors[];
  /** Word error rate over all its languages together, in per cent, where that is published (`INDIC_600M_OVERALL`). */
  overallRate?: number;
};

/** The languages of the Constitution's eighth schedule. */
export const SCHEDULED_LANGUAGES: readonly string[] =
  "as bn brx doi gu hi kn kok ks mai ml mni mr ne or pa sa sat sd ta te ur".split(" ");

const VISTAAR: ErrorSource = {
  from: "README of AI4Bharat/vistaar",
  testSet: "FLEURS",
  date: "2023",
  doubt: "its two tables disagree for Hindi: 11.4 or 15.0",
};
const VISTAAR_KATHBATH: ErrorSource = {
  from: "README of AI4Bharat/vistaar",
  testSet: "Kathbath",
  date: "2023",
};
const STUDENT: ErrorSource = {
  from: "a student project's evaluation with sherpa-onnx 1.13.8",
  testSet: "FLEURS, 100 recordings of each language",
  date: "September 2026",
  doubt: "no confidence intervals",
};
const COLLECTED: ErrorSource = {
  from: "public reports",
  testSet: "FLEURS",
  date: "collected in 2026",
  doubt: "the source of each figure was not kept",
};
const HINDI_600M: ErrorSource = {
  from: "model card of Abhay-Verma031/indic-conformer-600m",
  testSet: "FLEURS, greedy, 32 bits",
  date: "date not given",
};
const LEADERBOARD: ErrorSource = {
  from: "results of the Open ASR Leaderboard in the repository nvidia/parakeet-tdt-0.6b-v2",
  testSet: "mean of the leaderboard's English sets",
  date: "2025-04-15",
};
const authorOf = (model: string): ErrorSource => ({
  from: `model card of vasista22/${model}, its authors`,
  testSet: "FLEURS test",
  date: "date not given",
});

/** The figure of IndicConformer-600M over all languages has no list by language, so it is not a rate of any of them. */
export const INDIC_600M_OVERALL =
  "IndicConformer-600M over 22 languages: 20.8 % with 32 bits, 20.5 % with 8 bits (264 recordings; model card of hazardscarn10/indic-conformer-600m-int8, date not given)";

const SMALL_16_BIT: MeasuredHere = { memoryBytes: 1.14e9, timesRealTime: 18.4 };
const MEDIUM_16_BIT: MeasuredHere = { memoryBytes: 2.56e9, timesRealTime: 6 };

const fineTune = (
  model: string,
  language: string,
  rate: number,
  bytes: number,
  measured?: MeasuredHere,
): PublishedModel => ({
  ...{
    name: model,
    title: `${model} (Speech Lab, IIT Madras)`,
    languages: [language],
    licence: "Apache-2.0",
    bytes,
  },
  ...(measured ? { measured } : {}),
  obtain: `shruti models fetch ${model} --accept-unverified; shruti models add ${model} --languages ${language}`,
  errors: [{ source: authorOf(model), rates: { [language]: rate } }],
});

export const PUBLISHED_MODELS: readonly PublishedModel[] = [
  {
    name: "indicconformer-600m-int8",
    title: "IndicConformer-600M (AI4Bharat), matrices of 8 bits",
    languages: SCHEDULED_LANGUAGES,
    licence: "MIT",
    bytes: 9.05e8,
    obtain:
      "shruti models fetch indicconformer-600m-int8 --accept-unverified; shruti models add indicconformer-600m-int8",
    measured: { memoryBytes: 9.75e8, timesRealTime: 33.4 },
    errors: [{ source: { ...HINDI_600M, doubt: "of the weights with 32 bits" }, rates: { hi: 12.7 } }],
    overallRate: 20.5,
  },
  {
    name: "indicconformer-600m",
    title: "IndicConformer-600M (AI4Bharat), 32 bits",
    languages: SCHEDULED_LANGUAGES,
    licence: "MIT",
    bytes: 2.5e9,
    obtain:
      "shruti models fetch indicconformer-600m --accept-unverified, or a clone of ai4bharat/indic-conformer-600m-multilingual, which asks for a form; then shruti models add",
    measured: { memoryBytes: 2.74e9, timesRealTime: 7.9 },
    errors: [{ source: HINDI_600M, rates: { hi: 12.7 } }],
    overallRate: 20.8,
  },
  {
    name: "indicconformer-120m-int8",
    title: "IndicConformer 120M (AI4Bharat), 8 bits",
    languages: SCHEDULED_LANGUAGES,
    licence: "MIT",
    bytes: 1.4e8,
    obtain:
      "export the .nemo file with scripts/models/indicconformer.py of the source, quantize it, then shruti models add",
    measured: { memoryBytes: 4.82e8, timesRealTime: 138 },
    errors: [
      {
        source: STUDENT,
        rates: { hi: 11.5, bn: 14.6, ta: 31.9, te: 21.8, mr: 19.8, gu: 19.6, kn: 17.4, ml: 23.4 },
      },
    ],
  },
  {
    name: "sravaani-1.0",
    title: "SraVaani 1.0, 430M (ARTPARK, IISc), TDT, 63 languages and dialects",
    languages: "as bn brx doi gu hi kn kok mai ml mni mr ne or pa sa sat sd ta te".split(" "),
    licence: "MIT",
    bytes: 9e8,
    obtain:
      "ARTPARK-IISc/SraVaani-1.0 at Hugging Face has 16-bit weights in a form of its own, which shruti does not take; shruti models add takes a .nemo file, which was asked for there and is not known to be published. Size and languages are those of the card of ARTPARK-IISc/SraVaani; no weights were tried",
    measured: { memoryBytes: 9.62e8, timesRealTime: 45.5 },
    errors: [
      {
        source: STUDENT,
        rates: { hi: 9.4, bn: 15.3, ta: 33, te: 21.1, mr: 19.2, gu: 19.5, kn: 18, ml: 19, or: 21.7 },
      },
    ],
  },
  {
    name: "parakeet-tdt-0.6b-v2",
    title: "Parakeet TDT 0.6B v2 (NVIDIA), English with punctuation",
    languages: ["en"],
    licence: "CC-BY-4.0",
    bytes: 2.43e9,
    obtain:
      "parakeet-tdt-0.6b-v2.nemo of nvidia/parakeet-tdt-0.6b-v2 at Hugging Face, then shruti models add FILE.nemo --languages en --quantise q8_0. Not verified: its size, which is that of a fine-tune's file; no weights were tried",
    measured: { memoryBytes: 1.15e9, timesRealTime: 33.2 },
    errors: [{ source: LEADERBOARD, rates: { en: 6.05 } }],
  },
  {
    name: "indicwhisper",
    title: "IndicWhisper (AI4Bharat), Whisper medium, one model for each language",
    languages: ["bn", "gu", "hi", "kn", "ml", "mr", "or", "pa", "sa", "ta", "te", "ur"],
    licence: "MIT",
    bytes: 1.53e9,
    obtain:
      "the ZIP of the language from the README of AI4Bharat/vistaar; shruti models add FILE.zip --languages CODE",
    measured: MEDIUM_16_BIT,
    errors: [
      {
        source: VISTAAR,
        rates: {
          ...{ bn: 20.9, gu: 23.5, hi: 15, kn: 18.6, ml: 22.6, mr: 20.5, or: 32.9, pa: 23.1, ta: 25.2 },
          ...{ te: 25.4, ur: 19.2 },
        },
      },
      { source: VISTAAR_KATHBATH, rates: { sa: 45.6 } },
    ],
  },
  {
    name: "large-v3-q5_0",
    title: "Whisper large-v3 (OpenAI), 5 bits",
    languages: ["as", "bn", "gu", "hi", "kn", "ml", "mr", "ne", "pa", "sa", "sd", "ta", "te", "ur"],
    licence: "MIT",
    bytes: 1.08e9,
    obtain: "shruti models fetch large-v3-q5_0; shruti models add ggml-large-v3-q5_0.bin",
    measured: { memoryBytes: 2.57e9, timesRealTime: 5.3 },
    errors: [
      {
        source: { ...COLLECTED, doubt: `${COLLECTED.doubt}, nor its weights: 16 bits are likely` },
        rates: { hi: 17, bn: 50, ta: 18, te: 39, mr: 34, gu: 47, kn: 33, pa: 49, ur: 21 },
      },
    ],
  },
  fineTune("whisper-hindi-small", "hi", 9.02, 9.67e8, SMALL_16_BIT),
  fineTune("whisper-hindi-medium", "hi", 6.82, 3.06e9, MEDIUM_16_BIT),
  fineTune("whisper-hindi-large-v2", "hi", 6.8, 6.17e9),
  fineTune("whisper-telugu-medium", "te", 9.47, 3.06e9, MEDIUM_16_BIT),
];
