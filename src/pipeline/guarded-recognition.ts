import { type Chunk, type ChunkRegion, SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { ModelManifest } from "../domain/model.ts";
import type { RecognizedSegment, RecognizerSettings } from "../domain/recognition.ts";
import type { Warning } from "../domain/result.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import type { ModelFamily } from "./families/family.ts";
import { isNoSpeech, isRepetitive, isSuspectedHallucination, removeLoops, speechCoverage } from "./guards.ts";
import { type LooseSegment, stitchChunk } from "./stitch.ts";
import { hasForeignScript } from "./wording.ts";

const SAMPLES_PER_MS = SAMPLE_RATE_HZ / 1000;

/** The text of a chunk, on the recording's clock, and the warnings about it. */
export type ChunkText = { segments: LooseSegment[]; warnings: Warning[] };

/** Recognizes regions of the chunk's channel. Times are milliseconds from the start of the audio as `layoutChunk` lays it out. */
export type Recognize = (
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
) => Promise<RecognizedSegment[]>;

/** What the chunks of a recording share. */
export type GuardTask = {
  model: Pick<ModelManifest, "languages" | "decoding">;
  family: ModelFamily;
  request: Pick<TranscriptionRequest, "language" | "mode" | "channelMode">;
  durationMs: number;
};
type GuardedChunk = Pick<Chunk, "regions"> & { channel: number };

/**
 * Recognizes a chunk and checks the text with guards.
 *
 * - A chunk with a loop or with text in a wrong script is recognized once more with other settings. If the fault is still
 *   there, the loop is cut, and a wrong script leads to a warning.
 * - Speech without text is recognized once more by itself. If the whole chunk has no text, it is recognized once more
 *   with other settings.
 * - Deterministic families have no other settings, so the same audio is not given to them twice.
 * - Speech that the model marks as unknown does not count as speech without text.
 *
 * @throws errors of `recognize`
 */
export async function recognizeGuarded(
  task: GuardTask,
  chunk: GuardedChunk,
  recognize: Recognize,
): Promise<ChunkText> {
  const { family } = task;
  const settings = family.settingsFor(task.request, task.model);
  const warnings = new Set<Warning>();
  const { known, unknown } = await recognizeChecked(task, chunk.regions, settings, recognize, warnings);
  const segments = stitch(task, chunk, chunk.regions, known);
  const { uncovered } = speechCoverage(chunk.regions, [
    ...segments,
    ...stitch(task, chunk, chunk.regions, unknown),
  ]);
  // The same audio with the same settings would give no text again. A part of it is other audio.
  const again = segments.length === 0 ? family.secondAttempt?.(settings) : settings;
  if (uncovered.length > 0 && again) {
    const found = await recognizeChecked(task, uncovered, again, recognize, warnings);
    segments.push(...stitch(task, chunk, uncovered, found.known));
    segments.sort((a, b) => a.startMs - b.startMs);
  }
  return { segments, warnings: [...warnings] };
}

/** The segments of a model: those with words, and those that represent speech that the model does not know. */
type DividedSegments = { known: RecognizedSegment[]; unknown: RecognizedSegment[] };

/** Recognizes regions, repeats faulty text once, and drops or marks what the guards reject. Adds to `warnings`. */
async function recognizeChecked(
  { request, model, family }: GuardTask,
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
  recognize: Recognize,
  warnings: Set<Warning>,
): Promise<DividedSegments> {
  let divided = divideKnown(await recognize(regions, settings), model);
  const textOf = (segments: readonly RecognizedSegment[]) =>
    segments.map((segment) => segment.text).join(" ");
  const isForeign = (text: string) => hasForeignScript(text, request.language, request.mode);
  const faultsOf = (segments: readonly RecognizedSegment[]) => {
    const text = textOf(segments);
    return { isLoop: isRepetitive(text), isForeign: isForeign(text) };
  };
  const first = faultsOf(divided.known);
  const otherSettings = first.isLoop || first.isForeign ? family.secondAttempt?.(settings) : undefined;
  if (otherSettings) {
    const again = divideKnown(await recognize(regions, otherSettings), model);
    const second = faultsOf(again.known);
    const isBetter =
      Number(second.isLoop) + Number(second.isForeign) < Number(first.isLoop) + Number(first.isForeign);
    if (isBetter && again.known.length > 0) divided = again;
  }
  const { segments, isCut } = removeLoops(divided.known);
  if (isCut) warnings.add("repetition_removed");
  if (isForeign(textOf(segments))) warnings.add("script_mismatch");
  const speechMs = regions.reduce(
    (sum, { startSample, endSample }) => sum + (endSample - startSample) / SAMPLES_PER_MS,
    0,
  );
  const spoken = segments.filter((segment) => !isNoSpeech(segment));
  if (spoken.length < segments.length) warnings.add("suspected_hallucination");
  for (const segment of spoken) {
    const spokenMs = Math.min(speechMs, segment.endMs - segment.startMs);
    if (isSuspectedHallucination({ ...segment, speechMs: spokenMs })) warnings.add("suspected_hallucination");
  }
  return { known: spoken, unknown: divided.unknown };
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

/** Separates the segments that represent unknown speech: those without known words, and those below `unknownBelow`. */
function divideKnown(segments: readonly RecognizedSegment[], model: GuardTask["model"]): DividedSegments {
  const { unknownToken, unknownBelow = 0 } = model.decoding;
  const known: RecognizedSegment[] = [];
  const unknown: RecognizedSegment[] = [];
  for (const segment of segments) {
    const text = unknownToken
      ? segment.text.replaceAll(unknownToken, " ").replace(/\s+/g, " ")
      : segment.text;
    const isKnown = segment.confidence >= unknownBelow && (text.trim() !== "" || text === segment.text);
    (isKnown ? known : unknown).push({ ...segment, text });
  }
  return { known, unknown };
}
