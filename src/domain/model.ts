import type { Mode } from "./transcription.ts";

/** A language that a model knows, and the modes that it has in it. */
export type ModelLanguage = {
  code: string;
  name: string;
  modes: Mode[];
  /** The code under which these weights know the language, where it is not `code`. */
  decoderLanguage?: string;
};

/** Returns the code under which a model knows the language of a request. */
export function modelLanguageOf(model: Pick<ModelManifest, "languages">, code: string): string {
  return model.languages.find((language) => language.code === code)?.decoderLanguage ?? code;
}

/** Families of models that this program can run; one recognizer for each. */
export const MODEL_FAMILIES = ["whisper"] as const;
export type ModelFamilyName = (typeof MODEL_FAMILIES)[number];

/** The files of a model by their role in its family: whisper has `weights`. Absolute paths. */
export type ModelFiles = Readonly<Record<string, string>>;

/** Returns the path of a model's file by its role. @throws Error when the model has no such file */
export function fileOf(files: ModelFiles, role: string): string {
  const path = files[role];
  if (path === undefined) throw new Error(`the model has no file for its ${role}`);
  return path;
}

/** Settings of recognition that belong to the weights, not to a request. */
export type ModelDecoding = {
  /** Longest audio of one run, milliseconds; left out: what the family allows. */
  maxChunkMs?: number;
  /** A text that the model writes for speech that it does not know. It is removed from segments. */
  unknownToken?: string;
  /** Text of a lower confidence, 0 to 1, is left out as not understood. */
  unknownBelow?: number;
  /** Only of family `whisper`. */
  whisper?: WhisperTuning;
};

/** Settings of Whisper's decoder for particular weights. */
export type WhisperTuning = {
  /** Beams of the search; 1 is greedy. */
  beamSize?: number;
  /** Step of the temperature fallback; 0: no fallback. */
  temperatureIncrement?: number;
  /** Token entropy below which a window is recognized again. */
  entropyThreshold?: number;
  /** False: an initial prompt makes this model worse, so no mode uses one. */
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
  /** Shown to all who list models, such as "demonstration, not for real use". */
  notice?: string;
  decoding: ModelDecoding;
};

/** A manifest and the weights it describes. */
export type InstalledModel = ModelManifest & {
  files: ModelFiles;
  /** Size of all files together. */
  bytes: number;
  /** True for the model inside the executable. */
  embedded: boolean;
};

/** Speaker weights that an admin has installed, absolute paths. Both are needed. */
export type SpeakerWeights = { segmentationPath: string; embeddingPath: string };
