import type { EngineOptions } from "../domain/engine-options.ts";
import { requireProgram } from "../lib/program-file.ts";

/**
 * Returns the decoder that the config puts in the place of ours, an absolute path; undefined: the config names no decoder.
 *
 * @throws ProgramFileError for a path that is not a program
 */
export function otherDecoder({ decoder }: Pick<EngineOptions, "decoder">): string | undefined {
  return decoder === "" ? undefined : requireProgram("engine.decoder", decoder);
}
