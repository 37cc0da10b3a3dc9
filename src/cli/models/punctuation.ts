import type { Config } from "../../config/schema.ts";
import type { PunctuationFiles } from "../../domain/model.ts";
import type { Log } from "../../lib/log.ts";

/**
 * Tries a model of punctuation on some words, in a process of its own. So an admin, not the first customer, finds one that the
 * engine cannot use.
 *
 * @throws Error with the reason
 */
export async function tryOutPunctuation(
  config: Config,
  dataDir: string,
  log: Log,
  model: PunctuationFiles,
): Promise<void> {
  const { openEngine } = await import("../../engine/open-engine.ts");
  const { engine } = await openEngine(config, dataDir, log);
  const words = Array.from(
    { length: 300 },
    (_, index) => ["नमस्ते", "how", "are", "you", "வணக்கம்"][index % 5] ?? "",
  );
  try {
    await engine.punctuate({ model, words }, new AbortController().signal);
  } catch (error) {
    throw new Error(`The engine cannot use this model: ${(error as Error).message}.`, { cause: error });
  } finally {
    await engine.close();
  }
}
