import { assign } from "../../lib/assign.ts";

/** A stretch with one speaker, as a person or a program labelled it, with `startMs < endMs`. */
export type LabelledSpan = { startMs: number; endMs: number; speaker: string };

export type DerOptions = {
  /** Time on both sides of each boundary of the reference that is not scored. NIST uses 250. The default is 0. */
  collarMs?: number;
  /** The labelled part of the recording. The default is all of it. */
  evaluatedMs?: { startMs: number; endMs: number };
};

/** Speaker time in milliseconds. Time in which two speak counts twice. */
export type DerScore = {
  /** Speaker time of the reference, after collars. */
  totalMs: number;
  missedMs: number;
  falseAlarmMs: number;
  /** Time with the wrong speaker. */
  confusedMs: number;
  /** (missed + false alarm + confused) / total. 0 without errors, infinite where only the total is 0. */
  errorRate: number;
};

type Slice = { durationMs: number; reference: readonly string[]; hypothesis: readonly string[] };

/**
 * Computes the diarization error rate as NIST defines it ("The 2009 (RT-09) Rich Transcription Meeting Recognition Evaluation
 * Plan", section 5.1.2): over all stretches without a boundary inside, Σ duration × (max(reference speakers,
 * hypothesised speakers) − correct speakers) / Σ duration × reference speakers, under the one-to-one mapping of
 * speakers that gives the most common time. Overlapped speech is scored. Spans of one speaker that overlap or touch
 * count as one.
 */
export function scoreDiarization(
  reference: readonly LabelledSpan[],
  hypothesis: readonly LabelledSpan[],
  options: DerOptions = {},
): DerScore {
  const slices = sliceUp(joinSpans(reference), joinSpans(hypothesis), options);
  const mapping = mapSpeakers(slices);
  const score = { totalMs: 0, missedMs: 0, falseAlarmMs: 0, confusedMs: 0 };
  for (const slice of slices) {
    const said = slice.reference.length;
    const heard = slice.hypothesis.length;
    const correct = slice.hypothesis.filter((speaker) => {
      const mapped = mapping.get(speaker);
      return mapped !== undefined && slice.reference.includes(mapped);
    }).length;
    score.totalMs += slice.durationMs * said;
    score.missedMs += slice.durationMs * Math.max(0, said - heard);
    score.falseAlarmMs += slice.durationMs * Math.max(0, heard - said);
    score.confusedMs += slice.durationMs * (Math.min(said, heard) - correct);
  }
  return { ...score, errorRate: rateOf(score) };
}

/** Adds the scores of several recordings. The speakers of each were mapped separately. */
export function sumScores(scores: readonly DerScore[]): DerScore {
  const sum = { totalMs: 0, missedMs: 0, falseAlarmMs: 0, confusedMs: 0 };
  for (const score of scores) {
    sum.totalMs += score.totalMs;
    sum.missedMs += score.missedMs;
    sum.falseAlarmMs += score.falseAlarmMs;
    sum.confusedMs += score.confusedMs;
  }
  return { ...sum, errorRate: rateOf(sum) };
}

function rateOf(times: Omit<DerScore, "errorRate">): number {
  const errorMs = times.missedMs + times.falseAlarmMs + times.confusedMs;
  if (errorMs === 0) return 0;
  return times.totalMs === 0 ? Number.POSITIVE_INFINITY : errorMs / times.totalMs;
}

/** Joins spans of one speaker that overlap or touch. */
function joinSpans(spans: readonly LabelledSpan[]): LabelledSpan[] {
  const joined: LabelledSpan[] = [];
  const lastOf = new Map<string, LabelledSpan>();
  for (const span of spans.toSorted((a, b) => a.startMs - b.startMs)) {
    if (span.endMs <= span.startMs) continue;
    const last = lastOf.get(span.speaker);
    if (last && span.startMs <= last.endMs) {
      last.endMs = Math.max(last.endMs, span.endMs);
      continue;
    }
    const own = { ...span };
    lastOf.set(span.speaker, own);
    joined.push(own);
  }
  return joined;
}

