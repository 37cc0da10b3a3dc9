import { isDeepStrictEqual } from "node:util";
import type { Chunk, ChunkRegion } from "../domain/chunk.ts";
import type { ModelManifest } from "../domain/model.ts";
import type { Recognition, RecognizedSegment, RecognizerSettings } from "../domain/recognition.ts";
import type { ChunkDoubts, Warning } from "../domain/result.ts";
import { type TranscriptionRequest, textLanguageOf } from "../domain/transcription.ts";
import { createChunkEffort } from "./chunk-effort.ts";
import { type Covered, joinedSpans, speechToTryAgain, withFound } from "./coverage.ts";
import type { FamilyRules } from "./family-rules.ts";
import { hasLoop, isNoSpeech, isSuspectedHallucination, removeLoops, speechCoverage } from "./guards.ts";
import { lengthMs, spanOf } from "./spans.ts";
import { spokenLanguages } from "./spoken-language.ts";
import { type LooseSegment, stitchChunk } from "./stitch.ts";
import { carryThrough, withWords, wordsOfText } from "./timed-words.ts";
import { hasForeignScript } from "./wording.ts";

/** The text of a chunk, on the recording's clock, and what is to be known about it. */
export type ChunkText = { segments: LooseSegment[]; warnings: Warning[]; doubts: ChunkDoubts };

/**
 * Recognizes regions of the chunk's channel. Times are milliseconds from the start of the audio as `layoutChunk` lays it
 * out. Letters and code of the language may be the model's own. The settings limit the effort.
 */
export type Recognize = (
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
) => Promise<Recognition>;
/** The same, within what is left of the chunk's budget. Without any, nothing is found. */
type Attempt = (
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
) => Promise<RecognizedSegment[]>;

/** What the chunks of a recording share. */
export type GuardTask = {
  model: Pick<ModelManifest, "languages" | "decoding">;
  family: FamilyRules;
  /** Words have times with `timestamps=word`. Left out: they have none. */
  request: Pick<TranscriptionRequest, "language" | "mode" | "channelMode" | "task"> &
    Partial<Pick<TranscriptionRequest, "timestamps">>;
  durationMs: number;
  /** Text of a lower confidence than the model's floor stays in the transcript; left out: it does not. */
  keepsDoubtful?: boolean;
};
type GuardedChunk = Pick<Chunk, "regions"> & { channel: number };

/**
 * Recognizes a chunk and checks the text with guards.
 *
 * - A chunk with a loop or with text in a wrong script is recognized once more with other settings. If the fault is still
 *   there, the loop is cut, and a wrong script leads to a warning.
 * - Speech without text, and speech with too few letters for its length, is recognized again by itself: models leave out a
 *   sentence in one cut and write it in another. Where the same audio is left, it is recognized once more with other
 *   settings, and then no more.
 * - All attempts share the chunk's budget (`chunk-effort.ts`), and end with it.
 * - Deterministic families have no other settings, so the same audio is not given to them twice, and pauses of up to 2 s between
 *   two segments of a region are not given to them at all.
 * - Text below the floor of confidence is left out, and its speech is not recognized again. It and speech that stays
 *   without text are in `doubts`.
 *
 * @throws errors of `recognize`
 */
export async function recognizeGuarded(
  task: GuardTask,
  chunk: GuardedChunk,
  recognize: Recognize,
): Promise<ChunkText> {
  const { regions } = chunk;
  const warnings = new Set<Warning>();
  const effort = createChunkEffort(regions);
  const attempt: Attempt = async (parts, settings) => {
    const limit = effort.left();
    if (!limit) return [];
    const recognition = await recognize(parts, { ...settings, effort: limit });
    effort.add(recognition, parts);
    return recognition.segments;
  };
  const settings: RecognizerSettings = {
    ...task.family.settingsFor(task.request, task.model),
    ...(wantsWords(task) ? { words: true } : {}),
  };
  const first = await recognizeChecked(task, regions, settings, attempt, warnings);
  const doubtful = stitch(task, chunk, regions, first.unknown);
  let covered: Covered = { segments: stitch(task, chunk, regions, first.known), settled: new Set() };
  let tried: readonly ChunkRegion[] = regions;
  while (effort.left()) {
    const again = speechToTryAgain(regions, covered, doubtful, pauseBetweenMsOf(task.family));
    const isSame = covered.segments.length === 0 || isDeepStrictEqual(again, tried);
    const change = isSame ? task.family.secondAttempt?.(settings) : settings;
    if (again.length === 0 || !change) break;
    const found = await recognizeChecked(task, again, change, attempt, warnings);
    covered = withFound(covered, again, stitch(task, chunk, again, found.known));
    doubtful.push(...stitch(task, chunk, again, found.unknown));
    if (isSame) break;
    tried = again;
  }
  const { segments } = covered;
  const { uncovered } = speechCoverage(regions, [...segments, ...doubtful]);
  const unrecognized = joinedSpans([...doubtful, ...uncovered.map(spanOf)]);
  const kept = task.keepsDoubtful ? doubtful.filter(({ text }) => text !== UNKNOWN_TEXT) : [];
  return {
    segments: [...segments, ...kept].sort((a, b) => a.startMs - b.startMs),
    warnings: [...warnings],
    doubts: {
      unrecognized,
      languages: spokenLanguages([...first.known, ...first.unknown], task.model, task.request.language),
    },
  };
}

