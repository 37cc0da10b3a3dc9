import type { Segment, Word } from "../domain/result.ts";
import { type Cue, type CueOptions, voiceOf } from "./cues.ts";
import { SENTENCE_ENDS } from "./sentence-ends.ts";
import { balancedLines, fullLines, type LinePiece, piecesOfWord, widthWith } from "./subtitle-lines.ts";

/**
 * Subtitles whose words have times: where they are cut, and how long each stays.
 *
 * Practice that this follows (Netflix Timed Text Style Guide, general requirements): a cue lasts at least 5/6 s and at most
 * 7 s, is read at 17 characters a second, and has no gap of fewer frames than two before the next one.
 */

const MAX_CUE_MS = 7_000;
const MIN_CUE_MS = 833;
const MAX_CHARACTERS_PER_SECOND = 17;
/** A shorter gap between two cues flickers. */
const LEAST_GAP_MS = 80;
/** A pause in which the text goes away. */
const PAUSE_MS = 1_000;
/** A run ends at the next segment after this many words, so that no work is long. */
const MOST_WORDS = 150;

const SENTENCE_END = new RegExp(`[${SENTENCE_ENDS}…。！？][\\])"”’]*$`, "u");
const CLAUSE_END = /[,;:،؛–—、，][\])"”’]*$/u;

/** A word that no cue divides, or a stretch of a word that is wider than a screen. */
type Unit = {
  pieces: LinePiece[];
  startMs: number;
  endMs: number;
  /** Characters to read, without a label. */
  characters: number;
  /** What ends with it. */
  ends: "sentence" | "clause" | "segment" | undefined;
};

/** Segments that are cut into cues together: of one channel and speaker, without a pause between them. */
export type WordRun = {
  channel: number | undefined;
  segments: Segment[];
  /** Undefined: the words have no times, and the run is one segment. */
  units: Unit[] | undefined;
};

/** Divides segments into runs, in their order. */
export function* runsOf(segments: readonly Segment[], options: CueOptions): Generator<WordRun> {
  let open: WordRun | undefined;
  for (const segment of segments) {
    const words = spacedWords(segment);
    if (words && open?.units && isContinued(open, segment, words)) {
      open.segments.push(segment);
      open.units.push(...unitsOf(words, "", options));
      continue;
    }
    if (open) yield open;
    const units = words && unitsOf(words, options.labelOf(segment), options);
    open = { channel: segment.channel, segments: [segment], units };
  }
  if (open) yield open;
}

function isContinued(run: WordRun, { channel, speaker }: Segment, [first]: readonly SpacedWord[]): boolean {
  const before = run.segments.at(-1);
  const last = run.units?.at(-1);
  if (!before || !last || !first || (run.units?.length ?? 0) > MOST_WORDS) return false;
  const isSame = before.channel === channel && before.speaker === speaker;
  return isSame && first.startMs - last.endMs < PAUSE_MS;
}

type SpacedWord = Word & { isSpaced: boolean };

/**
 * Finds the words of a segment in its text.
 *
 * @returns undefined where they have no times, or are not the words of the text, such as after a correction
 */
function spacedWords({ text, words }: Segment): SpacedWord[] | undefined {
  if (!words || words.length === 0) return undefined;
  const found: SpacedWord[] = [];
  let at = 0;
  for (const word of words) {
    const start = at + (/^\s*/u.exec(text.slice(at))?.[0].length ?? 0);
    if (word.text === "" || !text.startsWith(word.text, start)) return undefined;
    found.push({ ...word, isSpaced: start > at || found.length === 0 });
    at = start + word.text.length;
  }
  return text.slice(at).trim() === "" ? found : undefined;
}

function unitsOf(words: readonly SpacedWord[], label: string, options: CueOptions): Unit[] {
  const { maxLineCharacters } = options;
  const labels = label
    .split(/\s+/u)
    .filter((word) => word !== "")
    .flatMap((word) => piecesOfWord(word, true, maxLineCharacters));
  return words.flatMap((word, index) => {
    const startMs = Math.round(word.startMs);
    const [first, ...others] = piecesOfWord(word.text, word.isSpaced, maxLineCharacters);
    if (!first) return [];
    const pieces = [...(index === 0 ? labels : []), { ...first, startMs }, ...others];
    const isLast = index === words.length - 1;
    const unit: Unit = {
      ...{ pieces, startMs, endMs: Math.max(startMs + 1, Math.round(word.endMs)) },
      characters: [first, ...others].reduce((sum, { width }) => sum + width, 0),
      ends: endOf(word.text) ?? (isLast ? "segment" : undefined),
    };
    return unitsOfScreens(unit, options);
  });
}

