import type { TranscriptionResult } from "../../http/wire/schemas.ts";

export type Segment = TranscriptionResult["segments"][number];
export type Gap = NonNullable<TranscriptionResult["gaps"]>[number];
/** A stretch of sound in which no words were found, in seconds. */
export type SilentStretch = { start: number; end: number; channel?: number };

/** A row of the transcript. */
export type Row =
  | { kind: "segment"; start: number | undefined; end: number | undefined; segment: Segment }
  | { kind: "gap"; start: number; end: number; gap: Gap }
  | { kind: "silent"; start: number; end: number; stretch: SilentStretch };

/** Below it a segment is a place to check. Right ones have 0.95 on average, wrong ones 0.72 (src/pipeline/README.md). */
const UNSURE = 0.6;
const A_LITTLE_UNSURE = 0.8;

export type Doubt = "none" | "little" | "strong";

export function doubtOf({ confidence }: Pick<Segment, "confidence">): Doubt {
  if (confidence < UNSURE) return "strong";
  return confidence < A_LITTLE_UNSURE ? "little" : "none";
}

/**
 * Returns the words of a segment as they were said, in the language's own script.
 *
 * @returns undefined: its text has them
 */
export function spokenOf({ text, written = [], native_text: native }: Segment): string | undefined {
  if (native !== undefined) return native;
  if (written.length === 0) return undefined;
  let spoken = "";
  let copied = 0;
  for (const { start, end, spoken: said } of written) {
    spoken += text.slice(copied, start) + said;
    copied = end;
  }
  return spoken + text.slice(copied);
}

/** Puts segments, gaps and sound without words in the order of time. */
export function rowsOf(
  segments: readonly Segment[],
  gaps: readonly Gap[],
  stretches: readonly SilentStretch[],
): Row[] {
  const rows: Row[] = [
    ...segments.map((segment): Row => ({ kind: "segment", start: segment.start, end: segment.end, segment })),
    ...gaps.map((gap): Row => ({ kind: "gap", start: gap.start, end: gap.end, gap })),
    ...stretches.map((stretch): Row => ({ kind: "silent", start: stretch.start, end: stretch.end, stretch })),
  ];
  // Segments without times are in their order already, and nothing else has a place among them.
  if (segments.some(({ start }) => start === undefined)) return rows;
  return rows.sort((a, b) => (a.start ?? 0) - (b.start ?? 0));
}

/** Returns the index of the row that is heard at a time: the last one that has begun; -1 before the first. */
export function rowAt(rows: readonly Row[], seconds: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.start ?? Number.POSITIVE_INFINITY) <= seconds + 0.001) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Whether a person should listen to a row. */
export function isPlace(row: Row, isCorrected: (index: number) => boolean): boolean {
  if (row.kind !== "segment") return true;
  return doubtOf(row.segment) === "strong" && !isCorrected(row.segment.index);
}

/** Whether a row begins with the name of its speaker or channel: the row before is of another one. */
export function hasWho(row: Row, before: Row | undefined): boolean {
  if (row.kind !== "segment") return false;
  const { speaker, channel } = row.segment;
  if (speaker === undefined && channel === undefined) return false;
  if (before?.kind !== "segment") return true;
  return speaker !== before.segment.speaker || channel !== before.segment.channel;
}