/** Whisper writes times over pauses, so a second without a segment is speech that it left out. */
const PAUSE_MS = 1_000;
/**
 * Segments of deterministic families end with their last token, before the last syllable does. A hesitation between two is longer
 * than a second with it, and shorter than a sentence. At the edges of a region there is no hesitation: syllable and margin of the
 * speech detector are less than a second there, and more may be a word.
 */
const PAUSE_BETWEEN_TOKENS_MS = 2_000;

const pauseBetweenMsOf = (family: FamilyRules): number =>
  family.secondAttempt ? PAUSE_MS : PAUSE_BETWEEN_TOKENS_MS;

/** Settings without word times are those of earlier versions, so that the same job has the same name. */
const wantsWords = ({ request }: GuardTask) => request.timestamps === "word";

/** The segments of a model: those with words, and those that represent speech that the model does not know. */
type DividedSegments = { known: RecognizedSegment[]; unknown: RecognizedSegment[] };

/** Recognizes regions, repeats faulty text once, and drops or marks what the guards reject. Adds to `warnings`. */
async function recognizeChecked(
  task: GuardTask,
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
  attempt: Attempt,
  warnings: Set<Warning>,
): Promise<DividedSegments> {
  const { request, family } = task;
  let divided = divideKnown(await attempt(regions, settings), task);
  const textOf = (segments: readonly RecognizedSegment[]) =>
    segments.map((segment) => segment.text).join(" ");
  const isForeign = (text: string) => hasForeignScript(text, textLanguageOf(request), request.mode);
  const faultsOf = (segments: readonly RecognizedSegment[]) => ({
    isLoop: hasLoop(segments),
    isForeign: isForeign(textOf(segments)),
  });
  let faults = faultsOf(divided.known);
  const otherSettings = faults.isLoop || faults.isForeign ? family.secondAttempt?.(settings) : undefined;
  if (otherSettings) {
    const again = divideKnown(await attempt(regions, otherSettings), task);
    const second = faultsOf(again.known);
    const isBetter =
      Number(second.isLoop) + Number(second.isForeign) < Number(faults.isLoop) + Number(faults.isForeign);
    if (isBetter && again.known.length > 0) [divided, faults] = [again, second];
  }
  if (faults.isLoop) warnings.add("repetition_removed");
  const { segments } = removeLoops(divided.known);
  if (isForeign(textOf(segments))) warnings.add("script_mismatch");
  const speechMs = lengthMs(regions);
  const isSpeech = (segment: RecognizedSegment) => !isNoSpeech(segment);
  const spoken = segments.filter(isSpeech);
  // Text below the floor may be invented, too.
  const unknown = divided.unknown.filter(isSpeech);
  const dropped = segments.length - spoken.length + divided.unknown.length - unknown.length;
  if (dropped > 0) warnings.add("suspected_hallucination");
  for (const segment of spoken) {
    const spokenMs = Math.min(speechMs, segment.endMs - segment.startMs);
    if (isSuspectedHallucination({ ...segment, speechMs: spokenMs })) warnings.add("suspected_hallucination");
  }
  return { known: spoken, unknown };
}

function stitch(
  { request, durationMs }: GuardTask,
  chunk: GuardedChunk,
  regions: readonly ChunkRegion[],
  recognized: readonly RecognizedSegment[],
): LooseSegment[] {
  return stitchChunk(recognized, {
    regions,
    durationMs,
    ...(request.channelMode === "separate" ? { channel: chunk.channel } : {}),
  });
}

/** The text of speech that a model does not know. With it, the time of the speech is kept. */
const UNKNOWN_TEXT = "…";

/**
 * Separates the segments that represent unknown speech: those without known words, and those below the floor. All get the
 * letters and the code of the text's language. Their words are those of their text, and absent where the request asks for none.
 */
function divideKnown(recognized: readonly RecognizedSegment[], task: GuardTask): DividedSegments {
  const { model, family, request } = task;
  const { unknownToken, unknownBelow = family.unknownBelow } = model.decoding;
  const language = textLanguageOf(request);
  const known: RecognizedSegment[] = [];
  const unknown: RecognizedSegment[] = [];
  for (const found of recognized) {
    const segment = { ...found, language };
    const written = family.inOwnLetters?.(found.text, { language }, model) ?? found.text;
    const text = unknownToken ? written.replaceAll(unknownToken, " ").replace(/\s+/g, " ") : written;
    const words = wantsWords(task) ? wordsOfText(found.words, found.text) : undefined;
    const carried = withWords({ ...segment, text }, carryThrough(words, [written, text]));
    const isKnown = segment.confidence >= unknownBelow && (text.trim() !== "" || text === written);
    if (isKnown) known.push(carried);
    else if (text.trim() !== "") unknown.push(carried);
    else unknown.push(withWords({ ...segment, text: UNKNOWN_TEXT }, undefined));
  }
  return { known, unknown };
}
