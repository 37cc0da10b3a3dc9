import type { EngineOptions } from "../domain/engine-options.ts";
import type { InstalledModel, ModelDecoding, ModelFiles, ModelLanguage } from "../domain/model.ts";
import type { RecognizerSettings } from "../domain/recognition.ts";
import type { Mode } from "../domain/transcription.ts";
import type { FamilyRules } from "../pipeline/family-rules.ts";
import type { LetterChoice } from "../pipeline/letter-conversion.ts";
import type { Check } from "./checks.ts";

/**
 * What the program knows of a family of models, without native code. A family is a folder of `families/` and a line in
 * `families.ts`. The half that runs in a worker process is a `Recognizer` of the engine, with a line in
 * `engine/open-recognizer.ts`: services read families, and native code must not reach them. Only these two halves know
 * the content of the family's settings, and nothing else compares a family's name.
 */
export type ModelFamily = FamilyRules & {
  /** The name in manifests (`family`). */
  name: string;
  /** The name for people, such as `Whisper`. */
  title: string;
  /** The library that runs its models, by its name in manifests (`engine`). Families may share it. */
  engine: string;
  /** The roles that the files of a model have; left out: it is one file with the role `weights`. */
  roles?: FileRoles;
  keys: FamilyKeys;
  /** The library runs models on GPUs, and finds these in folders of backends. */
  mayUseGpu: boolean;
  /** The ends of names of checkpoints from which the import process makes models of the family; left out: the standard family's. */
  imports?: RegExp;
  /**
   * Reports whether a model can say when each word was spoken: its recognizer then gives segments `words` where its
   * settings ask for them. False: requests for word times are refused.
   */
  canTimeWords(model: Pick<InstalledModel, "files" | "decoding">): boolean;
  /**
   * Reports whether a model was trained to write English for speech in another language: its recognizer does so where its
   * settings say it. Left out: no model of the family was.
   */
  canTranslate?(model: Pick<InstalledModel, "files" | "decoding">): boolean;
  /** Small models can write tokens ahead of larger ones; left out: those of the family cannot. */
  drafting?: FamilyDrafting;
  /** Models can be made again with smaller weights (`shruti models quantise`). */
  canQuantise: boolean;
  /** Finds a model of the family at a path; undefined: there is none of this family. */
  given(path: string): GivenModel | undefined;
  /**
   * Looks at the files of a model without loading them.
   *
   * @throws Error with the reason why the engine could not use them
   */
  check(files: ModelFiles): void;
  /**
   * Says what the manifest of a new model holds.
   *
   * @param files left out: they are not there yet, and what they would say is guessed
   * @throws Error with the reason why the files and what an admin says do not fit
   */
  describe(files: ModelFiles | undefined, said: SaidOfModel): DescribedModel;
  /** Says what the files of a model need of a machine. */
  needs(files: ModelFiles, machine: FamilyMachine): Omit<ModelNeeds, "bytes">;
  trial: FamilyTrial;
};

/** The roles of a model's files. Any number of further files may have the role `weights`. */
export type FileRoles = {
  /** The role of the file that names the model: the hash in its manifest and the path in lists are those of this file. */
  main: string;
  /** Files besides, each of which a model has once. */
  others: readonly string[];
  /** Files that a model may have any number of, under different names. Left out: none. */
  optional?: readonly string[];
};

/** A key of a manifest that only models of some families have. */
export type ManifestKey = {
  /** The field that the manifest has in the program. */
  field: string;
  check: Check;
  /** Makes the field's value of a TOML value that the check has accepted; left out: they are the same. */
  read?(value: unknown): unknown;
  /** Makes the TOML value of the field's value; left out: they are the same. */
  write?(value: unknown): string | number | boolean | readonly (string | number)[];
  /** The option of `shruti models add` that sets a key of `[decoding]`: its value is the field's. Left out: there is none. */
  option?: AddingOption;
};

/** An option of `shruti models add` that a family declares. */
export type AddingOption = {
  /** As the help has them: `--features <kind>`, or `--no-timestamps`, which makes the field false. */
  flags: string;
  help: string;
  /** The values that an option with an argument takes; left out: any. */
  choices?: readonly string[];
};

/** The keys of manifests that are the family's own. */
export type FamilyKeys = {
  /** The name in `ModelDecoding.tuning` of what holds the values of `decoding`. */
  tuning: string;
  /** Keys of `[decoding]`. */
  decoding: Readonly<Record<string, ManifestKey>>;
  /** Keys of `[[languages]]`. Their fields are those of `ModelLanguage`. */
  languages: Readonly<Record<string, ManifestKey>>;
  /** Finds a fault of a language whose values are valid each; left out: there are none. */
  languageFault?(language: ModelLanguage): { key: string; problem: string } | undefined;
};

