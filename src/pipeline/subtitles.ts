import type { Segment } from "../domain/result.ts";
import { ITEMS_OF_PIECE } from "../lib/text-pieces.ts";
import { type Cue, type CueOptions, voiceOf } from "./cues.ts";
import { divideText } from "./divide-text.ts";
import { fullLines, type LinePiece, piecesOfWord, textOfLine, widthWith } from "./subtitle-lines.ts";
import { cuesOfRun, runsOf, settledMs, staying, type WordCue, type WordRun } from "./subtitle-words.ts";

/**
 * Makes the cues of a segment whose words have no times. A longer segment becomes several cues, which share its time in
 * proportion to their characters. Lines break between words. A word that is longer than a line is cut.
 */
function cuesOfSegment(segment: Segment, options: CueOptions): Cue[] {
  const { maxLines, maxLineCharacters, maxCueMs = Number.POSITIVE_INFINITY } = options;
  const durationMs = segment.endMs - segment.startMs;
  const lines = linesOf(options.labelOf(segment) + segment.text, maxLineCharacters);
  const screens: LinePiece[][][] = [];
  for (let at = 0; at < lines.length; at += maxLines) screens.push(lines.slice(at, at + maxLines));
  // Each screen lasts at least 1 ms. A segment too short for that gets one screen.
  if (screens.length > durationMs) screens.splice(0, screens.length, lines);
  const shares = screens.map((screen) => screen.reduce((sum, line) => sum + widthOfLine(line), 0));
  return spread(segment, shares).flatMap((times, index): Cue[] => {
    const cue = { ...times, lines: screens[index] ?? [], ...voiceOf(segment) };
    return shortened(cue, maxCueMs, maxLineCharacters);
  });
}

function linesOf(text: string, maxWidth: number): LinePiece[][] {
  const words = text.split(/\s+/u).filter((word) => word !== "");
  return fullLines(
    words.flatMap((word) => piecesOfWord(word, true, maxWidth)),
    maxWidth,
  );
}

const widthOfLine = (line: readonly LinePiece[]): number => line.reduce(widthWith, 0);

type Times = Pick<Cue, "startMs" | "endMs">;

/** Divides a time in proportion to shares. Each part gets at least 1 ms, where there is so much. */
function spread({ startMs, endMs }: Times, shares: readonly number[]): Times[] {
  const whole = shares.reduce((sum, share) => sum + share, 0);
  let used = 0;
  let fromMs = startMs;
  return shares.map((share, index) => {
    used += share;
    const shareMs = startMs + Math.round(((endMs - startMs) * used) / whole);
    const latestMs = endMs - (shares.length - 1 - index);
    const times = { startMs: fromMs, endMs: Math.min(Math.max(shareMs, fromMs + 1), latestMs) };
    fromMs = times.endMs;
    return times;
  });
}

/** Divides a cue that would stay too long. What has fewer words than it needs parts ends early. */
function shortened(cue: Cue, maxCueMs: number, maxWidth: number): Cue[] {
  const durationMs = cue.endMs - cue.startMs;
  if (durationMs <= maxCueMs) return [cue];
  const weights = Array<number>(Math.ceil(durationMs / maxCueMs)).fill(1);
  const texts = divideText(textOfLine(cue.lines.flat()), weights).filter((text) => text !== "");
  return spread(cue, weights.slice(0, texts.length)).map(({ startMs, endMs }, index) => ({
    ...cue,
    ...{ startMs, endMs: Math.min(endMs, startMs + maxCueMs) },
    lines: linesOf(texts[index] ?? "", maxWidth),
  }));
}

/** A cue and its place among all, so that cues with one start keep their order. */
type Placed<C extends Cue = Cue> = { cue: C; place: number };

const compare = (a: Placed, b: Placed): number => a.cue.startMs - b.cue.startMs || a.place - b.place;

/** Cues that are waiting until none can come before them. */
function createQueue(options: CueOptions) {
  /** The last cue of each channel: its end is not known before the next one. */
  const last = new Map<number | undefined, Placed<WordCue>>();
  let ready: Placed[] = [];
  let places = 0;

  function end(channel: number | undefined, nextMs: number | undefined): void {
    const placed = last.get(channel);
    last.delete(channel);
    if (placed) ready.push({ ...placed, cue: staying(placed.cue, nextMs, options) });
  }

  return {
    add(run: WordRun): void {
      const { channel } = run;
      if (run.units) {
        for (const cue of cuesOfRun(run, options)) {
          end(channel, cue.startMs);
          last.set(channel, { cue, place: places++ });
        }
        return;
      }
      for (const cue of run.segments.flatMap((segment) => cuesOfSegment(segment, options))) {
        end(channel, cue.startMs);
        ready.push({ cue, place: places++ });
      }
    },
    /** Takes the cues that come before everything of later segments, which begin at `nextMs` or after it. */
    take(nextMs: number): Cue[] {
      for (const [channel, { cue }] of last) if (settledMs(cue, options) <= nextMs) end(channel, undefined);
      const bounds = [...last.values()];
      const isNext = (one: Placed) =>
        one.cue.startMs <= nextMs && bounds.every((bound) => compare(one, bound) < 0);
      const taken = ready.filter(isNext).sort(compare);
      ready = ready.filter((one) => !isNext(one));
      return taken.map(({ cue }) => cue);
    },
  };
}

/**
 * Makes the cues of segments, in pieces and in the order of their starts, which WebVTT demands: a long segment of one
 * channel has cues that begin after those of another channel. Segments whose words have times are cut by words, others in
 * proportion to their characters.
 *
 * @param segments in the order of their starts
 */
export function* cuesInOrder(segments: readonly Segment[], options: CueOptions): Generator<Cue[]> {
  const queue = createQueue(options);
  let made = 0;
  for (const run of runsOf(segments, options)) {
    if (made >= ITEMS_OF_PIECE) {
      made = 0;
      yield queue.take(run.segments[0]?.startMs ?? 0);
    }
    made += run.units?.length ?? 1;
    queue.add(run);
  }
  yield queue.take(Number.POSITIVE_INFINITY);
}
