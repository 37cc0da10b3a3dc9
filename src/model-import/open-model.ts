import type { SourceFile } from "./source-file.ts";
import type { StoredTensor } from "./stored-tensor.ts";
import type { WhisperShape } from "./whisper-config.ts";

/** An opened model of any form. */
export type OpenModel = {
  shape: WhisperShape;
  /** Where the sizes come from, for messages. */
  sizesFrom: string;
  /** The bytes of each text token, in the order of their numbers. */
  tokens: readonly Buffer[];
  /** By the names that transformers gives them. */
  tensors: ReadonlyMap<string, StoredTensor>;
  files: readonly SourceFile[];
  close(): void;
};
