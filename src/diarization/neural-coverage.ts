import { SAMPLE_RATE_HZ, SPLICE_SAMPLES } from "../domain/chunk.ts";
import type { SpeechRegion } from "../domain/speech.ts";
import type { SpeakerTurn } from "./job.ts";

/**
 * The speech detector adds silence around speech. This much of it at each edge is taken off again before its regions are
 * compared with turns. Measured on six conversations of readers, DER with 0, 100, 200 and 300 ms taken off: 5.7, 5.8, 7.0
 * and 8.3 %; without any coverage 9.2 %. With 100 ms nothing is added to the pauses.
 */
const TAKEN_OFF_MS = 100;
/**
 * A shorter turn is a back-channel such as "yes". Speech beside it belongs to a longer turn that is as near as this, else the
 * back-channel would become so long that it cuts the other's sentence in two.
 */
const BACK_CHANNEL_MS = 500;

type Stretch = { startMs: number; endMs: number };

/**
 * Adds to turns the speech that the segmentation has not heard and the speech detector has: quiet beginnings and ends,
 * telephone sound, far microphones. It belongs to the nearest turn; between turns of two people that both touch it, each
 * gets the half at its side. Without any turn nothing is added: where the segmentation hears no speaker, the detector has
 * mostly taken music or noise for speech. A back-channel stays short where another's turn is near.
 *
 * @param turns turns of one track in order of time
 * @param regions what the speech detector has heard in the track, in order
 * @returns turns in order of time; those of one person that touch are one
 */
export function coverSpeech(turns: readonly SpeakerTurn[], regions: readonly SpeechRegion[]): SpeakerTurn[] {
  const added = uncovered(withoutPadding(regions), turns).flatMap((gap) => fill(gap));
  return joined([...turns, ...added]);
}

/** Returns whole milliseconds. Edges at which a region was cut have no padding. */
function withoutPadding(regions: readonly SpeechRegion[]): Stretch[] {
  const isApart = (end: number | undefined, start: number | undefined) =>
    end === undefined || start === undefined || start - end > SPLICE_SAMPLES;
  return regions.flatMap(({ startSample, endSample }, index) => {
    const isOpenBefore = isApart(regions[index - 1]?.endSample, startSample);
    const isOpenAfter = isApart(endSample, regions[index + 1]?.startSample);
    const startMs = toMs(startSample) + (isOpenBefore ? TAKEN_OFF_MS : 0);
    const endMs = toMs(endSample) - (isOpenAfter ? TAKEN_OFF_MS : 0);
    return endMs > startMs ? [{ startMs, endMs }] : [];
  });
}

const toMs = (samples: number): number => Math.round((samples * 1000) / SAMPLE_RATE_HZ);

/** Speech without a turn, the turn that ends last before it, and the one that begins first after it. */
type Gap = Stretch & { before: SpeakerTurn | undefined; after: SpeakerTurn | undefined };

function uncovered(speech: readonly Stretch[], turns: readonly SpeakerTurn[]): Gap[] {
  const gaps: Gap[] = [];
  let next = 0;
  let latest: SpeakerTurn | undefined;
  for (const { startMs, endMs } of speech) {
    let atMs = startMs;
    while (atMs < endMs) {
      for (let turn = turns[next]; turn && turn.startMs <= atMs; turn = turns[++next]) {
        if (latest === undefined || turn.endMs > latest.endMs) latest = turn;
      }
      const after = turns[next];
      if (latest !== undefined && latest.endMs > atMs) {
        atMs = latest.endMs;
        continue;
      }
      const untilMs = Math.min(endMs, after?.startMs ?? endMs);
      gaps.push({ startMs: atMs, endMs: untilMs, before: latest, after });
      atMs = untilMs;
    }
  }
  return gaps;
}

/** Gives a stretch to the nearest turn, or its halves to the two that touch it; to a back-channel only where no longer turn is near. */
function fill({ startMs, endMs, before, after }: Gap): SpeakerTurn[] {
  const sinceMs = before ? startMs - before.endMs : Number.POSITIVE_INFINITY;
  const untilMs = after ? after.startMs - endMs : Number.POSITIVE_INFINITY;
  const isOnlyBefore = isBackChannel(after) && sinceMs < BACK_CHANNEL_MS && !isBackChannel(before);
  const isOnlyAfter = isBackChannel(before) && untilMs < BACK_CHANNEL_MS && !isBackChannel(after);
  if (isOnlyBefore) return fill({ startMs, endMs, before, after: undefined });
  if (isOnlyAfter) return fill({ startMs, endMs, before: undefined, after });
  const nearest = sinceMs <= untilMs ? before : after;
  if (!nearest) return [];
  const middleMs = Math.round((startMs + endMs) / 2);
  const isBetween = before && after && sinceMs === 0 && untilMs === 0;
  if (!isBetween || endMs - startMs < 2) return [{ startMs, endMs, speaker: nearest.speaker }];
  return [
    { startMs, endMs: middleMs, speaker: before.speaker },
    { startMs: middleMs, endMs, speaker: after.speaker },
  ];
}

function isBackChannel(turn: SpeakerTurn | undefined): boolean {
  return turn !== undefined && turn.endMs - turn.startMs < BACK_CHANNEL_MS;
}

/** Joins turns of one person that touch or overlap. */
function joined(turns: readonly SpeakerTurn[]): SpeakerTurn[] {
  const order = turns.toSorted((one, other) => one.startMs - other.startMs || one.speaker - other.speaker);
  const last = new Map<number, SpeakerTurn>();
  const result: SpeakerTurn[] = [];
  for (const turn of order) {
    const before = last.get(turn.speaker);
    if (before && turn.startMs <= before.endMs) {
      before.endMs = Math.max(before.endMs, turn.endMs);
      continue;
    }
    const own = { ...turn };
    last.set(turn.speaker, own);
    result.push(own);
  }
  return result;
}
