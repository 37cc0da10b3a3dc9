import type { SpeechRegion } from "../domain/speech.ts";
import { MAX_SPEAKERS } from "../domain/transcription.ts";
import { chooseSpeakers, type SpeakerBounds } from "./diarize-count.ts";
import { type Mixture, trainMixture } from "./diarize-mixture.ts";
import { BLOCK_FRAMES, createPathFinder, numberBlocks, type SpeakerPath } from "./diarize-path.ts";
import { createSampler, type FrameSample, framesOf } from "./diarize-sample.ts";
import { createSegmenter } from "./diarize-segments.ts";
import {
  createYielder,
  findStretches,
  forEachPiece,
  type Piece,
  type SpeakerTrack,
  type Stretch,
  type TrackSpeech,
  type YieldToLoop,
} from "./diarize-tracks.ts";
import { buildTree, type Cluster, segmentsOf } from "./diarize-tree.ts";
import type { DiarizeJob, DiarizeOutcome, SpeakerTurn } from "./job.ts";

const MS_PER_FRAME = 10;
const SAMPLES_PER_MS = 16;
/** A frame looks 25 ms ahead, a step is 10 ms. */
const LAST_FRAME_MS = 15;
const PASSES = 2;
const TRAINING = { maxComponents: 16, maxFrames: 12_000 };

/**
 * Distinguishes speakers without trained weights, by the sound of their voices in this one recording.
 *
 * The steps are those of Meignier and Merlin 2010, "LIUM SpkDiarization". Unbroken speech is cut where the sound changes,
 * and the segments are clustered bottom-up; both use the Bayesian information criterion over Gaussians of cepstral
 * coefficients. Then a mixture of Gaussians is trained for each cluster, and the most likely sequence of speakers is
 * found, twice. `chooseSpeakers` finds the number of speakers. Overlapping speech is given to one of its speakers.
 *
 * The recording is read five times and never held: memory holds some sampled frames and the clusters.
 *
 * @throws the signal's reason when it is aborted, or the file system's error
 */
export async function diarizeAcoustically(job: DiarizeJob, signal: AbortSignal): Promise<DiarizeOutcome> {
  const yieldToLoop = createYielder(signal);
  const { tracks } = job;
  const speech: TrackSpeech[] = [];
  for (const [index, track] of tracks.entries()) speech.push(await findStretches(track, index, yieldToLoop));
  const recording: Recording = {
    tracks,
    speech,
    stretches: speech.flatMap(({ stretches }) => stretches),
    yieldToLoop,
  };
  const segmenter = createSegmenter(recording.stretches);
  await read(recording, segmenter.take);
  const segments = segmenter.finish();
  const bounds = boundsOf(job);
  const used = new Set(recording.stretches.map(({ track }) => track)).size;
  const mayJoinTracks = used > bounds.maxSpeakers;
  const roots = await buildTree(segments, { mayJoinTracks, yieldToLoop });
  const sampler = createSampler(roots, segments, recording.stretches);
  await read(recording, sampler.take);
  const sample = sampler.finish();
  const { speakers, isCountUncertain } = await chooseSpeakers(roots, sample, bounds, yieldToLoop);
  const path = await findPath(recording, speakers, sample, mayJoinTracks);
  const turns = tracks.map((_, track) => turnsOf(recording.stretches, track, path));
  for (const [track, { regions }] of tracks.entries()) {
    // Speech that is too short or soft to be analysed still has a speaker.
    if (turns[track]?.length === 0)
      turns[track] = regions.map((region) => turnOf(region, speakers.length + track));
  }
  const found = new Set(turns.flat().map(({ speaker }) => speaker)).size;
  return { turns, isCountUncertain: isCountUncertain || (found > 0 && found < bounds.minSpeakers) };
}

function turnOf({ startSample, endSample }: SpeechRegion, speaker: number): SpeakerTurn {
  return {
    startMs: Math.floor(startSample / SAMPLES_PER_MS),
    endMs: Math.ceil(endSample / SAMPLES_PER_MS),
    speaker,
  };
}

