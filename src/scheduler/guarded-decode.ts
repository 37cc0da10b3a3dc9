import type { InstalledModel } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import type { ChunkOutcome, ChunkSegment } from "../engine/protocol.ts";
import type { DecodeOptions } from "../engine/whisper.ts";
import { type LooseSegment, stitchChunk } from "../pipeline/stitch.ts";
import type { ChunkRow } from "../store/chunks.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";

/** What a chunk came to. */
export type ChunkText = { segments: LooseSegment[]; warnings: Warning[] };

/**
 * Decodes a chunk and looks at what came out: text of the wrong kind is decoded once more with other settings,
 * and what is wrong then is cut or marked.
 */
export async function decodeGuarded(
  task: { row: TranscriptionRow; model: InstalledModel },
  chunk: ChunkRow,
  threads: number,
  decode: (options: DecodeOptions) => Promise<ChunkOutcome>,
): Promise<ChunkText> {
  const { row, model } = task;
  const outcome = await decode(decodeOptions(row, model, threads));
  const segments = stitchChunk(withoutUnknown(outcome.segments, model), {
    regions: chunk.regions,
    durationMs: row.durationMs,
    ...(row.channelMode === "separate" ? { channel: chunk.channel } : {}),
  });
  return { segments, warnings: [] };
}

/** Whisper's reference settings where the model's manifest says nothing else. */
export function decodeOptions(row: TranscriptionRow, model: InstalledModel, threads: number): DecodeOptions {
  const beamSize = model.decoding.beamSize ?? 1;
  return {
    language: row.language,
    threads,
    strategy: beamSize > 1 ? { name: "beam", beamSize, bestOf: beamSize } : { name: "greedy", bestOf: 1 },
    temperature: 0,
    temperatureIncrement: model.decoding.temperatureIncrement ?? 0.2,
    entropyThreshold: model.decoding.entropyThreshold ?? 2.4,
    logprobThreshold: -1,
    noSpeechThreshold: 0.6,
    suppressNonSpeech: true,
    maxTokens: 0,
  };
}

/** Leaves out what the model writes for speech it does not know. */
function withoutUnknown(segments: readonly ChunkSegment[], model: InstalledModel): ChunkSegment[] {
  const { unknownToken } = model.decoding;
  if (unknownToken === undefined) return [...segments];
  return segments
    .map((segment) => ({ ...segment, text: segment.text.replaceAll(unknownToken, " ").replace(/\s+/g, " ") }))
    .filter(({ text }) => text.trim() !== "");
}
