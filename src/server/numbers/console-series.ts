/** Numbers of one moment; those in the first group were counted since the moment before. */
export type SeriesSample = {
  finished: number;
  failed: number;
  requests: number;
  serverErrors: number;
  queued: number;
  /** Share of the places that are busy, 0 to 1. */
  busy: number;
  /** Null while nothing is recognized. */
  realTimeFactor: number | null;
  memoryBytes: number;
  diskFreeBytes: number;
};

const SPANS = {
  hour: { stepMs: 10_000, steps: 360 },
  day: { stepMs: 300_000, steps: 288 },
} as const;

export type SeriesSpan = keyof typeof SPANS;

type Step = { samples: number; factors: number } & { [K in keyof SeriesSample]: number };

/** Columns for a chart, as `Series` of http/wire/console.ts. */
export type SeriesColumns = {
  object: "console.series";
  span: SeriesSpan;
  step_seconds: number;
  at: number[];
} & Record<
  | "queued"
  | "busy"
  | "real_time_factor"
  | "finished"
  | "failed"
  | "requests"
  | "server_errors"
  | "server_memory_bytes"
  | "disk_free_bytes",
  (number | null)[]
>;

/**
 * Keeps the numbers of the last hour and day in memory. It keeps 648 steps at most, however long the program runs.
 *
 * @param startMs epoch milliseconds; steps before it are null
 */
export function createSeries(startMs: number) {
  const rings = {
    hour: createRing(SPANS.hour),
    day: createRing(SPANS.day),
  };
  let newestMs = startMs;
  return {
    add(nowMs: number, sample: SeriesSample): void {
      newestMs = nowMs;
      for (const ring of Object.values(rings)) ring.add(nowMs, sample);
    },
    /** Returns the columns of a span up to the newest sample. */
    read: (span: SeriesSpan): SeriesColumns => columnsOf(span, rings[span].read(newestMs)),
  };
}

function createRing({ stepMs, steps }: (typeof SPANS)[SeriesSpan]) {
  const kept = new Map<number, Step>();
  const stepOf = (nowMs: number) => Math.floor(nowMs / stepMs);
  return {
    add(nowMs: number, sample: SeriesSample): void {
      const number = stepOf(nowMs);
      kept.set(number, merge(kept.get(number), sample));
      for (const old of kept.keys()) if (old <= number - steps || old > number) kept.delete(old);
    },
    read(nowMs: number): { atMs: number; step: Step | undefined }[] {
      const last = stepOf(nowMs);
      return Array.from({ length: steps }, (_, index) => {
        const number = last - steps + 1 + index;
        return { atMs: (number + 1) * stepMs, step: kept.get(number) };
      });
    },
  };
}

function merge(step: Step | undefined, sample: SeriesSample): Step {
  const { realTimeFactor, ...numbers } = sample;
  const factors = realTimeFactor === null ? 0 : 1;
  if (!step) return { ...numbers, realTimeFactor: realTimeFactor ?? 0, samples: 1, factors };
  return {
    samples: step.samples + 1,
    factors: step.factors + factors,
    realTimeFactor: step.realTimeFactor + (realTimeFactor ?? 0),
    busy: step.busy + sample.busy,
    queued: Math.max(step.queued, sample.queued),
    finished: step.finished + sample.finished,
    failed: step.failed + sample.failed,
    requests: step.requests + sample.requests,
    serverErrors: step.serverErrors + sample.serverErrors,
    memoryBytes: sample.memoryBytes,
    diskFreeBytes: sample.diskFreeBytes,
  };
}

function columnsOf(
  span: SeriesSpan,
  steps: readonly { atMs: number; step: Step | undefined }[],
): SeriesColumns {
  const column = (read: (step: Step) => number | null) => steps.map(({ step }) => (step ? read(step) : null));
  const rounded = (value: number) => Math.round(value * 1000) / 1000;
  return {
    object: "console.series",
    span,
    step_seconds: SPANS[span].stepMs / 1000,
    at: steps.map(({ atMs }) => atMs / 1000),
    queued: column(({ queued }) => queued),
    busy: column(({ busy, samples }) => rounded(busy / samples)),
    real_time_factor: column(({ realTimeFactor, factors }) =>
      factors === 0 ? null : rounded(realTimeFactor / factors),
    ),
    finished: column(({ finished }) => finished),
    failed: column(({ failed }) => failed),
    requests: column(({ requests }) => requests),
    server_errors: column(({ serverErrors }) => serverErrors),
    server_memory_bytes: column(({ memoryBytes }) => memoryBytes),
    disk_free_bytes: column(({ diskFreeBytes }) => diskFreeBytes),
  };
}
