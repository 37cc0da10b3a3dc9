import type { CtcSettings } from "../../domain/ctc-settings.ts";
import { type ModelManifest, modelLanguageOf } from "../../domain/model.ts";
import type { TranscriptionRequest } from "../../domain/transcription.ts";
import { suppressPattern } from "../wording.ts";
import type { ModelFamily } from "./family.ts";

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
  windowMs: LINEAR_MS,
  maxChunkMs: MAX_CHUNK_MS,
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
  settingsFor(request, model): CtcSettings {
    const suppressTokens = suppressPattern(request.language, request.mode);
    return { ...ctcSettings(request, model), ...(suppressTokens === undefined ? {} : { suppressTokens }) };
  },
};

function ctcSettings(
  { language }: Pick<TranscriptionRequest, "language" | "mode">,
  model: Pick<ModelManifest, "languages" | "decoding">,
): CtcSettings {
  const span = model.languages.find(({ code }) => code === language)?.tokenSpan;
  return {
    language: modelLanguageOf(model, language),
    features: model.decoding.ctc?.features ?? "nemo",
    ...(span === undefined ? {} : { tokenSpan: span }),
  };
}
