import type { Mode } from "./transcription.ts";

/** A language a model knows, and the modes it can be asked for in it. */
export type ModelLanguage = {
  code: string;
  name: string;
  modes: Mode[];
  /** Whisper's language code that these weights were trained to take for it, where it is not `code`. */
  decoderLanguage?: string;
};

/** What the decoder is told when a request asks for a language. */
export function decoderLanguageOf(model: Pick<ModelManifest, "languages">, code: string): string {
  return model.languages.find((language) => language.code === code)?.decoderLanguage ?? code;
}

/** Settings of the decoder that belong to the weights, not to a request. */
export type ModelDecoding = {
  /** Candidates followed at once; 1 is greedy. */
  beamSize?: number;
  /** Step of the temperature fallback; 0 switches it off. */
  temperatureIncrement?: number;
  /** Below this token entropy a window is decoded again. */
  entropyThreshold?: number;
  /** False: an initial prompt makes this model worse, so modes do without. */
  acceptsPrompt?: boolean;
  /** Longest audio this model is given at once; left out: all that Whisper's window of 30 s holds. */
  maxChunkMs?: number;
  /** A text that stands for speech the model does not know; removed from segments. */
  unknownToken?: string;
  /** Text of a lower confidence, 0 to 1, counts as not understood: it is left out. */
  unknownBelow?: number;
};

/** The manifest beside the weights, `<id>.toml` (docs/decisions.md section 6). */
export type ModelManifest = {
  id: string;
  name: string;
  version: string;
  /** Lower-case hex of the weights' file. */
  sha256: string;
  languages: ModelLanguage[];
  licence: string;
  source: string;
  /** Said plainly to whoever lists models, as "demonstration, not for real use". */
  notice?: string;
  decoding: ModelDecoding;
};

/** A manifest and the weights it describes. */
export type InstalledModel = ModelManifest & {
  weightsPath: string;
  bytes: number;
  /** Came inside the executable. */
  embedded: boolean;
};

/** Weights an admin has installed for telling speakers apart; both are needed. */
export type SpeakerWeights = { segmentationPath: string; embeddingPath: string };
