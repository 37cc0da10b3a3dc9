import type { PunctuationModel } from "../domain/model.ts";
import { silentLog } from "../lib/log.ts";
import { punctuateText } from "../recognition/punctuation-run.ts";
import { type LocalOptions, openLocalParts } from "./local.ts";

/** Punctuation of texts with the installed model, without a server. */
export type LocalPunctuator = {
  /** The model that adds it; undefined: none is installed, or the config switches it off. */
  model: PunctuationModel | undefined;
  /**
   * Adds punctuation to a text. Words stay; a text with a mark stays as it is.
   *
   * @param language code of a language that the model knows
   * @throws EngineError when the model cannot be used; Error when there is none
   */
  punctuate(text: string, language: string): Promise<string>;
  close(): Promise<void>;
};

/** Opens the installed model of punctuation. It is loaded with the first text. */
export async function openLocalPunctuator(options: LocalOptions): Promise<LocalPunctuator> {
  const { engine, models, close } = await openLocalParts(options);
  const model = models.punctuation();
  // The user of a command sees the failure.
  const tools = { engine, log: silentLog, isWaitedOut: () => false };
  return {
    model,
    async punctuate(text, language) {
      if (!model) throw new Error("There is no model of punctuation.");
      return punctuateText(tools, model, { text, language }, new AbortController().signal);
    },
    close,
  };
}
