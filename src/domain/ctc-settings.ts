import type { RecognizerSettings } from "./recognition.ts";

/**
 * How the features of the sound are computed: `nemo` as for NeMo's training, `kaldi` as kaldi-native-fbank approximates
 * that, which sherpa-onnx uses.
 */
export const CTC_FEATURES = ["nemo", "kaldi"] as const;
export type CtcFeatures = (typeof CTC_FEATURES)[number];

/** The tokens of one language among those of a model, first and last included. */
export type TokenSpan = { first: number; last: number };

/** Settings for recognizers of CTC models. */
export type CtcSettings = RecognizerSettings & {
  features: CtcFeatures;
  /** A JavaScript pattern (flag u) of tokens that must not be written; left out: none. */
  suppressTokens?: string;
  /** Left out: all tokens of the model may be written. */
  tokenSpan?: TokenSpan;
};
