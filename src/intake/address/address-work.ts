import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import type { FetchNumbers } from "./fetch-numbers.ts";
import { createFetcher, type FetcherDeps } from "./fetcher.ts";
import { createResultWriter, type ResultWriterDeps } from "./result-writer.ts";

/** What works by itself: the fetcher and the writer of results, which transcriptions wake. */
export type AddressWork = {
  start(): void;
  /** Returns the numbers of fetches. */
  fetches(): FetchNumbers;
  /** Ends what runs. It continues after the next start. */
  stop(): Promise<void>;
};

export function createAddressWork(
  deps: FetcherDeps & ResultWriterDeps & { transcriptions: Pick<TranscriptionService, "listen"> },
): AddressWork {
  const fetcher = createFetcher(deps);
  const writer = createResultWriter(deps);
  let stopListening: (() => void) | undefined;
  return {
    start() {
      stopListening = deps.transcriptions.listen({
        accepted: fetcher.wake,
        finished() {
          fetcher.wake();
          writer.wake();
        },
      });
      fetcher.start();
      writer.start();
    },
    fetches: fetcher.numbers,
    async stop() {
      stopListening?.();
      await Promise.all([fetcher.stop(), writer.stop()]);
    },
  };
}
