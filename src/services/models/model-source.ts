import { basename } from "node:path";
import { type StagedWeights, stageWeights } from "./model-files.ts";

/** Weights that an admin adds, in whatever form they come. */
export type ModelSource = {
  /** What was found, for people: "a ggml file". */
  kind: string;
  /** A name for people, where the admin gives none. */
  name: string;
  /** Checks what can be checked quickly. @throws Error with the reason why the weights cannot be used */
  check(): void;
  /**
   * Brings the weights as a ggml file into the directory of models, under a temporary name.
   *
   * @throws AppError `invalid_request` (detail `file`); the file system's error
   */
  stage(directory: string): Promise<StagedModel>;
};

/** Staged weights, and what the manifest says of their origin where the admin says nothing. */
export type StagedModel = StagedWeights & { origin?: string; licence?: string };

/**
 * Makes a source of a file that whisper.cpp reads as it is.
 *
 * @param check refuses a file that the engine could not use
 */
export function ggmlSource(file: string, check: (path: string) => unknown): ModelSource {
  return {
    kind: "a ggml file",
    name: basename(file)
      .replace(/^ggml-/i, "")
      .replace(/\.(?:bin|ggml)$/i, ""),
    check: () => void check(file),
    stage: (directory) => stageWeights(file, directory),
  };
}
