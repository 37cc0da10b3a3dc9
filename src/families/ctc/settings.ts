import type { TokenSpan } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";

/**
 * How the features of the sound are computed: `nemo` as for training with NeMo up to 2.4, `nemo-2.5` as from 2.5 on, `kaldi` as
 * kaldi-native-fbank approximates the first, which sherpa-onnx uses.
 */
export const CTC_FEATURES = ["nemo", "nemo-2.5", "kaldi"] as const;
export type CtcFeatures = (typeof CTC_FEATURES)[number];

/** Settings for recognizers of CTC models. */
export type CtcSettings = RecognizerSettings & {
  features: CtcFeatures;
  /** A JavaScript pattern (flag u) of tokens that must not be written; left out: none. */
  suppressTokens?: string;
  /** Left out: all tokens of the model may be written. */
  tokenSpan?: TokenSpan;
};
