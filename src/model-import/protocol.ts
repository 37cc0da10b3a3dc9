import type { Imported } from "./convert.ts";
import type { WeightType } from "./quantise.ts";

/** The hidden argument with which the executable starts as a process that imports a model. */
export const IMPORT_COMMAND = "import-worker";

/** What the process shall do. */
export type ImportRequest = {
  /**
   * A folder of transformers or CTranslate2, or a ZIP with one; a checkpoint of OpenAI's own program; a `.nemo` file; or a
   * file of a model with f16 weights, to make smaller ones of them.
   */
  kind: "folder" | "zip" | "openai" | "nemo" | "ggml";
  /** Absolute path. */
  source: string;
  type: WeightType;
  /** Absolute path of the file to create; undefined: everything is read and checked, and nothing is written. */
  output: string | undefined;
  /** An empty folder on the same disk for unpacked files. */
  scratch: string;
  /** Bytes that stay free on the disk. */
  reserveBytes: number;
};

export type ImportReply =
  | { type: "progress"; done: number }
  | { type: "done"; imported: Imported }
  /** `isInput`: the source is at fault. Otherwise it is this machine, such as a full disk. */
  | { type: "failed"; reason: string; isInput: boolean };
