import type { SpeakerWeights } from "../../domain/model.ts";
import type { NativeFiles } from "../native-files.ts";
import type { DiarizeJob, DiarizeOutcome, SpeakerTurn } from "../protocol.ts";
import { createYielder } from "./diarize-tracks.ts";
import { openSpeakerModels, type SpeakerModels } from "./neural-models.ts";
import { turnsOf } from "./neural-turns.ts";
import { growVoiceTree } from "./neural-voices.ts";
import { hearTrack } from "./neural-windows.ts";

/** sherpa-onnx's default when no number of speakers is given: voices are joined below this cosine distance. */
const CLUSTER_DISTANCE = 0.5;

/**
 * Distinguishes speakers with installed weights: segmentation, embeddings and clustering as in pyannote's pipeline
 * (Bredin 2023, "pyannote.audio 2.1 speaker diarization pipeline"), with sherpa-onnx's settings.
 *
 * Wrong weights may end the process, so this belongs in a worker process of its own. Speakers of different tracks are
 * different people. If the number found lies outside the bounds of the job, the voices are divided into the nearer
 * bound.
 *
 * @throws the signal's reason when it is aborted; Error when the weights cannot be used
 */
export async function diarizeNeurally(
  nativeFiles: Pick<NativeFiles, "dir" | "onnx" | "onnxruntime">,
  job: DiarizeJob,
  weights: SpeakerWeights,
  signal: AbortSignal,
): Promise<DiarizeOutcome> {
  const models = await openSpeakerModels(nativeFiles, weights);
  const { minSpeakers = 1, maxSpeakers = Number.POSITIVE_INFINITY } = job.tracks.length === 1 ? job : {};
  const turns: SpeakerTurn[][] = [];
  let speakersBefore = 0;
  for (const { pcmPath, regions } of job.tracks) {
    const first = speakersBefore;
    const found =
      regions.length === 0
        ? []
        : await diarizeTrack(models, pcmPath, { least: minSpeakers, most: maxSpeakers }, signal);
    speakersBefore += Math.max(0, ...found.map(({ speaker }) => speaker + 1));
    turns.push(found.map((turn) => ({ ...turn, speaker: first + turn.speaker })));
  }
  return { turns, isCountUncertain: false };
}

async function diarizeTrack(
  models: SpeakerModels,
  pcmPath: string,
  { least, most }: { least: number; most: number },
  signal: AbortSignal,
): Promise<SpeakerTurn[]> {
  const track = await hearTrack(models, pcmPath, signal);
  const vectors = track.voices.map(({ embedding }) => embedding);
  const tree = await growVoiceTree(vectors, createYielder(signal));
  const turnsOfPeople = async (people: number) =>
    turnsOf(models.segmentation, track, await tree.divide(people));
  const found = await turnsOfPeople(least === most ? least : tree.countBelow(CLUSTER_DISTANCE));
  const count = new Set(found.map(({ speaker }) => speaker)).size;
  const wanted = Math.max(least, Math.min(most, count));
  return count > 0 && count !== wanted ? turnsOfPeople(wanted) : found;
}
