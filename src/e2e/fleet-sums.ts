import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** What faults did to a fleet. */
export type Numbers = {
  faults: Record<string, number>;
  transcriptions: number;
  /** Chunks that have ended, and how many of them ended more than once. */
  chunks: number;
  twice: number;
};

/** One part of the long form. `problem`: it failed, and what is lost is not known. */
export type Part = Numbers & { installations: number; seconds: number; problem?: string };

export const NOTHING: Numbers = { faults: {}, transcriptions: 0, chunks: 0, twice: 0 };

export function sumOf(all: readonly Numbers[]): Numbers {
  const sum = (count: (numbers: Numbers) => number) => all.reduce((total, each) => total + count(each), 0);
  const faults: Record<string, number> = {};
  for (const each of all) {
    for (const [kind, count] of Object.entries(each.faults)) faults[kind] = (faults[kind] ?? 0) + count;
  }
  return {
    faults,
    transcriptions: sum(({ transcriptions }) => transcriptions),
    chunks: sum(({ chunks }) => chunks),
    twice: sum(({ twice }) => twice),
  };
}

export const faultsOf = ({ faults }: Numbers) => Object.values(faults).reduce((sum, count) => sum + count, 0);

/** Adds a part to a file of one part a line, and returns a line with the sums of all parts, also of those that failed. */
export function addPart(path: string, part: Part): string {
  appendFileSync(path, `${JSON.stringify(part)}\n`);
  return sumsIn(path);
}

function sumsIn(path: string): string {
  if (!existsSync(path)) return "no parts";
  const parts = readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Part);
  const total = sumOf(parts);
  return JSON.stringify({
    parts: parts.length,
    failed: parts.filter(({ problem }) => problem !== undefined).length,
    seconds: Math.round(parts.reduce((sum, { seconds }) => sum + seconds, 0)),
    faults: faultsOf(total),
    transcriptions: total.transcriptions,
    ...{ chunks: total.chunks, twice: total.twice, kinds: total.faults },
  });
}
