import type { Word } from "../domain/result.ts";
import { divideText } from "./divide-text.ts";
import type { LooseSegment } from "./stitch.ts";
import { divideAtWords, withWords } from "./timed-words.ts";

/** A stretch with one speaker, milliseconds of the recording. Turns of different speakers may overlap. */
export type Turn = {
  startMs: number;
  endMs: number;
  /** Number of the speaker, from 0, as the diarizer counts. */
  speaker: number;
};

/** A turn that takes less of a segment than this is a back-channel such as "yes", or an inaccuracy of the times. */
const MIN_TURN_MS = 500;
/** So is a turn that takes less than this share of a segment whose words have no times. */
const MIN_TURN_SHARE = 0.1;

type Share = { startMs: number; endMs: number; speaker: number };

/**
 * Labels segments with speakers.
 *
 * A segment belongs to the speaker whose turns overlap it most. Where another speaker has a real part of it (0.5 s, and a
 * tenth where words have no times), the segment is divided at the turns: between words by their times, or in proportion to time. A segment that no turn
 * touches belongs to the nearest turn. Where two speakers talk at once, the time belongs to the turn that began first,
 * so that an interjection does not break a sentence.
 *
 * @param segments on the recording's clock; those of one channel are in order
 * @param turns by channel, in order of time; the numbers of speakers are counted over all channels
 * @returns segments by start, then channel; `speaker` is `speaker_1`, … in order of first appearance, and absent where
 *   the channel has no turns
 */
export function joinSpeakers(
  segments: readonly LooseSegment[],
  turns: readonly (readonly Turn[])[],
): LooseSegment[] {
  const parts = turns.flatMap((turnsOfChannel, channel) =>
    divideAtTurns(
      segments.filter((segment) => (segment.channel ?? 0) === channel),
      turnsOfChannel,
    ),
  );
  const channelOf = ({ segment }: SpokenPart) => segment.channel ?? 0;
  parts.sort((a, b) => a.segment.startMs - b.segment.startMs || channelOf(a) - channelOf(b));
  return label(parts);
}

/** Returns the tracks for the diarizer: the audio of each channel, and the speech that was found in it. */
export function speechByChannel<Region>(
  pcmPaths: readonly string[],
  chunks: readonly { channel: number; regions: readonly Region[] }[],
): { pcmPath: string; regions: Region[] }[] {
  return pcmPaths.map((pcmPath, channel) => ({
    pcmPath,
    regions: chunks.filter((chunk) => chunk.channel === channel).flatMap(({ regions }) => [...regions]),
  }));
}

/** A segment or a part of one, and its speaker, which is undefined without turns. */
type SpokenPart = { segment: LooseSegment; speaker: number | undefined };

function divideAtTurns(segments: readonly LooseSegment[], turns: readonly Turn[]): SpokenPart[] {
  if (turns.length === 0) return segments.map((segment) => ({ segment: { ...segment }, speaker: undefined }));
  const order = orderTurns(turns);
  const parts: SpokenPart[] = [];
  for (const segment of segments) {
    const shares = sharesOf(segment, order);
    if (segment.words) {
      parts.push(...partsByWords(segment, segment.words, shares));
      continue;
    }
    const texts = divideText(
      segment.text,
      shares.map(({ startMs, endMs }) => endMs - startMs),
    );
    const isDivided = shares.length > 1 && texts.every((text) => text !== "");
    if (!isDivided) {
      parts.push({ segment: { ...segment }, speaker: longest(shares) });
      continue;
    }
    for (const [index, { startMs, endMs, speaker }] of shares.entries()) {
      parts.push({ segment: { ...segment, startMs, endMs, text: texts[index] ?? "" }, speaker });
    }
  }
  return parts;
}

/**
 * Divides a segment between the speakers of its words. A word belongs to the share in which its middle is. A part ends at the
 * turn's end, or at its last word where that is later.
 */
function partsByWords(segment: LooseSegment, words: readonly Word[], shares: readonly Share[]): SpokenPart[] {
  const shareOf = (word: Word) =>
    shares.find((share) => (word.startMs + word.endMs) / 2 < share.endMs) ?? shares.at(-1);
  const divided = divideAtWords(segment.text, words, (word) => shareOf(word)?.speaker);
  let fromMs = segment.startMs;
  return divided.map(({ text, words: own, owner: speaker }, index) => {
    const [last, next] = [own.at(-1), divided[index + 1]?.words[0]];
    const turnEndMs = (last && shareOf(last)?.endMs) ?? segment.endMs;
    const endMs = last && next ? Math.min(Math.max(turnEndMs, last.endMs), next.startMs) : segment.endMs;
    const part = withWords({ ...segment, startMs: fromMs, endMs, text }, own);
    fromMs = endMs;
    return { segment: part, speaker };
  });
}

