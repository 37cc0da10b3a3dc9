import type { Chunk, ChunkRegion } from "../domain/chunk.ts";
import type { DecodedSegment, DecodeSettings } from "../domain/decoding.ts";
import { decoderLanguageOf, type ModelManifest } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import { isNoSpeech, isRepetitive, isSuspectedHallucination, removeLoops, speechCoverage } from "./guards.ts";
import { type LooseSegment, stitchChunk } from "./stitch.ts";
import { hasForeignScript, promptFor, suppressPattern } from "./wording.ts";

/** What a chunk came to. */
export type ChunkText = { segments: LooseSegment[]; warnings: Warning[] };

/** Decodes some regions of the chunk's channel; times count from the first of their samples as laid out. */
export type Decode = (regions: readonly ChunkRegion[], settings: DecodeSettings) => Promise<DecodedSegment[]>;

/** What all chunks of a recording share. */
export type GuardTask = {
  model: Pick<ModelManifest, "languages" | "decoding">;
  request: Pick<TranscriptionRequest, "language" | "mode" | "channelMode">;
  durationMs: number;
};
type GuardedChunk = Pick<Chunk, "regions"> & { channel: number };

/** Sampled instead of greedy: what sent the decoder into a loop or a wrong script rarely does so twice. */
const SECOND_TRY = { temperature: 0.4, strategy: { name: "greedy", bestOf: 5 } } as const;

/**
 * Decodes a chunk and looks at what came out. A loop or text in a wrong script is decoded once more with other
 * settings, and cut or marked when it stays; speech over which no text lies is decoded once more by itself, or with
 * other settings when there was no text at all. What the model says it does not know is no lack of text.
 */
export async function decodeGuarded(
  task: GuardTask,
  chunk: GuardedChunk,
  decode: Decode,
): Promise<ChunkText> {
  const options = decodeSettings(task.request, task.model);
  const warnings = new Set<Warning>();
  const { known, unknown } = await decodeSoundly(task, chunk.regions, options, decode, warnings);
  const segments = stitch(task, chunk, chunk.regions, known);
  const { uncovered } = speechCoverage(chunk.regions, [
    ...segments,
    ...stitch(task, chunk, chunk.regions, unknown),
  ]);
  if (uncovered.length > 0) {
    // The same audio with the same settings would be the same silence; a part of it is other audio.
    const settings = segments.length === 0 ? { ...options, ...SECOND_TRY } : options;
    const found = await decodeSoundly(task, uncovered, settings, decode, warnings);
    segments.push(...stitch(task, chunk, uncovered, found.known));
    segments.sort((a, b) => a.startMs - b.startMs);
  }
  return { segments, warnings: [...warnings] };
}

/** What a model wrote, and what of it stands for speech that it does not know. */
type Heard = { known: DecodedSegment[]; unknown: DecodedSegment[] };

async function decodeSoundly(
  { request, model }: GuardTask,
  regions: readonly ChunkRegion[],
  options: DecodeSettings,
  decode: Decode,
  warnings: Set<Warning>,
): Promise<Heard> {
  let heard = divideKnown(await decode(regions, options), model);
  const faultsOf = (segments: readonly DecodedSegment[]) => {
    const text = segments.map((segment) => segment.text).join(" ");
    return { isLoop: isRepetitive(text), isForeign: hasForeignScript(text, request.language, request.mode) };
  };
  const first = faultsOf(heard.known);
  if (first.isLoop || first.isForeign) {
    const again = divideKnown(await decode(regions, { ...options, ...SECOND_TRY }), model);
    const second = faultsOf(again.known);
    const isBetter =
      Number(second.isLoop) + Number(second.isForeign) < Number(first.isLoop) + Number(first.isForeign);
    if (isBetter && again.known.length > 0) heard = again;
  }
  const { segments, isCut } = removeLoops(heard.known);
  if (isCut) warnings.add("repetition_removed");
  if (faultsOf(segments).isForeign) warnings.add("script_mismatch");
  const speechMs = regions.reduce(
    (sum, { startSample, endSample }) => sum + (endSample - startSample) / 16,
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
  decoded: readonly DecodedSegment[],
): LooseSegment[] {
  return stitchChunk(decoded, {
    regions,
    durationMs,
    ...(request.channelMode === "separate" ? { channel: chunk.channel } : {}),
  });
}

/** Whisper's reference settings where the model's manifest says nothing else. */
export function decodeSettings(request: GuardTask["request"], model: GuardTask["model"]): DecodeSettings {
  const { decoding } = model;
  const beamSize = decoding.beamSize ?? 1;
  const suppressRegex = suppressPattern(request.language, request.mode);
  const initialPrompt =
    decoding.acceptsPrompt === false ? undefined : promptFor(request.language, request.mode);
  return {
    language: decoderLanguageOf(model, request.language),
    strategy: beamSize > 1 ? { name: "beam", beamSize, bestOf: beamSize } : { name: "greedy", bestOf: 1 },
    temperature: 0,
    temperatureIncrement: decoding.temperatureIncrement ?? 0.2,
    entropyThreshold: decoding.entropyThreshold ?? 2.4,
    logprobThreshold: -1,
    noSpeechThreshold: 0.6,
    suppressNonSpeech: true,
    maxTokens: 0,
    ...(suppressRegex === undefined ? {} : { suppressRegex }),
    ...(initialPrompt === undefined ? {} : { initialPrompt }),
  };
}

/** Sets apart what the model writes for speech it does not know, and what it is less sure of than of its own words. */
function divideKnown(segments: readonly DecodedSegment[], model: GuardTask["model"]): Heard {
  const { unknownToken, unknownBelow = 0 } = model.decoding;
  const known: DecodedSegment[] = [];
  const unknown: DecodedSegment[] = [];
  for (const segment of segments) {
    const text = unknownToken
      ? segment.text.replaceAll(unknownToken, " ").replace(/\s+/g, " ")
      : segment.text;
    const isKnown = segment.confidence >= unknownBelow && (text.trim() !== "" || text === segment.text);
    (isKnown ? known : unknown).push({ ...segment, text });
  }
  return { known, unknown };
}
