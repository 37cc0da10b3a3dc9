import type { SpeakerWeights } from "../domain/model.ts";
import { MAX_SPEAKERS } from "../domain/transcription.ts";
import type { NativeFiles } from "../native/native-files.ts";
import { createYielder } from "./diarize-tracks.ts";
import type { DiarizeJob, DiarizeOutcome, OnSpeakersHeard, SpeakerTurn } from "./job.ts";
import { agreementOf } from "./neural-agreement.ts";
import { holdsBothBands } from "./neural-bands.ts";
import { coverSpeech } from "./neural-coverage.ts";
import { openSpeakerModels, type SegmentationInfo } from "./neural-models.ts";
import { allotPeople, choosePeople, type DivisionChecks, type PeopleBounds } from "./neural-number.ts";
import { countPeople, turnsOf, turnsOfWindow } from "./neural-turns.ts";
import { growVoiceTree } from "./neural-voices.ts";
import { type HeardTrack, hearTrack } from "./neural-windows.ts";

/**
 * Distinguishes speakers with installed weights: segmentation and embeddings as in pyannote's pipeline (Bredin 2023,
 * "pyannote.audio 2.1 speaker diarization pipeline"), and clusters that are people at a distance which is measured in
 * the recording itself. Speech that the segmentation does not hear belongs to the nearest turn.
 *
 * Wrong weights may end the process, so this belongs in a worker process of its own. Speakers of different tracks are
 * different people, and each track is counted for itself. If the number of all lies outside the bounds of the job, the
 * voices are divided into the nearer bound.
 *
 * @throws the signal's reason when it is aborted; Error when the weights cannot be used
 */
export async function diarizeNeurally(
  nativeFiles: Pick<NativeFiles, "dir" | "onnx" | "onnxruntime">,
  { tracks, threads = 1, ...job }: DiarizeJob,
  weights: SpeakerWeights,
  { signal, onHeard }: { signal: AbortSignal; onHeard?: OnSpeakersHeard },
): Promise<DiarizeOutcome> {
  const models = await openSpeakerModels(nativeFiles, weights);
  const info = models.segmentation;
  const { minSpeakers = 1, maxSpeakers = MAX_SPEAKERS } = job;
  const bounds = { least: minSpeakers, most: Math.max(minSpeakers, maxSpeakers) };
  const heard: (HeardTrack | undefined)[] = [];
  for (const [index, track] of tracks.entries()) {
    const report = (share: number) => onHeard?.((index + share) / tracks.length);
    const isLimited = await holdsBothBands(track, createYielder(signal));
    const options = { signal, threads, isLimited, onHeard: report };
    heard.push(track.regions.length === 0 ? undefined : await hearTrack(models, track.pcmPath, options));
  }
  const found: TrackTurns[] = [];
  // With several tracks each is counted for itself at first.
  const each = tracks.length === 1 ? bounds : { least: 1, most: MAX_SPEAKERS };
  for (const track of heard) found.push(track ? await turnsOfTrack(info, track, each, signal) : NO_TURNS);
  if (tracks.length > 1) {
    const counts = found.map(({ turns }) => countPeople(turns));
    for (const [index, wanted] of allotPeople(counts, bounds).entries()) {
      const track = heard[index];
      if (!track || wanted === counts[index]) continue;
      found[index] = await turnsOfTrack(info, track, { least: wanted, most: wanted }, signal);
    }
  }
  const covered = found.map(({ turns, isCountUncertain }, index): TrackTurns => {
    return { turns: coverSpeech(turns, tracks[index]?.regions ?? []), isCountUncertain };
  });
  const total = covered.reduce((sum, { turns }) => sum + countPeople(turns), 0);
  const isOutside = total > 0 && (total < bounds.least || total > bounds.most);
  return {
    turns: numberThrough(covered),
    isCountUncertain: isOutside || covered.some(({ isCountUncertain }) => isCountUncertain),
  };
}

/** Numbers the speakers of all tracks, which are different people. */
function numberThrough(tracks: readonly TrackTurns[]): SpeakerTurn[][] {
  let before = 0;
  return tracks.map(({ turns }) => {
    const first = before;
    before += Math.max(0, ...turns.map(({ speaker }) => speaker + 1));
    return turns.map((turn) => ({ ...turn, speaker: first + turn.speaker }));
  });
}

type TrackTurns = { turns: SpeakerTurn[]; isCountUncertain: boolean };
const NO_TURNS: TrackTurns = { turns: [], isCountUncertain: false };

/** Makes the turns of a track from what the models heard in it. */
async function turnsOfTrack(
  info: SegmentationInfo,
  track: HeardTrack,
  { least, most }: PeopleBounds,
  signal: AbortSignal,
): Promise<TrackTurns> {
  const isAsGiven = (count: number) => count === 0 || (count >= least && count <= most);
  const [first, second] = track.windows;
  if (first && !second) {
    const turns = turnsOfWindow(info, first);
    if (isAsGiven(countPeople(turns))) return { turns, isCountUncertain: false };
  }
  const yieldToLoop = createYielder(signal);
  const tree = await growVoiceTree(info, track, least, yieldToLoop);
  const checks: DivisionChecks = {
    countIn: (people) => countPeople(turnsOf(info, track, people)),
    agreementIn: (people) => agreementOf(info, track, people, yieldToLoop),
  };
  const { people, isCountUncertain } = await choosePeople(tree, { least, most }, checks, yieldToLoop);
  return { turns: turnsOf(info, track, people), isCountUncertain };
}
