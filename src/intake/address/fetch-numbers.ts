/**
 * Why fetches fail, for the metrics: the rules do not allow the address; no answer, or a connection that broke off; an
 * answer that says no; a file that cannot be a recording; a limit of this server or of the organization.
 */
export const FETCH_FAILURES = ["address", "connection", "answer", "file", "limit"] as const;
export type FetchFailureKind = (typeof FETCH_FAILURES)[number];

/** What was counted since the start. */
export type FetchCounts = {
  /** Attempts that were started. */
  attempts: number;
  /** Bytes of recordings that have arrived. */
  bytes: number;
  /** Fetches that have failed for good, by the reason of their last attempt. */
  failed: Record<FetchFailureKind, number>;
};

/** The same, and what is to be fetched now. */
export type FetchNumbers = FetchCounts & {
  /** Fetches with an attempt that runs. */
  running: number;
  /** Fetches that wait for a place, or for their next attempt. */
  waiting: number;
};

export const newFetchCounts = (): FetchCounts => ({
  attempts: 0,
  bytes: 0,
  failed: { address: 0, connection: 0, answer: 0, file: 0, limit: 0 },
});
