import { readFileSync } from "node:fs";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { SpeakerWeights } from "../../domain/model.ts";
import type { NativeFiles } from "../native-files.ts";
import type { DiarizeJob, DiarizeOutcome, SpeakerTurn } from "../protocol.ts";
import { loadSherpa } from "./sherpa.ts";

/** sherpa-onnx's own defaults (`OfflineSpeakerDiarizationConfig`), in seconds. */
const MIN_DURATION_ON_SECONDS = 0.3;
const MIN_DURATION_OFF_SECONDS = 0.5;
/** sherpa-onnx's default when no number of speakers is given: clusters are joined up to this cosine distance. */
const CLUSTER_THRESHOLD = 0.5;
const FIND_NUMBER = -1;
const THREADS = 1;

/**
 * Distinguishes speakers with installed weights: segmentation, embeddings and clustering of sherpa-onnx
 * (Bredin 2023, "pyannote.audio 2.1 speaker diarization pipeline", is its model).
 *
 * Each track is one native call: its samples alone take 350 MB for an hour of audio, it cannot be interrupted, and wrong
 * weights may end the process. So this belongs in a worker process of its own. Speakers of different tracks are different
 * people. If the number found lies outside the bounds of the job, the call is repeated with the nearer bound.
 *
 * @throws Error when the weights cannot be used
 */
export function diarizeNeurally(
  nativeFiles: Pick<NativeFiles, "dir" | "sherpa">,
  job: DiarizeJob,
  weights: SpeakerWeights,
): DiarizeOutcome {
  const addon = loadSherpa(nativeFiles);
  const diarization = addon.open(
    weights.segmentationPath,
    weights.embeddingPath,
    THREADS,
    MIN_DURATION_ON_SECONDS,
    MIN_DURATION_OFF_SECONDS,
  );
  if (!diarization) throw new Error("sherpa-onnx cannot use these weights for telling speakers apart");
  const rate = addon.sampleRate(diarization);
  if (rate !== SAMPLE_RATE_HZ) throw new Error(`the weights are made for ${rate} Hz, not ${SAMPLE_RATE_HZ}`);
  const process = (samples: Float32Array, clusters: number) =>
    addon.process(diarization, samples, clusters, CLUSTER_THRESHOLD);
  const isOneTrack = job.tracks.length === 1;
  const { minSpeakers = 1, maxSpeakers = Number.POSITIVE_INFINITY } = isOneTrack ? job : {};
  let speakersBefore = 0;
  const turns = job.tracks.map(({ pcmPath, regions }) => {
    if (regions.length === 0) return [];
    const samples = readSamples(pcmPath);
    let found = process(samples, minSpeakers === maxSpeakers ? minSpeakers : FIND_NUMBER);
    const count = countOf(found);
    const wanted = Math.max(minSpeakers, Math.min(maxSpeakers, count));
    if (count > 0 && count !== wanted) found = process(samples, wanted);
    const first = speakersBefore;
    speakersBefore += Math.max(0, ...found.map(({ speaker }) => speaker + 1));
    return found.map(({ start, end, speaker }) => turnOf(start, end, first + speaker));
  });
  return { turns, isCountUncertain: false };
}

function countOf(segments: readonly { speaker: number }[]): number {
  return new Set(segments.map(({ speaker }) => speaker)).size;
}

function turnOf(startSeconds: number, endSeconds: number, speaker: number): SpeakerTurn {
  return { startMs: Math.round(startSeconds * 1000), endMs: Math.round(endSeconds * 1000), speaker };
}

function readSamples(pcmPath: string): Float32Array {
  const bytes = readFileSync(pcmPath);
  const pcm = new Int16Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.byteLength / 2));
  return Float32Array.from(pcm, (sample) => sample / 32_768);
}
