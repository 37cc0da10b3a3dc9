import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** What faults did to a fleet. */
export type FaultCounts = {
  faults: Record<string, number>;
  transcriptions: number;
  /** Chunks that have ended, and how many of them ended more than once. */
  chunks: number;
  twice: number;
  /**
   * For each kind of fault, the seconds from its end until all workers took work again. Faults that overlap are left out.
   */
  recoveries: Record<string, number[]>;
};

/** One part of the long form. `problem`: it failed, and what is lost is not known. */
export type RunPart = FaultCounts & { installations: number; seconds: number; problem?: string };

export const NOTHING: FaultCounts = { faults: {}, transcriptions: 0, chunks: 0, twice: 0, recoveries: {} };

export function sumOf(all: readonly FaultCounts[]): FaultCounts {
  const sum = (count: (counts: FaultCounts) => number) => all.reduce((total, each) => total + count(each), 0);
  const faults: Record<string, number> = {};
  const recoveries: Record<string, number[]> = {};
  for (const each of all) {
    for (const [kind, count] of Object.entries(each.faults)) faults[kind] = (faults[kind] ?? 0) + count;
    for (const [kind, times] of Object.entries(each.recoveries)) {
      recoveries[kind] = [...(recoveries[kind] ?? []), ...times];
    }
  }
  return {
    faults,
    recoveries,
    transcriptions: sum(({ transcriptions }) => transcriptions),
    chunks: sum(({ chunks }) => chunks),
    twice: sum(({ twice }) => twice),
  };
}

/** Returns the median and the longest time until all workers took work again, seconds, by the kind of fault. */
export function recoveriesOf({
  recoveries,
}: FaultCounts): Record<string, { median: number; longest: number }> {
  return Object.fromEntries(
    Object.entries(recoveries).map(([kind, times]) => {
      const sorted = times.toSorted((a, b) => a - b);
      return [kind, { median: sorted[sorted.length >> 1] ?? 0, longest: sorted.at(-1) ?? 0 }];
    }),
  );
}

export const faultsOf = ({ faults }: FaultCounts) =>
  Object.values(faults).reduce((sum, count) => sum + count, 0);

/** Adds a part to a file of one part a line, and returns a line with the sums of all parts, also of those that failed. */
export function addPart(path: string, part: RunPart): string {
  appendFileSync(path, `${JSON.stringify(part)}\n`);
  return sumsIn(path);
}

function sumsIn(path: string): string {
  if (!existsSync(path)) return "no parts";
  const parts = readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line): RunPart => ({ ...NOTHING, ...JSON.parse(line) }));
  const total = sumOf(parts);
  return JSON.stringify({
    parts: parts.length,
    failed: parts.filter(({ problem }) => problem !== undefined).length,
    seconds: Math.round(parts.reduce((sum, { seconds }) => sum + seconds, 0)),
    faults: faultsOf(total),
    transcriptions: total.transcriptions,
    ...{ chunks: total.chunks, twice: total.twice, kinds: total.faults, recoveries: recoveriesOf(total) },
  });
}