function endOf(word: string): Unit["ends"] {
  if (SENTENCE_END.test(word)) return "sentence";
  return CLAUSE_END.test(word) ? "clause" : undefined;
}

/** Divides a word that is wider than a screen. The stretches share its time in proportion to their characters. */
function unitsOfScreens(unit: Unit, { maxLineCharacters, maxLines }: CueOptions): Unit[] {
  const lines = fullLines(unit.pieces, maxLineCharacters);
  const count = Math.ceil(lines.length / maxLines);
  const durationMs = unit.endMs - unit.startMs;
  if (count < 2 || durationMs < count) return [unit];
  return Array.from({ length: count }, (_, index): Unit => {
    const pieces = lines.slice(index * maxLines, (index + 1) * maxLines).flat();
    const [from, to] = [index, index + 1].map(
      (share) => unit.startMs + Math.floor((durationMs * share) / count),
    ) as [number, number];
    const ends = index === count - 1 ? unit.ends : undefined;
    return { pieces, startMs: from, endMs: to, characters: widthOfPieces(pieces), ends };
  });
}

const widthOfPieces = (pieces: readonly LinePiece[]) => pieces.reduce(widthWith, 0);

/** A cue whose words have times, and how long it takes to be read. */
export type WordCue = Cue & { readingMs: number };

/** Cuts a run into cues by its words. The cues have the times of their words. */
export function cuesOfRun({ segments, units = [] }: WordRun, options: CueOptions): WordCue[] {
  const voice = segments[0] ? voiceOf(segments[0]) : {};
  return bestCuts(units, options).map(([from, to]) => {
    const own = units.slice(from, to);
    const characters = own.reduce((sum, unit) => sum + unit.characters, own.length - 1);
    return {
      startMs: own[0]?.startMs ?? 0,
      endMs: own.at(-1)?.endMs ?? 0,
      lines: balancedLines(
        own.flatMap(({ pieces }) => pieces),
        options.maxLineCharacters,
      ),
      ...voice,
      readingMs: Math.max(MIN_CUE_MS, (characters * 1000) / MAX_CHARACTERS_PER_SECOND),
    };
  });
}

/**
 * What is bad about a cue, in the unit of one more cue. Found by looking at the subtitles of ten minutes of English that is read: a sentence
 * has its own cue unless it is very short, and a sentence that needs several is cut at its pauses and commas.
 */
const COSTS = {
  cue: 1,
  /** The end of a cue within a clause, at a comma, at the end of a segment. */
  endInClause: 1.5,
  endAtClause: 0.5,
  endAtSegment: 0.4,
  /** The end of a sentence within a cue. */
  sentenceInside: 1.3,
  /** A pause within a cue, for each second. */
  pauseSecond: 2,
  /** A cue that cannot be seen at all. */
  unseen: 1,
  /** A cue that is read twice as fast as it should be. */
  twiceAsFast: 1,
};
/** A pause that is no longer is not heard. */
const UNHEARD_PAUSE_MS = 200;
/** A pause of this length is as good as the end of a sentence. */
const CLEAR_PAUSE_MS = 500;

/**
 * Finds the cuts of a run with the least cost, by dynamic programming over all cues that keep the limits.
 *
 * @returns first unit and the one after the last, for each cue
 */
function bestCuts(units: readonly Unit[], options: CueOptions): [number, number][] {
  const best: { cost: number; from: number }[] = units.map(() => ({
    cost: Number.POSITIVE_INFINITY,
    from: 0,
  }));
  for (let from = 0; from < units.length; from++) {
    const before = from === 0 ? 0 : (best[from - 1]?.cost ?? 0);
    for (const { to, cost } of cuesFrom(units, from, options)) {
      if (before + cost < (best[to - 1]?.cost ?? 0)) best[to - 1] = { cost: before + cost, from };
    }
  }
  const cuts: [number, number][] = [];
  for (let to = units.length; to > 0; to = cuts[0]?.[0] ?? 0) cuts.unshift([best[to - 1]?.from ?? 0, to]);
  return cuts;
}

