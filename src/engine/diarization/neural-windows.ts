import { type FileHandle, open } from "node:fs/promises";
import { PCM_BYTES_PER_SAMPLE, readPcm, scalePcm } from "../audio/pcm-file.ts";
import type { SegmentationInfo, SpeakerModels } from "./neural-models.ts";

/** A voice that the segmentation found in a window: its number there, and the vector that describes it. */
export type HeardVoice = { window: number; speaker: number; embedding: Float32Array };

/** What the models heard in a track. */
export type HeardTrack = {
  samples: number;
  /** Samples between the beginnings of two windows. */
  shiftSamples: number;
  /** For each window the speakers of its frames as bits. */
  windows: Uint8Array[];
  voices: HeardVoice[];
};

/** The next window begins after this share of a window: pyannote's default. */
const SHIFT_SHARE = 0.1;
/** A voice that is alone for fewer frames cannot be described. */
const LEAST_FRAMES_ALONE = 10;

/**
 * Listens to a track window by window. Each voice of a window is described by the sound in which it is alone. A track
 * of one window needs no descriptions.
 *
 * @throws the signal's reason when it is aborted; Error when a model does not fit
 */
export async function hearTrack(
  models: SpeakerModels,
  pcmPath: string,
  signal: AbortSignal,
): Promise<HeardTrack> {
  const { windowSamples } = models.segmentation;
  const shiftSamples = Math.max(1, Math.floor(windowSamples * SHIFT_SHARE));
  const file = await open(pcmPath, "r");
  try {
    const samples = Math.floor((await file.stat()).size / PCM_BYTES_PER_SAMPLE);
    const count = 1 + Math.ceil(Math.max(0, samples - windowSamples) / shiftSamples);
    const heard: HeardTrack = { samples, shiftSamples, windows: [], voices: [] };
    for (let window = 0; samples > 0 && window < count; window++) {
      const { sound, read } = await readWindow(file, window * shiftSamples, windowSamples);
      const frames = await models.segment(sound, signal);
      heard.windows.push(frames);
      if (count === 1) break;
      for (let speaker = 0; speaker < models.segmentation.speakers; speaker++) {
        const alone = soundAlone(sound.subarray(0, read), frames, speaker, models.segmentation);
        const embedding = alone && (await models.describe(alone, signal));
        if (embedding) heard.voices.push({ window, speaker, embedding });
      }
    }
    return heard;
  } finally {
    await file.close();
  }
}

/** Reads a window, with silence after the end of the file. */
async function readWindow(file: FileHandle, start: number, length: number) {
  const pcm = new Int16Array(length);
  const read = await readPcm(file, pcm, start);
  const sound = new Float32Array(length);
  scalePcm(pcm.subarray(0, read), sound, 0);
  return { sound, read };
}

/** Joins the sound of the frames in which a speaker is alone; undefined when there are too few. */
function soundAlone(
  sound: Float32Array,
  frames: Uint8Array,
  speaker: number,
  { windowSamples }: SegmentationInfo,
): Float32Array | undefined {
  const isAlone = (frame: number) => frames[frame] === 1 << speaker;
  const startOf = (frame: number) => Math.floor((frame / frames.length) * windowSamples);
  const pieces: Float32Array[] = [];
  let framesAlone = 0;
  for (let frame = 0; frame < frames.length; frame++) {
    if (!isAlone(frame)) continue;
    const first = frame;
    while (frame < frames.length && isAlone(frame)) frame++;
    framesAlone += frame - first;
    pieces.push(sound.subarray(startOf(first), startOf(Math.min(frame, frames.length - 1))));
  }
  if (framesAlone < LEAST_FRAMES_ALONE) return undefined;
  const joined = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const piece of pieces) {
    joined.set(piece, filled);
    filled += piece.length;
  }
  return joined;
}
