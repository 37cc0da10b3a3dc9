import type { PunctuationModel } from "../domain/model.ts";
import { silentLog } from "../lib/log.ts";
import { punctuateText } from "../recognition/punctuation-run.ts";
import { type LocalOptions, openLocalParts } from "./local.ts";

/** Punctuation of texts with the installed model, without a server. */
export type LocalPunctuator = {
  model: PunctuationModel;
  /**
   * Adds punctuation to a text. Words stay; a text with a mark stays as it is.
   *
   * @param language code of a language that the model knows
   * @throws EngineError when the model cannot be used
   */
  punctuate(text: string, language: string): Promise<string>;
};

/**
 * Opens the installed model of punctuation. It is loaded with the first text.
 *
 * @returns no punctuator where no model is installed, or the config switches it off; `close` is called in any case
 */
export async function openLocalPunctuator(
  options: LocalOptions,
): Promise<{ punctuator: LocalPunctuator | undefined; close(): Promise<void> }> {
  const { engine, models, close } = await openLocalParts(options);
  const model = models.punctuation();
  // The user of a command sees the failure.
  const tools = { engine, log: silentLog, isWaitedOut: () => false };
  const punctuator = model && {
    model,
    punctuate: (text: string, language: string) =>
      punctuateText(tools, model, { text, language }, new AbortController().signal),
  };
  return { punctuator, close };
}
