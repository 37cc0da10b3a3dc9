import { type FileHandle, open } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { PCM_BYTES_PER_SAMPLE, readPcm, scalePcm } from "../native/decoder/pcm-file.ts";
import { type AloneVoice, soundAlone, voicesAlone } from "./neural-alone.ts";
import { limitToTelephone } from "./neural-bands.ts";
import { unitOf } from "./neural-linkage.ts";
import type { SegmentationInfo, SpeakerModels } from "./neural-models.ts";
import { sharedVector } from "./neural-sharing.ts";

/** A voice of a window, and the vector that describes it, whose length is 1. */
export type HeardVoice = AloneVoice & { unit: Float32Array };

/** What the models heard in a track. */
export type HeardTrack = {
  samples: number;
  /** Samples between the beginnings of two windows. */
  shiftSamples: number;
  /** For each window the speakers of its frames as bits. */
  windows: Uint8Array[];
  voices: HeardVoice[];
};

/**
 * The next window begins after this share of a window: pyannote's default for short tracks. In longer ones a quarter of
 * the windows finds the same people, at 0.7 points more DER and less than half of the cost.
 */
const SHIFT_SHARE_IN_SHORT = 0.1;
export const SHIFT_SHARE = 0.25;
const SHORT_SAMPLES = 60 * SAMPLE_RATE_HZ;
/**
 * In tracks of five minutes or more the net describes the voices of each second window only. Those before and after it hear
 * all sound of a window between, so its voices have their vectors. Shorter tracks have too few voices for that.
 */
const DESCRIBED_EVERY = 2;
const LONG_SAMPLES = 300 * SAMPLE_RATE_HZ;
/** The share of the work when all windows are segmented, and those described that are. */
const FIRST_PASS_SHARE = 0.95;

export type HearingOptions = {
  signal: AbortSignal;
  /** Windows that are heard at the same time, each on a thread of its own. */
  threads: number;
  /** Voices are described by what a telephone carries. */
  isLimited?: boolean;
  /** Called after each window with the share of the track that has been heard, 0 to 1. */
  onHeard?: (share: number) => void;
};

/**
 * Listens to a track window by window. Each voice of a window is described by the sound in which it is alone, or by
 * voices of other windows which are alone in the same sound.
 *
 * @throws the signal's reason when it is aborted; Error when a model does not fit
 */
export async function hearTrack(
  models: SpeakerModels,
  pcmPath: string,
  { signal, threads, isLimited = false, onHeard }: HearingOptions,
): Promise<HeardTrack> {
  const { segmentation } = models;
  const file = await open(pcmPath, "r");
  try {
    const samples = Math.floor((await file.stat()).size / PCM_BYTES_PER_SAMPLE);
    const { count, shiftSamples, every } = windowsOf(samples, segmentation);
    const readers = Array.from({ length: Math.max(1, threads) }, () => windowReader(file, segmentation));
    const describe = async ({ sound, read }: WindowSound, frames: Uint8Array, voice: AloneVoice) => {
      const alone = soundAlone(sound.subarray(0, read), frames, voice.speaker, segmentation);
      const embedding = await models.describe(isLimited ? limitToTelephone(alone) : alone, signal);
      return embedding ? [{ ...voice, unit: unitOf(embedding) }] : [];
    };
    const onFirst = (share: number) => onHeard?.(share * FIRST_PASS_SHARE);
    const heard = await inOrder(count, readers, onFirst, async (window, read) => {
      const sound = await read(window * shiftSamples);
      const frames = await models.segment(sound.sound, signal);
      const voices = voicesAlone(window, frames, segmentation);
      const described: HeardVoice[] = [];
      if (window % every !== 0) return { frames, described, left: voices };
      for (const voice of voices) described.push(...(await describe(sound, frames, voice)));
      return { frames, described, left: [] };
    });
    const track = { samples, shiftSamples, windows: heard.map(({ frames }) => frames) };
    const left = heard.flatMap((window) => window.left);
    const others = await inOrder(left.length, readers, undefined, async (index, read) => {
      const voice = left[index];
      if (!voice) return [];
      const before = voice.window - (voice.window % every);
      const around = [before, before + every].flatMap((window) => heard[window]?.described ?? []);
      const shared = sharedVector(voice, around, track, segmentation);
      if (shared) return [{ ...voice, unit: unitOf(shared) }];
      const frames = track.windows[voice.window] ?? new Uint8Array();
      return describe(await read(voice.window * shiftSamples), frames, voice);
    });
    onHeard?.(1);
    const voices = [...heard.flatMap(({ described }) => described), ...others.flat()];
    voices.sort((one, other) => one.window - other.window || one.speaker - other.speaker);
    return { ...track, voices };
  } finally {
    await file.close();
  }
}

/** Returns how many windows a track has, the samples between their beginnings, and that each how many of them is described. */
function windowsOf(samples: number, { windowSamples }: Pick<SegmentationInfo, "windowSamples">) {
  const isShort = samples < SHORT_SAMPLES;
  const shiftShare = isShort ? SHIFT_SHARE_IN_SHORT : SHIFT_SHARE;
  const shiftSamples = Math.max(1, Math.floor(windowSamples * shiftShare));
  const count = samples === 0 ? 0 : 1 + Math.ceil(Math.max(0, samples - windowSamples) / shiftSamples);
  return { count, shiftSamples, every: samples < LONG_SAMPLES ? 1 : DESCRIBED_EVERY };
}

/**
 * Does this many pieces of work, as many at the same time as there are tools, and returns the results in order. A tool is
 * used by one piece at a time. After a failure no further piece begins, and those that have begun are waited for.
 */
async function inOrder<Tool, Result>(
  count: number,
  tools: readonly Tool[],
  onDone: ((share: number) => void) | undefined,
  work: (index: number, tool: Tool) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let [next, done] = [0, 0];
  const run = async (tool: Tool) => {
    while (next < count) {
      const index = next++;
      try {
        results[index] = await work(index, tool);
      } catch (error) {
        next = count;
        throw error;
      }
      onDone?.(++done / count);
    }
  };
  const outcomes = await Promise.allSettled(tools.map(run));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  return results;
}

/** The sound of a window, with silence after the end of the file, and how many samples are of the file. */
type WindowSound = { sound: Float32Array; read: number };

/**
 * Returns a function that reads the window which begins at a sample. Each window is read into the same memory, which it
 * has until the next one is read: a recording of hours would leave gigabytes to be collected.
 */
function windowReader(file: FileHandle, { windowSamples }: Pick<SegmentationInfo, "windowSamples">) {
  const pcm = new Int16Array(windowSamples);
  const sound = new Float32Array(windowSamples);
  return async (start: number): Promise<WindowSound> => {
    const read = await readPcm(file, pcm, start);
    scalePcm(pcm.subarray(0, read), sound, 0);
    sound.fill(0, read);
    return { sound, read };
  };
}
