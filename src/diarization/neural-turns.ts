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
  const ballot = openBallot(people.reduce((most, person) => Math.max(most, person + 1), 0));
  const personOf = peopleByWindow(info, track, people);
  const { first, end } = frameRange(info, track);
  const frames = lengthInFrames(info, track);
  // An hour has 200,000 frames: arrays for each of them would be hundreds of megabytes, so there are some for a change.
  let before: number[] = [];
  for (let frame = 0, from = 0; frame < frames; frame++) {
    while (from < track.windows.length && end(from) <= frame) from++;
    ballot.begin();
    for (let window = from; window < track.windows.length && first(window) <= frame; window++) {
      ballot.take(track.windows[window]?.[frame - first(window)] ?? 0, personOf, window * info.speakers);
    }
    const talking = ballot.elected();
    if (areSame(talking, before)) continue;
    before = [...talking];
    recorder.take(frame, before);
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

/** Returns the person of each speaker of each window, or −1: those of one window follow those of the one before. */
export function peopleByWindow(
  { speakers }: Pick<SegmentationInfo, "speakers">,
  { windows, voices }: Pick<HeardTrack, "windows" | "voices">,
  people: Int32Array,
): Int32Array {
  const byWindow = new Int32Array(windows.length * speakers).fill(-1);
  for (const [index, { window, speaker }] of voices.entries()) {
    byWindow[window * speakers + speaker] = people[index] ?? -1;
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
 * Counts in each frame how many people the windows hear on average, and elects as many: those with the most votes, of
 * equal ones the lower number. A window has one vote for a person. Its memory is used again for each frame.
 *
 * @param people how many there are
 */
function openBallot(people: number) {
  const votes = new Int32Array(people);
  // The window that voted last for each person, counted from the beginning.
  const lastVoter = new Int32Array(people);
  const chosen: number[] = [];
  let [voter, windows, heard] = [0, 0, 0];
  return {
    /** Begins a frame. */
    begin(): void {
      votes.fill(0);
      windows = 0;
      heard = 0;
    },
    /** Takes what a window hears, as bits, and where its people begin in the list of all windows. */
    take(bits: number, personOf: Int32Array, at: number): void {
      windows++;
      voter++;
      for (let speaker = 0; bits >> speaker > 0; speaker++) {
        if (((bits >> speaker) & 1) === 0) continue;
        heard++;
        const person = personOf[at + speaker] ?? -1;
        if (person < 0 || lastVoter[person] === voter) continue;
        lastVoter[person] = voter;
        votes[person] = (votes[person] ?? 0) + 1;
      }
    },
    /** Returns the people who talk, in order of their numbers. The list is the same for each frame. */
    elected(): readonly number[] {
      chosen.length = 0;
      const seats = windows === 0 ? 0 : Math.min(people, Math.floor(heard / windows + 0.5));
      while (chosen.length < seats) {
        let most = -1;
        for (let person = 0; person < people; person++) {
          if (chosen.includes(person)) continue;
          if (most < 0 || (votes[person] ?? 0) > (votes[most] ?? 0)) most = person;
        }
        chosen.push(most);
      }
      return chosen.sort(byNumber);
    },
  };
}

const byNumber = (one: number, other: number): number => one - other;

function areSame(one: readonly number[], other: readonly number[]): boolean {
  if (one.length !== other.length) return false;
  for (let index = 0; index < one.length; index++) if (one[index] !== other[index]) return false;
  return true;
}

/** Takes who speaks from a frame on, and makes turns of it. */
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
