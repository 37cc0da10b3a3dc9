import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { SpeakerTurn } from "./job.ts";
import type { SegmentationInfo } from "./neural-models.ts";
import { firstFrameOf } from "./neural-sharing.ts";
import type { HeardTrack } from "./neural-windows.ts";

/** sherpa-onnx's defaults: turns up to this length are dropped, and pauses up to this length within a turn are filled. */
const MIN_DURATION_ON_MS = 300;
const MIN_DURATION_OFF_MS = 500;

/**
 * Makes turns from what was heard in overlapping windows: in each frame as many people speak as the windows found on
 * average, and they are those whom most windows found (Bredin 2023, "pyannote.audio 2.1 speaker diarization pipeline").
 *
 * @param people the person of each voice of the track
 * @returns turns in order of time
 */
export function turnsOf(info: SegmentationInfo, track: HeardTrack, people: Int32Array): SpeakerTurn[] {
  const recorder = turnRecorder(info);
  if (track.voices.length === 0) return [];
  const personOf = peopleByWindow(track, people);
  const { first, end } = frameRange(info, track);
  const count = people.reduce((most, person) => Math.max(most, person + 1), 0);
  const votes = new Map<number, number>();
  const frames = lengthInFrames(info, track);
  for (let frame = 0, from = 0; frame < frames; frame++) {
    while (from < track.windows.length && end(from) <= frame) from++;
    votes.clear();
    let windows = 0;
    let speakers = 0;
    for (let window = from; window < track.windows.length && first(window) <= frame; window++) {
      const found = speakersIn(track.windows[window]?.[frame - first(window)] ?? 0);
      windows++;
      speakers += found.length;
      const here = found.map((speaker) => personOf[window]?.[speaker] ?? -1);
      for (const person of new Set(here)) if (person >= 0) votes.set(person, (votes.get(person) ?? 0) + 1);
    }
    const talking = windows === 0 ? 0 : Math.floor(speakers / windows + 0.5);
    recorder.take(frame, mostVoted(votes, Math.min(talking, count)));
  }
  return recorder.finish(frames);
}

/** Makes the turns of a track of one window, whose speakers are people already. */
export function turnsOfWindow(info: SegmentationInfo, frames: Uint8Array): SpeakerTurn[] {
  const recorder = turnRecorder(info);
  for (const [frame, bits] of frames.entries()) recorder.take(frame, speakersIn(bits));
  return recorder.finish(frames.length);
}

/** Returns how many people speak in turns. */
export function countPeople(turns: readonly SpeakerTurn[]): number {
  return new Set(turns.map(({ speaker }) => speaker)).size;
}

function speakersIn(bits: number): number[] {
  const speakers: number[] = [];
  for (let speaker = 0; bits >> speaker > 0; speaker++) if ((bits >> speaker) & 1) speakers.push(speaker);
  return speakers;
}

/** Returns for each window the person of each of its speakers, where there is one. */
function peopleByWindow({ windows, voices }: HeardTrack, people: Int32Array): (number | undefined)[][] {
  const byWindow: (number | undefined)[][] = windows.map(() => []);
  for (const [index, { window, speaker }] of voices.entries()) {
    const list = byWindow[window];
    if (list) list[speaker] = people[index];
  }
  return byWindow;
}

/** Returns the frames of the track that a window covers; the end is exclusive. */
function frameRange(info: SegmentationInfo, track: HeardTrack) {
  const first = (window: number) => firstFrameOf(window, track, info);
  return { first, end: (window: number) => first(window) + (track.windows[window]?.length ?? 0) };
}

/** The frames of the last window that lie after the end of the sound do not count. */
function lengthInFrames(
  { windowSamples, frameSamples }: SegmentationInfo,
  { samples, shiftSamples, windows }: HeardTrack,
): number {
  const covered = windowSamples + (windows.length - 1) * shiftSamples;
  return Math.floor(Math.min(samples, covered) / frameSamples) + 1;
}

/**
 * Returns the people with the most votes; of equal ones those with the lower number.
 *
 * @param count at most the number of people
 */
function mostVoted(votes: ReadonlyMap<number, number>, count: number): number[] {
  if (count === 0) return [];
  const order = [...votes].sort(([one, its], [other, theirs]) => theirs - its || one - other);
  const chosen = order.slice(0, count).map(([person]) => person);
  for (let person = 0; chosen.length < count; person++) if (!votes.has(person)) chosen.push(person);
  return chosen;
}

/** Takes who speaks frame by frame, and makes turns of it. */
function turnRecorder({ frameSamples, fieldSamples }: SegmentationInfo) {
  const msOf = (frame: number) => ((frame * frameSamples + fieldSamples / 2) * 1000) / SAMPLE_RATE_HZ;
  const open = new Map<number, number>();
  const spans = new Map<number, { startMs: number; endMs: number }[]>();
  const close = (speaker: number, startFrame: number, endFrame: number) => {
    const list = spans.get(speaker) ?? [];
    spans.set(speaker, list);
    const span = { startMs: msOf(startFrame), endMs: msOf(endFrame) };
    const last = list.at(-1);
    if (last && last.endMs + MIN_DURATION_OFF_MS >= span.startMs) last.endMs = span.endMs;
    else list.push(span);
  };
  return {
    take(frame: number, speakers: readonly number[]): void {
      for (const [speaker, start] of open) {
        if (speakers.includes(speaker)) continue;
        close(speaker, start, frame);
        open.delete(speaker);
      }
      for (const speaker of speakers) if (!open.has(speaker)) open.set(speaker, frame);
    },
    finish(frames: number): SpeakerTurn[] {
      for (const [speaker, start] of open) close(speaker, start, frames - 1);
      return [...spans]
        .flatMap(([speaker, list]) => list.map((span) => ({ ...span, speaker })))
        .filter(({ startMs, endMs }) => endMs - startMs > MIN_DURATION_ON_MS)
        .map(({ startMs, endMs, speaker }) => ({
          startMs: Math.round(startMs),
          endMs: Math.round(endMs),
          speaker,
        }))
        .sort((one, other) => one.startMs - other.startMs || one.speaker - other.speaker);
    },
  };
}
