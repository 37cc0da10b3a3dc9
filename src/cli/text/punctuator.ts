import { EngineError } from "../../engine/protocol.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { becomeOwner } from "../frame/owner.ts";

/** Adds punctuation to a line. @throws CommandError `failed` when the model cannot be used */
export type Punctuate = (line: string) => Promise<string>;

/**
 * Opens the installed model of punctuation for a command's work, and closes it when that has ended, also by an error.
 *
 * @param language of all lines
 * @throws CommandError `failed` where no model is installed, `usage` where it does not know the language; what `work` throws
 */
export async function withPunctuator(
  context: CliContext,
  language: string,
  work: (punctuate: Punctuate) => Promise<void>,
): Promise<void> {
  const { openLocalPunctuator } = await import("../../programs/local-punctuation.ts");
  const { config, trustsDataDir } = context.loadOwnConfig();
  const { clock, io, note } = context;
  becomeOwner(config);
  const ending = cleanUpAtEnd();
  try {
    const local = { config, clock, trustsDataDir, environment: io.environment, note };
    const { punctuator, close } = await openLocalPunctuator(local);
    try {
      if (!punctuator)
        throw new CommandError(
          "failed",
          "no model of punctuation is installed, or the config switches it off; see shruti models add --kind punctuation",
        );
      const { model, punctuate } = punctuator;
      if (!model.languages.includes(language))
        throw new CommandError(
          "usage",
          `the model of punctuation does not know ${language}; it knows ${model.languages.join(", ")}`,
        );
      await work(async (line) => {
        try {
          return await punctuate(line, language);
        } catch (error) {
          if (!(error instanceof EngineError)) throw error;
          throw new CommandError("failed", `the model of punctuation cannot be used: ${error.message}`);
        }
      });
    } finally {
      await close();
    }
  } finally {
    ending.stop();
  }
}
