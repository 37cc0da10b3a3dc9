/** The one variable in a decoder's environment: the number of the process that has started it. */
export const STARTED_BY = "SHRUTI_DECODER_STARTED_BY";

/**
 * Returns the environment of a decoder: no variable of this process, and by which process it was started. So a later start
 * recognizes the decoders of a killed program, also where the config names a program that others use, too.
 */
export function decoderEnvironment(): Record<string, string> {
  return { [STARTED_BY]: String(process.pid) };
}