/** Cuts the scored time wherever a span begins or ends. */
function sliceUp(
  reference: readonly LabelledSpan[],
  hypothesis: readonly LabelledSpan[],
  { collarMs = 0, evaluatedMs }: DerOptions,
): Slice[] {
  const excluded =
    collarMs === 0
      ? []
      : reference
          .flatMap(({ startMs, endMs }) => [startMs, endMs])
          .map((atMs) => ({ startMs: atMs - collarMs, endMs: atMs + collarMs }));
  const whole = evaluatedMs ?? { startMs: Number.NEGATIVE_INFINITY, endMs: Number.POSITIVE_INFINITY };
  const cuts = new Set<number>();
  for (const { startMs, endMs } of [
    ...reference,
    ...hypothesis,
    ...excluded,
    ...(evaluatedMs ? [whole] : []),
  ]) {
    cuts.add(startMs);
    cuts.add(endMs);
  }
  const times = [...cuts].sort((a, b) => a - b);
  const slices: Slice[] = [];
  for (const [index, startMs] of times.entries()) {
    const endMs = times[index + 1];
    if (endMs === undefined || startMs < whole.startMs || endMs > whole.endMs) continue;
    const covers = (span: { startMs: number; endMs: number }) =>
      span.startMs <= startMs && span.endMs >= endMs;
    if (excluded.some(covers)) continue;
    slices.push({
      durationMs: endMs - startMs,
      reference: reference.filter(covers).map(({ speaker }) => speaker),
      hypothesis: hypothesis.filter(covers).map(({ speaker }) => speaker),
    });
  }
  return slices;
}

/** Maps speakers of the hypothesis to speakers of the reference so that the common time is the longest possible. */
function mapSpeakers(slices: readonly Slice[]): Map<string, string> {
  const references = [...new Set(slices.flatMap((slice) => slice.reference))];
  const hypotheses = [...new Set(slices.flatMap((slice) => slice.hypothesis))];
  const commonMs = hypotheses.map((heard) =>
    references.map((said) =>
      slices
        .filter((slice) => slice.hypothesis.includes(heard) && slice.reference.includes(said))
        .reduce((sum, { durationMs }) => sum + durationMs, 0),
    ),
  );
  const mapping = new Map<string, string>();
  for (const [row, column] of assign(commonMs).entries()) {
    const [heard, said] = [hypotheses[row], references[column]];
    if (heard !== undefined && said !== undefined && (commonMs[row]?.[column] ?? 0) > 0)
      mapping.set(heard, said);
  }
  return mapping;
}

/**
 * Reads RTTM ("The 2009 (RT-09) … Evaluation Plan", appendix A): lines `SPEAKER file channel start duration <NA> <NA>
 * name …`, times in seconds. Other types of lines are ignored.
 *
 * @returns spans by file, in the order of the lines
 * @throws Error naming the line that cannot be read
 */
export function parseRttm(text: string): Map<string, LabelledSpan[]> {
  const files = new Map<string, LabelledSpan[]>();
  for (const [index, line] of text.split("\n").entries()) {
    const fields = line.trim().split(/\s+/);
    if (fields[0] !== "SPEAKER") continue;
    const [, file, , start, duration, , , speaker] = fields;
    const startMs = Math.round(Number(start) * 1000);
    const endMs = Math.round((Number(start) + Number(duration)) * 1000);
    if (file === undefined || speaker === undefined || !Number.isFinite(startMs) || !(endMs > startMs)) {
      throw new Error(`line ${index + 1} of the RTTM cannot be read: ${line}`);
    }
    const spans = files.get(file) ?? [];
    spans.push({ startMs, endMs, speaker });
    files.set(file, spans);
  }
  return files;
}
