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

/** What a chunk came to. */
export type ChunkText = { segments: LooseSegment[]; warnings: Warning[] };

/** Recognizes some regions of the chunk's channel; times count from the first of their samples as laid out. */
export type Recognize = (
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
) => Promise<RecognizedSegment[]>;

/** What all chunks of a recording share. */
export type GuardTask = {
  model: Pick<ModelManifest, "languages" | "decoding">;
  family: ModelFamily;
  request: Pick<TranscriptionRequest, "language" | "mode" | "channelMode">;
  durationMs: number;
};
type GuardedChunk = Pick<Chunk, "regions"> & { channel: number };

/**
 * Recognizes a chunk and examines what came out. A loop or text in a wrong script is recognized once more with other
 * settings, and cut or marked when it stays; speech over which no text lies is recognized once more by itself, or with
 * other settings when there was no text at all. Families that are deterministic get no other settings, so the same
 * audio is not given to them twice. What the model says it does not know is no lack of text.
 */
export async function recognizeGuarded(
  task: GuardTask,
  chunk: GuardedChunk,
  recognize: Recognize,
): Promise<ChunkText> {
  const { family } = task;
  const settings = family.settingsFor(task.request, task.model);
  const warnings = new Set<Warning>();
  const { known, unknown } = await recognizeSoundly(task, chunk.regions, settings, recognize, warnings);
  const segments = stitch(task, chunk, chunk.regions, known);
  const { uncovered } = speechCoverage(chunk.regions, [
    ...segments,
    ...stitch(task, chunk, chunk.regions, unknown),
  ]);
  // The same audio with the same settings would be the same silence; a part of it is other audio.
  const again = segments.length === 0 ? family.secondAttempt?.(settings) : settings;
  if (uncovered.length > 0 && again) {
    const found = await recognizeSoundly(task, uncovered, again, recognize, warnings);
    segments.push(...stitch(task, chunk, uncovered, found.known));
    segments.sort((a, b) => a.startMs - b.startMs);
  }
  return { segments, warnings: [...warnings] };
}

/** What a model wrote, and what of it stands for speech that it does not know. */
type Heard = { known: RecognizedSegment[]; unknown: RecognizedSegment[] };

async function recognizeSoundly(
  { request, model, family }: GuardTask,
  regions: readonly ChunkRegion[],
  settings: RecognizerSettings,
  recognize: Recognize,
  warnings: Set<Warning>,
): Promise<Heard> {
  let heard = divideKnown(await recognize(regions, settings), model);
  const faultsOf = (segments: readonly RecognizedSegment[]) => {
    const text = segments.map((segment) => segment.text).join(" ");
    return { isLoop: isRepetitive(text), isForeign: hasForeignScript(text, request.language, request.mode) };
  };
  const first = faultsOf(heard.known);
  const otherSettings = first.isLoop || first.isForeign ? family.secondAttempt?.(settings) : undefined;
  if (otherSettings) {
    const again = divideKnown(await recognize(regions, otherSettings), model);
    const second = faultsOf(again.known);
    const isBetter =
      Number(second.isLoop) + Number(second.isForeign) < Number(first.isLoop) + Number(first.isForeign);
    if (isBetter && again.known.length > 0) heard = again;
  }
  const { segments, isCut } = removeLoops(heard.known);
  if (isCut) warnings.add("repetition_removed");
  if (faultsOf(segments).isForeign) warnings.add("script_mismatch");
  const speechMs = regions.reduce(
    (sum, { startSample, endSample }) => sum + (endSample - startSample) / SAMPLES_PER_MS,
    0,
  );
  const spoken = segments.filter((segment) => !isNoSpeech(segment));
  if (spoken.length < segments.length) warnings.add("suspected_hallucination");
  for (const segment of spoken) {
    const heardMs = Math.min(speechMs, segment.endMs - segment.startMs);
    if (isSuspectedHallucination({ ...segment, speechMs: heardMs })) warnings.add("suspected_hallucination");
  }
  return { known: spoken, unknown: heard.unknown };
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

/** Sets apart what the model writes for speech it does not know, and what it is less sure of than of its own words. */
function divideKnown(segments: readonly RecognizedSegment[], model: GuardTask["model"]): Heard {
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
