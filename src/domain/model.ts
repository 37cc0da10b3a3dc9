import type { Mode } from "./transcription.ts";
import type { TrialVerdict } from "./trial.ts";

/**
 * In which letters a model writes a language that it may know better in another script: in the language's `own` alone, in
 * these alone after a sentence in them (`prompted`), in `either`, or in the `other` alone. Those of the other script are
 * rewritten afterwards.
 */
export const LETTER_WAYS = ["own", "prompted", "either", "other"] as const;
export type LetterWay = (typeof LETTER_WAYS)[number];

/** The tokens of one language among those of a model, first and last included. */
export type TokenSpan = { first: number; last: number };

/** A language that a model knows, and the modes that it has in it. */
export type ModelLanguage = {
  code: string;
  name: string;
  modes: Mode[];
  /** The code under which these weights know the language, where it is not `code`. */
  decoderLanguage?: string;
  /** Only of CTC families: the tokens of this language; left out: all tokens may be written. */
  tokenSpan?: TokenSpan;
  /** What the trial has found when the model was added; left out: it was not tried in this language. */
  trial?: TrialVerdict;
  /** Only of whisper. Left out: `either`. Only Hindi has another script, which is that of Urdu; elsewhere `either` is `own`. */
  letters?: LetterWay;
};

/** Returns the code under which a model knows the language of a request. */
export function modelLanguageOf(model: Pick<ModelManifest, "languages">, code: string): string {
  return model.languages.find((language) => language.code === code)?.decoderLanguage ?? code;
}

/** The files of a model by their role in its family: whisper has `weights`, CTC `model` and `tokens`. Absolute paths. */
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
  /** Settings that only the model's family knows. */
  tuning?: FamilyTuning;
};

/** Settings of families of models, each family's under the name that it has for them (`FamilyKeys.tuning`). */
export type FamilyTuning = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Returns settings as evidence and the story of a transcription have them: the family's beside those of all families. */
export const recordedDecoding = ({ tuning, ...common }: ModelDecoding): Record<string, unknown> => ({
  ...common,
  ...tuning,
});

/** The manifest beside the weights, `<id>.toml` (docs/decisions/models.md). */
export type ModelManifest = {
  id: string;
  name: string;
  version: string;
  /** The name of a family (`families/families.ts`). */
  family: string;
  /** Lower-case hex of the weights' file; of several files that with the role `model`. */
  sha256: string;
  /** The files of a model that has several, in the folder `<id>` beside the manifest. */
  parts?: ModelPart[];
  languages: ModelLanguage[];
  licence: string;
  source: string;
  /** Shown to all who list models, such as "demonstration, not for real use". */
  notice?: string;
  decoding: ModelDecoding;
};

/** One of several files of a model. */
export type ModelPart = {
  /** What it is for its family. Files of weights that the model itself names have the role `weights`. */
  role: string;
  /** A plain file name. */
  name: string;
  /** Lower-case hex. */
  sha256: string;
};

/** A manifest and the weights it describes. */
export type InstalledModel = ModelManifest & {
  files: ModelFiles;
  /** Size of all files together. */
  bytes: number;
  /** True for the model inside the executable. */
  embedded: boolean;
  /** The model that drafts for this one; left out: none does. */
  draft?: DraftModel;
};

/** A small model that writes tokens ahead of a larger one of its family (docs/engine.md section 12). */
export type DraftModel = Pick<InstalledModel, "id" | "sha256" | "parts" | "files" | "bytes"> & {
  /** The codes under which it knows languages. It drafts in no other. */
  languageCodes: readonly string[];
};

/** Speaker weights: a net of each kind. */
export type SpeakerWeights = {
  /** Absolute paths. */
  segmentationPath: string;
  embeddingPath: string;
  /** The SHA-256 that the files must have, as far as they are known. */
  expected?: Partial<SpeakerWeightHashes>;
};

/** SHA-256 of the speaker weights that distinguished speakers, by their kind, lower-case hex. */
export type SpeakerWeightHashes = { segmentation: string; speaker: string };

/** The files of an installed model of punctuation. */
export type PunctuationFiles = {
  /** Absolute paths. */
  modelPath: string;
  tokenizerPath: string;
  configPath: string;
  /** The SHA-256 that the files must have; left out: not known yet. */
  expected?: PunctuationHashes;
};

/** SHA-256 of the files of a model of punctuation, lower-case hex. */
export type PunctuationHashes = { model: string; tokenizer: string; config: string };

/** An installed model of punctuation. */
export type PunctuationModel = PunctuationFiles & {
  expected: PunctuationHashes;
  /** Codes of the languages that it was made for. */
  languages: readonly string[];
};