/** Turns by their start. A long recording has tens of thousands, so those around a segment are looked up. */
type OrderedTurns = {
  turns: readonly Turn[];
  /** For each turn the one that ends last among it and those before. */
  latest: readonly Turn[];
};

function orderTurns(turns: readonly Turn[]): OrderedTurns {
  const sorted = turns.toSorted((a, b) => a.startMs - b.startMs || a.endMs - b.endMs);
  const latest: Turn[] = [];
  for (const turn of sorted) {
    const before = latest.at(-1);
    latest.push(before && before.endMs >= turn.endMs ? before : turn);
  }
  return { turns: sorted, latest };
}

/** Returns the position of the first turn for which a test holds that holds for all later ones, too; else their number. */
function firstOf(turns: readonly Turn[], test: (turn: Turn) => boolean): number {
  let [low, high] = [0, turns.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const turn = turns[middle];
    if (turn && test(turn)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function label(parts: readonly SpokenPart[]): LooseSegment[] {
  const labels = new Map<number, string>();
  return parts.map(({ segment, speaker }) => {
    if (speaker === undefined) return segment;
    const name = labels.get(speaker) ?? `speaker_${labels.size + 1}`;
    labels.set(speaker, name);
    return { ...segment, speaker: name };
  });
}

/** Divides a segment's time between speakers, without turns that are too short. The shares fill the segment exactly. */
function sharesOf(segment: LooseSegment, turns: OrderedTurns): Share[] {
  const runs = talkingIn(segment, turns);
  if (runs.length === 0) {
    return [{ startMs: segment.startMs, endMs: segment.endMs, speaker: nearest(segment, turns) }];
  }
  const length = segment.endMs - segment.startMs;
  const minShare = segment.words ? 0 : MIN_TURN_SHARE;
  const real = runs.filter(
    ({ startMs, endMs }) => endMs - startMs >= MIN_TURN_MS && endMs - startMs >= minShare * length,
  );
  const kept = real.length > 0 ? real : [{ startMs: 0, endMs: 1, speaker: longest(runs) }];
  const shares: Share[] = [];
  for (const run of kept) {
    const previous = shares.at(-1);
    if (previous?.speaker === run.speaker) {
      previous.endMs = run.endMs;
      continue;
    }
    // The time between two speakers is divided between them.
    const boundary = previous ? Math.round((previous.endMs + run.startMs) / 2) : segment.startMs;
    if (previous) previous.endMs = boundary;
    shares.push({ startMs: boundary, endMs: run.endMs, speaker: run.speaker });
  }
  const last = shares.at(-1);
  if (last) last.endMs = segment.endMs;
  return shares;
}

/** Returns the turns within a segment, one speaker at a time. A speaker keeps the time until the turn ends. */
function talkingIn(segment: LooseSegment, { turns, latest }: OrderedTurns): Share[] {
  const runs: Share[] = [];
  let atMs = segment.startMs;
  const from = firstOf(latest, ({ endMs }) => endMs > segment.startMs);
  for (let index = from; index < turns.length; index++) {
    const turn = turns[index];
    if (!turn || turn.startMs >= segment.endMs) break;
    const startMs = Math.max(turn.startMs, atMs);
    const endMs = Math.min(turn.endMs, segment.endMs);
    if (endMs <= startMs) continue;
    const previous = runs.at(-1);
    if (previous && previous.speaker === turn.speaker) previous.endMs = endMs;
    else runs.push({ startMs, endMs, speaker: turn.speaker });
    atMs = endMs;
  }
  return runs;
}

function longest(shares: readonly Share[]): number {
  const times = new Map<number, number>();
  for (const { speaker, startMs, endMs } of shares) {
    times.set(speaker, (times.get(speaker) ?? 0) + endMs - startMs);
  }
  let best = shares[0]?.speaker ?? 0;
  for (const [speaker, ms] of times) if (ms > (times.get(best) ?? 0)) best = speaker;
  return best;
}

/** Returns the speaker of the turn nearest to a segment that no turn touches. */
function nearest(segment: LooseSegment, { turns, latest }: OrderedTurns): number {
  const next = firstOf(turns, ({ startMs }) => startMs >= segment.endMs);
  const [before, after] = [latest[next - 1], turns[next]];
  if (!before || !after) return (before ?? after)?.speaker ?? 0;
  return after.startMs - segment.endMs < segment.startMs - before.endMs ? after.speaker : before.speaker;
}
