import type { Mode } from "./transcription.ts";

/** A language a model knows, and the modes it can be asked for in it. */
export type ModelLanguage = {
  code: string;
  name: string;
  modes: Mode[];
  /** The code under which these weights know the language, where it is not `code`. */
  decoderLanguage?: string;
};

/** The code under which a model knows the language of a request. */
export function modelLanguageOf(model: Pick<ModelManifest, "languages">, code: string): string {
  return model.languages.find((language) => language.code === code)?.decoderLanguage ?? code;
}

/** Families of models that this program can run; one recognizer for each. */
export const MODEL_FAMILIES = ["whisper"] as const;
export type ModelFamilyName = (typeof MODEL_FAMILIES)[number];

/** The files of a model by their role in its family: whisper has `weights`. Absolute paths. */
export type ModelFiles = Readonly<Record<string, string>>;

/** @throws Error when the model has no file of that role */
export function fileOf(files: ModelFiles, role: string): string {
  const path = files[role];
  if (path === undefined) throw new Error(`the model has no file for its ${role}`);
  return path;
}

/** Settings of recognition that belong to the weights, not to a request. */
export type ModelDecoding = {
  /** Longest audio this model is given at once; left out: what its family allows. */
  maxChunkMs?: number;
  /** A text that stands for speech the model does not know; removed from segments. */
  unknownToken?: string;
  /** Text of a lower confidence, 0 to 1, counts as not understood: it is left out. */
  unknownBelow?: number;
  /** Only of family `whisper`. */
  whisper?: WhisperTuning;
};

/** How whisper's decoder is set for particular weights. */
export type WhisperTuning = {
  /** Candidates followed at once; 1 is greedy. */
  beamSize?: number;
  /** Step of the temperature fallback; 0 switches it off. */
  temperatureIncrement?: number;
  /** Below this token entropy a window is decoded again. */
  entropyThreshold?: number;
  /** False: an initial prompt makes this model worse, so modes do without. */
  acceptsPrompt?: boolean;
};

/** The manifest beside the weights, `<id>.toml` (docs/decisions.md section 6). */
export type ModelManifest = {
  id: string;
  name: string;
  version: string;
  family: ModelFamilyName;
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
  files: ModelFiles;
  /** Size of all files together. */
  bytes: number;
  /** Came inside the executable. */
  embedded: boolean;
};

/** Weights an admin has installed for telling speakers apart; both are needed. */
export type SpeakerWeights = { segmentationPath: string; embeddingPath: string };