/** Goes through the cues that begin with a unit and keep the limits, with the cost of each; at least that of the unit alone. */
function* cuesFrom(
  units: readonly Unit[],
  from: number,
  { maxLineCharacters, maxLines, maxCueMs = MAX_CUE_MS }: CueOptions,
): Generator<{ to: number; cost: number }> {
  const startMs = units[from]?.startMs ?? 0;
  let screen = { lines: 1, width: 0 };
  let inside = 0;
  let characters = 0;
  for (let at = from; at < units.length; at++) {
    const unit = units[at] as Unit;
    screen = filled(screen, unit.pieces, maxLineCharacters);
    characters += unit.characters + (at === from ? 0 : 1);
    if (at > from && (screen.lines > maxLines || unit.endMs - startMs > maxCueMs)) return;
    const next = units[at + 1];
    const seenMs = Math.min((next?.startMs ?? Number.POSITIVE_INFINITY) - startMs, maxCueMs);
    yield { to: at + 1, cost: COSTS.cue + inside + costOfEnd(unit, next) + costOfTime(seenMs, characters) };
    if (!next || next.startMs - unit.endMs >= PAUSE_MS) return;
    inside += costInside(unit, next);
  }
}

/** Adds pieces to a screen whose lines are as full as possible. `width` is that of the last line. */
function filled(screen: { lines: number; width: number }, pieces: readonly LinePiece[], maxWidth: number) {
  let { lines, width } = screen;
  for (const piece of pieces) {
    const wider = widthWith(width, piece);
    if (wider > maxWidth && width > 0) lines++;
    width = wider > maxWidth ? piece.width : wider;
  }
  return { lines, width };
}

function costOfEnd({ ends, endMs }: Unit, next: Unit | undefined): number {
  if (!next || ends === "sentence") return 0;
  const pauseMs = next.startMs - endMs;
  const costs = { clause: COSTS.endAtClause, segment: COSTS.endAtSegment };
  const cost = ends === undefined ? COSTS.endInClause : costs[ends];
  return cost * Math.max(0, 1 - pauseMs / CLEAR_PAUSE_MS);
}

function costInside({ ends, endMs }: Unit, next: Unit): number {
  const pauseMs = next.startMs - endMs;
  const pause = pauseMs < UNHEARD_PAUSE_MS ? 0 : (COSTS.pauseSecond * pauseMs) / 1000;
  return pause + (ends === "sentence" ? COSTS.sentenceInside : 0);
}

function costOfTime(seenMs: number, characters: number): number {
  const short = Math.max(0, 1 - seenMs / MIN_CUE_MS);
  const speed = (characters * 1000) / Math.max(1, seenMs) / MAX_CHARACTERS_PER_SECOND;
  return COSTS.unseen * short + COSTS.twiceAsFast * Math.max(0, speed - 1);
}

/**
 * Says how long a cue of words stays: until they are spoken and read, as far as the pause after it allows. A gap that would
 * flicker is closed.
 *
 * @param nextMs start of the next cue of the channel; undefined: there is none
 */
export function staying(cue: WordCue, nextMs: number | undefined, options: CueOptions): Cue {
  const { readingMs, ...shown } = cue;
  const { maxCueMs = MAX_CUE_MS, durationMs = cue.endMs } = options;
  const { startMs } = cue;
  const latestMs = startMs + maxCueMs;
  const pauseEndMs = nextMs ?? Math.max(cue.endMs, durationMs);
  const wantedMs = Math.max(cue.endMs, Math.min(startMs + Math.ceil(readingMs), pauseEndMs));
  let endMs = Math.min(wantedMs, latestMs, nextMs ?? Number.POSITIVE_INFINITY);
  if (nextMs !== undefined && nextMs - endMs < LEAST_GAP_MS)
    endMs = nextMs <= latestMs ? nextMs : nextMs - LEAST_GAP_MS;
  return { ...shown, endMs: Math.max(startMs + 1, endMs) };
}

/** The time after which the next cue of the channel cannot matter for a cue any more. */
export const settledMs = ({ startMs }: Cue, { maxCueMs = MAX_CUE_MS }: CueOptions): number =>
  startMs + maxCueMs + LEAST_GAP_MS;