type Recording = {
  tracks: readonly SpeakerTrack[];
  speech: readonly TrackSpeech[];
  stretches: readonly Stretch[];
  yieldToLoop: YieldToLoop;
};

function read({ tracks, speech, yieldToLoop }: Recording, visit: (piece: Piece) => void): Promise<void> {
  return forEachPiece(tracks, speech, yieldToLoop, visit);
}

function boundsOf({ minSpeakers = 1, maxSpeakers = MAX_SPEAKERS }: DiarizeJob): SpeakerBounds {
  return { minSpeakers, maxSpeakers: Math.max(minSpeakers, maxSpeakers) };
}

/** Trains mixtures from the clusters and finds a path through them; then trains from the path, and finds it again. */
async function findPath(
  recording: Recording,
  speakers: readonly Cluster[],
  sample: FrameSample,
  mayJoinTracks: boolean,
): Promise<SpeakerPath> {
  const { stretches, yieldToLoop } = recording;
  const trackOf = speakers.map(({ track }) => (mayJoinTracks ? undefined : track));
  let mixtures: (Mixture | undefined)[] = [];
  for (const speaker of speakers) {
    mixtures.push(trainMixture(sample.features, framesOf(sample, segmentsOf(speaker)), TRAINING));
    await yieldToLoop();
  }
  const firstBlock = numberBlocks(stretches);
  let path: SpeakerPath = { speakers: new Uint8Array(firstBlock.at(-1) ?? 0), firstBlock };
  if (speakers.length < 2) return path;
  for (let pass = 0; pass < PASSES; pass++) {
    if (pass > 0) mixtures = await relearn(mixtures, sample, path, recording);
    const finder = createPathFinder(stretches, mixtures, trackOf);
    await read(recording, finder.take);
    path = finder.finish();
  }
  return path;
}

/** Trains mixtures from the sampled frames that the path gives to each speaker. */
async function relearn(
  before: readonly (Mixture | undefined)[],
  sample: FrameSample,
  path: SpeakerPath,
  { stretches, yieldToLoop }: Recording,
): Promise<(Mixture | undefined)[]> {
  const framesBySpeaker: number[][] = before.map(() => []);
  for (let frame = 0; frame < sample.frames; frame++) {
    const stretch = sample.stretchOf[frame] ?? 0;
    const since = (sample.frameOf[frame] ?? 0) - (stretches[stretch]?.startFrame ?? 0);
    const block = (path.firstBlock[stretch] ?? 0) + Math.floor(since / BLOCK_FRAMES);
    framesBySpeaker[path.speakers[block] ?? 0]?.push(frame);
  }
  const mixtures: (Mixture | undefined)[] = [];
  for (const [speaker, frames] of framesBySpeaker.entries()) {
    mixtures.push(trainMixture(sample.features, Int32Array.from(frames), TRAINING) ?? before[speaker]);
    await yieldToLoop();
  }
  return mixtures;
}

function turnsOf(
  stretches: readonly Stretch[],
  track: number,
  { speakers, firstBlock }: SpeakerPath,
): SpeakerTurn[] {
  const turns: SpeakerTurn[] = [];
  for (const [index, stretch] of stretches.entries()) {
    if (stretch.track !== track) continue;
    const from = firstBlock[index] ?? 0;
    const to = firstBlock[index + 1] ?? from;
    for (let block = from; block < to; ) {
      const speaker = speakers[block] ?? 0;
      const start = block;
      while (block < to && speakers[block] === speaker) block++;
      const startFrame = stretch.startFrame + (start - from) * BLOCK_FRAMES;
      const endMs =
        block === to
          ? stretch.endFrame * MS_PER_FRAME + LAST_FRAME_MS
          : (stretch.startFrame + (block - from) * BLOCK_FRAMES) * MS_PER_FRAME;
      turns.push({ startMs: startFrame * MS_PER_FRAME, endMs, speaker });
    }
  }
  return turns;
}
