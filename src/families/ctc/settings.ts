import type { TokenSpan } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";

/**
 * How the features of the sound are computed: `nemo` as for NeMo's training, `kaldi` as kaldi-native-fbank approximates
 * that, which sherpa-onnx uses.
 */
export const CTC_FEATURES = ["nemo", "kaldi"] as const;
export type CtcFeatures = (typeof CTC_FEATURES)[number];

/** Settings for recognizers of CTC models. */
export type CtcSettings = RecognizerSettings & {
  features: CtcFeatures;
  /** A JavaScript pattern (flag u) of tokens that must not be written; left out: none. */
  suppressTokens?: string;
  /** Left out: all tokens of the model may be written. */
  tokenSpan?: TokenSpan;
};
