import { punctuationFor } from "../recognition/punctuation-run.ts";
import { createTextSoFar, type TextSoFar } from "../recognition/text-so-far.ts";
import { segmentWriter } from "../recognition/written-form.ts";
import { countAllChunks, listFirstEnded } from "../store/chunks.ts";
import { findTranscription, raiseStreamed } from "../store/transcriptions.ts";
import type { RunContext } from "./context.ts";
import { createWatchers } from "./watchers.ts";

/**
 * Gives clients the text of a recording before its end. What a client has read is paid, however the work ends: the audio of
 * a text is in the transcription's row, durably, before the text is given. The end reads it there
 * (`settleTranscription`).
 */
export type TextStreams = {
  /** Looks at a transcription of which a chunk has ended. */
  chunkEnded(id: string): void;
  /**
   * Calls a function with the text so far each time that it has grown. Each text begins with the one before. After the end
   * of the transcription there is no call.
   *
   * @returns a function that ends the calls
   */
  watch(id: string, onText: (text: string) => void): () => void;
};

export function createTextStreams({
  database: { store },
  commits,
  log,
  ...parts
}: Pick<RunContext, "database" | "commits" | "log" | "findModel" | "familyOf" | "punctuation">): TextStreams {
  const onError = (error: unknown) =>
    log.error({ err: error }, "the text so far could not be given to a client");
  const watchers = createWatchers(onError);

  return {
    chunkEnded: watchers.notify,
    watch(id, onText) {
      let text: TextSoFar | undefined;
      let last = "";
      let isOver = false;

      async function advance(): Promise<void> {
        const row = findTranscription(store, id);
        if (!row) return;
        // The marks of a word depend on the words after it, so the text is known at the end.
        const family = parts.findModel(row.modelId)?.family;
        if (family !== undefined && punctuationFor(parts, family)) return;
        const write = await segmentWriter(row);
        text ??= createTextSoFar(row, write);
        const following = listFirstEnded(store, id, text.chunks());
        const grown = text.add(following, countAllChunks(store, id));
        if (grown.text.length <= last.length || !grown.text.startsWith(last)) return;
        last = grown.text;
        // A client that has left in the meantime does not pay for what it does not get.
        const isPaid = await commits.run((tx) => !isOver && raiseStreamed(tx, id, grown.audioMs));
        if (isPaid) onText(grown.text);
      }

      const unwatch = watchers.watch(id, () => void advance().catch(onError));
      return () => {
        isOver = true;
        unwatch();
      };
    },
  };
}