/** A model as an admin has it. */
export type GivenModel = {
  /** What was found, for people, with its article: "a ggml file". */
  kind: string;
  /** A name for people, where the admin gives none. */
  name: string;
  /** The id where the admin gives none; left out: it is made of the name. */
  id?: string;
  /** A file is missing. A family that has all its files there goes before this one. */
  isPart?: boolean;
  /** Lists the files. @throws Error with the reason why they cannot be used */
  files(): GivenFile[];
};

/** A file of a model as an admin has it. `name`: the name that it gets. */
export type GivenFile = { role: string; name: string; path: string };

/**
 * What an admin may say of a model. A field of a language that the family does not have is refused, and a family hears
 * nothing of the settings of others.
 */
export type SaidOfModel = {
  /** Left out: those that the files name, or all that the family knows. */
  languages?: SaidLanguage[];
  /** Left out: what the family does. */
  decoding?: ModelDecoding;
};

/** `modes` left out: all that the family has in the language. */
export type SaidLanguage = Pick<ModelLanguage, "code" | "decoderLanguage" | "tokenSpan"> & { modes?: Mode[] };

/** `family`: families may share the form of their files, and the files then say which one it is. */
export type DescribedModel = { family: string; languages: ModelLanguage[]; decoding: ModelDecoding };

/** What decides, besides the model, what a model needs. */
export type FamilyMachine = {
  engine: EngineOptions;
  /** Instructions of the processor, by their names in `/proc/cpuinfo`. */
  processorFlags: ReadonlySet<string>;
};

/** Where decoding steps of several chunks of a model are made together. */
export type StepSharing = { onProcessor: boolean; onGpu: boolean };

/** What a model needs of a machine. */
export type ModelNeeds = {
  /** Size of the weights, which all chunks share. */
  bytes: number;
  /** Memory of a chunk beside the weights; left out: it is guessed from them. */
  stateBytes?: number | undefined;
  /**
   * Memory that a chunk needs besides while it is encoded. Chunks on the processor borrow it, so that each thread group has it
   * once; on a GPU each chunk has its own. Left out: it is part of `stateBytes`.
   */
  encoderBytes?: number | undefined;
  /** Memory that all chunks share beside the weights; left out: none. */
  sharedBytes?: number | undefined;
  /** Where decoding steps of several chunks are made together; left out: nowhere. */
  sharing?: StepSharing | undefined;
  /** Each chunk runs on one thread. Chunks side by side use the other cores. */
  isOneThread?: boolean | undefined;
};

/** How models draft for others of their family. */
export type FamilyDrafting = {
  /** Says why a model cannot draft for another one; undefined: it can. */
  fault(files: ModelFiles, draftFiles: ModelFiles): string | undefined;
  /** Says why a model is used without drafts on a machine's processor; undefined: it is not. */
  hindrance(files: ModelFiles, machine: FamilyMachine): string | undefined;
};

/** How a new model is tried, besides what all families have in common. */
export type FamilyTrial = {
  /** Languages are parts of a model, each of which may be wrong: those without a sample are tried with another's. */
  hasLanguageParts: boolean;
  /** Models know English whatever languages an admin names. Those that fail in all these are tried in English, too. */
  knowsEnglish: boolean;
  /** Returns the letters in which a model may write a language; left out: there is no choice. */
  letterChoices?(language: string, decoding: ModelDecoding): readonly LetterChoice[];
  /** The setting for weights that were not trained with timestamps; left out: the family has no such setting. */
  withoutTimestamps?: {
    /** The flag of `shruti models add`. */
    flag: string;
    /** Returns the settings of a model without timestamps; undefined: it has none anyway. */
    decodingOf(decoding: ModelDecoding): ModelDecoding | undefined;
  };
  /** What is measured of a model while it recognizes speech that it understands; left out: nothing. */
  measuring?: {
    /** Returns settings with which recognition has `measured`; undefined: the model needs no measuring. */
    settings(
      settings: RecognizerSettings,
      model: Pick<InstalledModel, "files" | "decoding">,
    ): RecognizerSettings | undefined;
    /** Returns the decoding of the new model's manifest, with what was measured. */
    decoding(decoding: ModelDecoding, measured: unknown): ModelDecoding;
  };
  /** How starts of words are corrected that come late or early on the whole; left out: the family has no such setting. */
  wordStarts?: {
    /** Reports whether words of a model have times, and its manifest names no correction of them. */
    mayCorrect(model: Pick<InstalledModel, "files" | "decoding">): boolean;
    /** Returns the decoding with which starts come so much earlier, or later below 0; undefined: none makes a difference. */
    earlier(model: Pick<InstalledModel, "files" | "decoding">, lateMs: number): ModelDecoding | undefined;
  };
};
