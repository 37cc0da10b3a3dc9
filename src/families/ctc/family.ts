import { fileOf, type ModelManifest, modelLanguageOf } from "../../domain/model.ts";
import type { TranscriptionRequest } from "../../domain/transcription.ts";
import { suppressPattern } from "../../pipeline/wording.ts";
import type { ModelFamily } from "../contract.ts";
import { describeCtc, describeIndic, givenCtcFolder, givenIndicFolder } from "./adding.ts";
import { checkIndicFiles } from "./indic-files.ts";
import { ctcKeys, ctcTuning } from "./keys.ts";
import { CTC_FAMILIES, checkCtcFiles } from "./model-files.ts";
import { checkNgrams, NGRAM_ROLE } from "./ngram-files.ts";
import type { CtcSettings } from "./settings.ts";

/** The cost of attention grows with the square of the length, and counts little up to this. */
const LINEAR_MS = 10_000;
/** Some models were not trained with longer audio. */
const MAX_CHUNK_MS = 20_000;

/**
 * Mean probabilities of CTC models are near 1. Words that the test model knows have 0.8 and more, and it writes words that
 * were not said with 0.6 and more (docs/engine.md section 8). No model of real size was at hand.
 */
const UNKNOWN_BELOW = 0.6;

/** CTC models of NeMo, such as IndicConformer. They are deterministic: the same audio gives the same text. */
export const nemoCtcFamily: ModelFamily = {
  name: CTC_FAMILIES.nemo,
  title: "NeMo CTC",
  engine: "onnx-ctc",
  roles: { main: "model", others: ["tokens"], optional: [NGRAM_ROLE] },
  keys: ctcKeys,
  mayUseGpu: false,
  canTimeWords: () => true,
  canQuantise: false,
  given: givenCtcFolder,
  check(files) {
    checkCtcFiles(fileOf(files, "model"), fileOf(files, "tokens"));
    checkNgrams(files);
  },
  describe: describeCtc,
  needs: () => ({ isOneThread: true }),
  trial: { hasLanguageParts: true, knowsEnglish: false },
  windowMs: LINEAR_MS,
  maxChunkMs: MAX_CHUNK_MS,
  normalizesChunks: true,
  unknownBelow: UNKNOWN_BELOW,
  settingsFor: ctcSettings,
  singlePass: (settings) => settings,
};

/**
 * CTC models of Omnilingual. They know all languages at once, and none can be chosen. Their tokens are letters, so those of
 * other scripts are left out.
 */
export const omnilingualCtcFamily: ModelFamily = {
  ...nemoCtcFamily,
  name: CTC_FAMILIES.omnilingual,
  title: "Omnilingual CTC",
  settingsFor(request, model): CtcSettings {
    const suppressTokens = suppressPattern(request.language, request.mode);
    return { ...ctcSettings(request, model), ...(suppressTokens === undefined ? {} : { suppressTokens }) };
  },
};

/** IndicConformer drops words of longer chunks (docs/engine.md section 6). */
const INDIC_CHUNK_MS = 15_000;

/** IndicConformer as AI4Bharat publishes it: one encoder, and one head with the tokens of 22 languages. */
export const indicCtcFamily: ModelFamily = {
  ...nemoCtcFamily,
  name: CTC_FAMILIES.indic,
  title: "IndicConformer",
  roles: { main: "model", others: ["head", "tokens", "spans"], optional: [NGRAM_ROLE] },
  given: givenIndicFolder,
  check(files) {
    checkIndicFiles(files);
    checkNgrams(files);
  },
  describe: describeIndic,
  maxChunkMs: INDIC_CHUNK_MS,
};

function ctcSettings(
  { language }: Pick<TranscriptionRequest, "language" | "mode">,
  model: Pick<ModelManifest, "languages" | "decoding">,
): CtcSettings {
  const span = model.languages.find(({ code }) => code === language)?.tokenSpan;
  return {
    language: modelLanguageOf(model, language),
    features: ctcTuning(model.decoding).features ?? "nemo",
    ...(span === undefined ? {} : { tokenSpan: span }),
  };
}
