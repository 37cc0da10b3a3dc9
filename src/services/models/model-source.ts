import type { ModelPart } from "../../domain/model.ts";
import type { GivenFile, GivenModel, ModelFamily } from "../../families/contract.ts";
import { filesOf, type StagedWeights, stageFolder, stageWeights } from "./model-files.ts";

/** A model that an admin adds, in whatever form it comes. */
export type ModelSource = {
  /** What was found, for people: "a ggml file". */
  kind: string;
  /** A name for people, where the admin gives none. */
  name: string;
  /** The id where the admin gives none; left out: it is made of the name. */
  id?: string;
  /** Left out: the family of manifests that name none. */
  family?: ModelFamily;
  /** Lists the files as they will be; left out: they are made while they are staged. @throws Error as `check` */
  files?(): GivenFile[];
  /** Checks what can be checked quickly. @throws Error with the reason why the model cannot be used */
  check(): void;
  /**
   * Brings the files into the directory of models, under a temporary name.
   *
   * @throws AppError `invalid_request` (detail `file`); the file system's error
   */
  stage(directory: string): Promise<StagedModel>;
};

/**
 * Staged files, and what the manifest says of their origin where the admin says nothing. `parts`: the files in the folder
 * `path` of a model that has several; `sha256` is that of the main one.
 */
export type StagedModel = StagedWeights & { parts?: ModelPart[]; origin?: string; licence?: string };

/** Makes a source of files that are those of a model already. */
export function givenSource(family: ModelFamily, model: GivenModel): ModelSource {
  const { kind, name, id, files } = model;
  return {
    ...{ kind, name, family, files },
    ...(id === undefined ? {} : { id }),
    check: () => family.check(filesOf(family, files())),
    async stage(directory) {
      const given = files();
      const { roles } = family;
      if (!roles) return stageWeights(given[0]?.path ?? "", directory);
      const staged = await stageFolder(given, directory);
      return { ...staged, sha256: staged.parts.find(({ role }) => role === roles.main)?.sha256 ?? "" };
    },
  };
}
